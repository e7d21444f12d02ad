"""What must hold for an edited text before anything is written: checks that know nothing of how the edits were made."""

from __future__ import annotations

import builtins
import symtable
import warnings
from collections import Counter

from shardfix.rewrite.applier import Applied
from shardfix.rewrite.blocks import parse
from shardfix.rewrite.layout import NEWLINE, comments_of, is_directive
from shardfix.rewrite.patches import splice

# What Python binds in every module without a statement (Python data model, "Modules").
_MODULE_NAMES = {"__annotations__", "__builtins__", "__cached__", "__dict__", "__doc__", "__file__", "__loader__"} | {
    "__name__",
    "__package__",
    "__path__",
    "__spec__",
}


class GateError(Exception):
    """An edited file failed a check (``gate``), so it must not be written."""

    def __init__(self, path: str, gate: str, reason: str) -> None:
        super().__init__(path, gate, reason)
        self.path, self.gate, self.reason = path, gate, reason

    def __str__(self) -> str:
        return f"{self.path}: not written, {self.reason} ({self.gate} gate)"


def check(original: str, result: Applied, *, path: str) -> None:
    """Hold the edited text against the original: it parses, nothing else changed, no name is unbound, no comment lost.

    Raises:
        GateError: with the gate ``parses``, ``untouched``, ``names`` or ``comments``.
    """
    if result.text == original:
        return
    try:
        parse(result.text)
    except ValueError as error:
        raise GateError(path, "parses", f"the edited file {error}") from error
    _check_untouched(original, result, path)
    # Most files have no unbound name at all; only one that has is compared with its original.
    if (missing := unbound(result.text, path)) and (lost := sorted(missing - unbound(original, path))):
        raise GateError(path, "names", f"nothing binds the name `{lost[0]}` that the edited file uses")
    kept = Counter(comments_of(result.text))
    for comment, count in Counter(comments_of(original)).items():
        if kept[comment] < count and not is_directive(comment):
            raise GateError(path, "comments", f"the comment `{comment}` would be lost")


def _check_untouched(original: str, result: Applied, path: str) -> None:
    at = 0
    for patch in result.patches:
        if not at <= patch.span.start <= patch.span.end <= len(original):
            raise GateError(path, "untouched", "the patches overlap or are out of order")
        at = patch.span.end
    if splice(original, result.patches) != result.text:
        raise GateError(path, "untouched", "a line outside the edited stretches changed")
    if original.endswith(("\n", "\r")) != result.text.endswith(("\n", "\r")) and original and result.text:
        raise GateError(path, "untouched", "the newline at the end of the file changed")
    strange = set(NEWLINE.findall(result.text)) - set(NEWLINE.findall(original))
    if strange and NEWLINE.search(original):
        raise GateError(path, "untouched", f"a newline {sorted(strange)[0]!r} came in that the file does not use")


def unbound(text: str, path: str) -> set[str]:
    """The names that a text reads and that nothing visible binds: no enclosing function, the module, or a builtin.

    Raises:
        SyntaxError: the text does not compile.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = symtable.symtable(text, path, "exec")
    bound, read = set(dir(builtins)) | _MODULE_NAMES, set()
    pending = [module]
    while pending:
        table = pending.pop()
        pending += table.get_children()
        for symbol in table.get_symbols():
            if table is not module and not symbol.is_global():
                continue
            if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace():
                bound.add(symbol.get_name())
            if symbol.is_referenced():
                read.add(symbol.get_name())
    return read - bound
