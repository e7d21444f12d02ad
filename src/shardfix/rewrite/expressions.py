"""Edit, replace and wrap expressions, also inside each other."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from shardfix.rewrite.blocks import parse
from shardfix.rewrite.calls import KeywordEdit, edit_call, parse_expression
from shardfix.rewrite.edits import DropKeyword, ReplaceExpression, SetKeyword, Span, WrapExpression
from shardfix.rewrite.layout import NEWLINE, Layout, read_layout
from shardfix.rewrite.patches import Patch, splice

# What keeps together wherever it stands.
_ATOMS = (ast.Name, ast.Constant, ast.Call, ast.Attribute, ast.Subscript, ast.List, ast.Dict, ast.Set)


@dataclass(slots=True)
class _Place:
    """The edits of one expression, and the edited expressions inside it."""

    span: Span
    calls: list[KeywordEdit] = field(default_factory=list)
    wraps: list[WrapExpression] = field(default_factory=list)
    replacement: str | None = None
    inner: list[_Place] = field(default_factory=list)


ExpressionEdit = DropKeyword | SetKeyword | ReplaceExpression | WrapExpression


def span_of(edit: ExpressionEdit) -> Span:
    return edit.call if isinstance(edit, (DropKeyword, SetKeyword)) else edit.span


def expression_patches(layout: Layout, edits: Sequence[ExpressionEdit]) -> list[Patch]:
    places: dict[Span, _Place] = {}
    for edit in edits:
        span = span_of(edit)
        if not 0 <= span.start < span.end <= len(layout.text):
            layout.fail(max(0, min(span.start, len(layout.text))), "the edit's span is not in the file")
        place = places.setdefault(span, _Place(span))
        if isinstance(edit, WrapExpression):
            place.wraps.append(edit)
        elif isinstance(edit, ReplaceExpression):
            if place.replacement not in (None, edit.source):
                layout.fail(span.start, "two edits replace this expression by different ones")
            place.replacement = edit.source
        else:
            place.calls.append(edit)
    roots: list[_Place] = []
    stack: list[_Place] = []
    for place in sorted(places.values(), key=lambda place: (place.span.start, -place.span.end)):
        while stack and stack[-1].span.end <= place.span.start:
            stack.pop()
        if stack and place.span.end > stack[-1].span.end:
            layout.fail(place.span.start, "two edits overlap here without one being inside the other")
        (stack[-1].inner if stack else roots).append(place)
        stack.append(place)
    return [Patch(place.span, _render(layout, place)) for place in roots]


def _render(layout: Layout, place: _Place) -> str:
    start, end = place.span.start, place.span.end
    original = layout.text[start:end]
    line = layout.line_of(start)
    try:
        if place.replacement is not None:
            if place.inner or place.calls:
                raise ValueError("another edit lies inside this expression, which is replaced")
            if layout.comments_in(start, end):
                raise ValueError("the expression holds a comment that would be lost; edit it by hand")
            result = place.replacement
        else:
            inner = [
                Patch(Span(child.span.start - start, child.span.end - start), _render(layout, child))
                for child in place.inner
            ]
            result = splice(original, inner)
        if place.calls:
            result = edit_call(
                result,
                place.calls,
                newline=layout.newline(line),
                indent=layout.indent(line) + "    ",
                original=original,
            )
        column = start - layout.starts[line]
        for wrap in place.wraps:
            result = wrap.before + _moved(_bracketed(result), column, len(wrap.before)) + wrap.after
        if place.wraps or place.replacement is not None:
            parse_expression(result)
    except ValueError as error:
        layout.fail(start, str(error))
    return result


def check_brackets(layout: Layout, edits: Sequence[ReplaceExpression]) -> None:
    """See that every new expression is one in its new place too (``a or b`` behind ``not`` is not)."""
    loose = [
        edit
        for edit in edits
        if (node := _parsed(edit.source)) and not isinstance(node, _ATOMS) and not _is_bracketed(edit.source)
    ]
    if not loose:
        return
    loose.sort(key=lambda edit: edit.span)
    wanted: dict[Span, ReplaceExpression] = {}
    shift = 0
    for edit in loose:
        start = edit.span.start + shift
        wanted[Span(start, start + len(edit.source))] = edit
        shift += len(edit.source) - (edit.span.end - edit.span.start)
    result = read_layout(layout.path, splice(layout.text, [Patch(edit.span, edit.source) for edit in loose]))
    try:
        module = parse(result.text)
    except ValueError as error:
        layout.fail(loose[0].span.start, f"with the new expression the file {error}")
    lines = {result.line_of(span.start) + 1 for span in wanted}
    for new in ast.walk(module):
        if isinstance(new, ast.expr) and new.lineno in lines:
            end = result.offset(new.end_lineno or new.lineno, new.end_col_offset or 0)
            wanted.pop(Span(result.offset(new.lineno, new.col_offset), end), None)
    for edit in wanted.values():
        layout.fail(edit.span.start, "the new expression needs brackets here")


def _is_bracketed(expression: str) -> bool:
    """Whether one pair of brackets stands around the whole expression: ``(a if b else c)``, not ``(a) + (b)``."""
    text = expression.strip()
    return text.startswith("(") and text.endswith(")") and _parsed(text[1:-1]) is not None


def _parsed(expression: str) -> ast.expr | None:
    """The expression, None if it is none."""
    try:
        return ast.parse(f"({expression})", mode="eval").body
    except SyntaxError:
        return None


def _moved(expression: str, column: int, by: int) -> str:
    """An expression whose lines are aligned with what stands behind its bracket, aligned so once it starts further to
    the right. Lines that are only indented stay; so does everything where a string goes over a line's end.

    Args:
        column: where the expression starts in its line, in characters.
    """
    ends = [found.end() for found in NEWLINE.finditer(expression)]
    if not ends or expression[: ends[0]].rstrip().endswith(("(", "[", "{", "\\")) or "#" in expression[: ends[0]]:
        return expression
    strings = (
        n for n in ast.walk(ast.parse(f"({expression})", mode="eval")) if isinstance(n, (ast.Constant, ast.JoinedStr))
    )
    if any(n.lineno != n.end_lineno for n in strings):
        return expression
    lines = [expression[a:b] for a, b in pairwise([*ends, len(expression)])]
    if any(line.strip() and len(line) - len(line.lstrip(" ")) <= column for line in lines):
        return expression
    return expression[: ends[0]] + "".join(" " * by + line if line.strip() else line for line in lines)


def _bracketed(expression: str) -> str:
    """An expression as it can be a call's only argument."""
    node = ast.parse(f"({expression})", mode="eval").body
    if isinstance(node, (ast.Tuple, ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.GeneratorExp)):
        return f"({expression})"
    return expression
