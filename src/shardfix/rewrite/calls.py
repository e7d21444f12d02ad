"""Edit the keywords of one call: LibCST reads its text, everything but the named arguments stays as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from shardfix.rewrite.edits import DropKeyword, SetKeyword
from shardfix.rewrite.layout import NEWLINE
from shardfix.rewrite.listing import Item, Listing, drop, exchange, put

if TYPE_CHECKING:
    import libcst

KeywordEdit = DropKeyword | SetKeyword


def printer(text: str) -> libcst.Module:
    """A module to print nodes parsed from a text: LibCST takes the text's first newline for the default one."""
    import libcst

    first = NEWLINE.search(text)
    return libcst.Module([], default_newline=first[0] if first else "\n")


def parse_expression(text: str) -> libcst.BaseExpression:
    """Parse an expression with LibCST; lines may break anywhere in it.

    Raises:
        ValueError: it does not parse, or LibCST would not give it back byte for byte.
    """
    import libcst

    wrapped = f"({text})"
    try:
        tree = libcst.parse_expression(wrapped)
        same = printer(text).code_for_node(tree) == wrapped
    except libcst.ParserSyntaxError as error:
        raise ValueError(f"not an expression that LibCST can parse: {error.message}") from error
    except RecursionError as error:
        raise ValueError("the expression is nested too deeply to be edited") from error
    if not same:
        raise ValueError("LibCST does not give this expression back byte for byte")
    return tree


def read_call(text: str) -> Listing:
    """The arguments of a call, or the items of a dict display by their keys. A positional argument has no name, an
    unpacked one the name ``*`` or ``**``.

    Raises:
        ValueError: the text is not just one call or dict.
    """
    import libcst

    call = parse_expression(text)
    if isinstance(call, libcst.Dict) and len(call.lpar) == 1:
        return _read_dict(text, call)
    if not isinstance(call, libcst.Call) or len(call.lpar) != 1:
        raise ValueError("there is no call here")
    code = printer(text).code_for_node
    items = []
    for arg in call.args:
        comma, gap = "", code(arg.whitespace_after_arg)
        if isinstance(arg.comma, libcst.Comma):
            comma, gap = gap + code(arg.comma.whitespace_before) + ",", code(arg.comma.whitespace_after)
        bare = arg.with_changes(comma=libcst.MaybeSentinel.DEFAULT, whitespace_after_arg=libcst.SimpleWhitespace(""))
        written = code(bare)
        name = arg.keyword.value if arg.keyword else arg.star
        items.append(Item(name, written, comma, gap, len(written) - len(code(arg.value))))
    listing = Listing("", code(call.whitespace_before_args), tuple(items), ")")
    return replace(listing, head=text[: len(text) - len(listing.code())])


def _read_dict(text: str, node: libcst.Dict) -> Listing:
    import libcst

    code = printer(text).code_for_node
    items = []
    for element in node.elements:
        comma, gap = "", ""
        if isinstance(element.comma, libcst.Comma):
            comma, gap = code(element.comma.whitespace_before) + ",", code(element.comma.whitespace_after)
        written = code(element.with_changes(comma=libcst.MaybeSentinel.DEFAULT))
        key = element.key if isinstance(element, libcst.DictElement) else None
        name = key.evaluated_value if isinstance(key, libcst.SimpleString) else "**" if key is None else ""
        items.append(Item(str(name), written, comma, gap, len(written) - len(code(element.value))))
    end = code(node.rbrace.whitespace_before)
    lead = code(node.lbrace.whitespace_after)
    if items:
        items[-1] = replace(items[-1], gap=items[-1].gap + end)
    else:
        lead += end
    listing = Listing("{", lead, tuple(items), "}")
    if listing.code() != text:
        raise ValueError("the dict's layout is not understood")
    return listing


def edit_call(
    text: str, edits: Sequence[KeywordEdit], *, newline: str, indent: str, original: str | None = None
) -> str:
    """Carry out the keyword edits of one call.

    Args:
        text: the call, inner edits already made.
        edits: without duplicates.
        newline: what ends a line here.
        indent: where an own-line comment goes in a call that stands on one line.
        original: the call before the inner edits, if there were any.

    Raises:
        ValueError: the edits contradict each other, an inner edit or the call.
    """
    listing = read_call(text)
    assert listing.code() == text
    replaced: set[str] = set()
    values: dict[str, SetKeyword] = {}
    for edit in edits:
        if isinstance(edit, SetKeyword):
            if values.setdefault(edit.name, edit).value != edit.value:
                raise ValueError(f"two edits give `{edit.name}` different values")
            if edit.replacing is not None:
                replaced.add(edit.replacing)
    dropped = {edit.name for edit in edits if isinstance(edit, DropKeyword)}
    if both := sorted((dropped | replaced) & set(values)):
        raise ValueError(f"one edit sets `{both[0]}`, another removes it")
    if values and listing.tail == "}":
        raise ValueError("an item of a dict is no keyword")
    before = read_call(original) if original is not None and original != text else listing
    for edit in values.values():
        listing = _set(listing, before, edit, newline, indent)
    for name in sorted(dropped | replaced):
        index = listing.find(name)
        if index is not None:
            listing = drop(listing, index, newline=newline, indent=indent)
        elif name not in replaced:
            raise ValueError(f"the call has no keyword `{name}`")
    result = listing.code()
    read_call(result)
    return result


def _set(listing: Listing, before: Listing, edit: SetKeyword, newline: str, indent: str) -> Listing:
    index = listing.find(edit.name)
    if index is None and edit.positional is not None:
        index = edit.positional
        if [item.name for item in listing.items[: index + 1]] != [""] * (index + 1):
            raise ValueError(f"the call does not pass `{edit.name}` as positional argument {index}")
    if index is not None:
        old = listing.items[index]
        if old.text != before.items[index].text:
            raise ValueError(f"another edit lies inside the value of `{edit.name}`, which is replaced")
        new = replace(old, text=old.text[: old.value_at] + edit.value)
        return exchange(listing, index, new, newline=newline, indent=indent)
    index = listing.find(edit.replacing) if edit.replacing else None
    if index is not None:
        old = listing.items[index]
        equal = old.text[len(old.name) : old.value_at]
        new = replace(old, name=edit.name, text=edit.name + equal + edit.value, value_at=len(edit.name + equal))
        return exchange(listing, index, new, newline=newline, indent=indent)
    place = listing.find("**")
    spaced = [item for item in listing.items if item.name not in ("", "*", "**")]
    equal = spaced[-1].text[len(spaced[-1].name) : spaced[-1].value_at] if spaced else "="
    new = Item(edit.name, edit.name + equal + edit.value, "", "", len(edit.name + equal))
    return put(listing, len(listing.items) if place is None else place, new, newline=newline, indent=indent)
