"""Files that each rank writes behind an evaluation and reads again: another rank may be writing what one reads."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.code.tree import calls_within
from shardfix.analysis.programs.processes import is_main_test, is_rank

# Functions that write a file, by the place of its path; -1 stands for the object whose method it is.
_WRITERS = {
    **dict.fromkeys(("savetxt", "savez", "to_csv", "to_json", "to_pickle", "to_excel"), 0),
    **dict.fromkeys(("write_text", "write_bytes"), -1),
}
# What is given a path and does not look into the file, or tells of it only.
_NAMES_ONLY = frozenset(
    {"join", "format", "str", "Path", "PurePath", "exists", "isfile", "isdir", "dirname", "basename", "makedirs"}
    | {"mkdir", "abspath", "realpath", "expanduser", "splitext", "print", "info", "debug", "warning", "error", "log"}
    | {"remove", "unlink", "relpath", "with_suffix", "append"}
)
_WAITS = frozenset({"all_here", "barrier", "monitored_barrier", "wait_for_everyone"})
_LEAVES = (ast.Return, ast.Continue, ast.Break, ast.Raise)
_REPEATS = (ast.For, ast.AsyncFor, ast.While)
_DEPTH = 3  # functions in functions that are looked into


@dataclass(frozen=True, eq=False, slots=True)
class Reread:
    """A file that is written and read again.

    Args:
        path: as it is written down; ``writer``, ``reader``: the calls.
        statement: behind which all ranks can wait for one another; None where not all of them are seen to come by.
    """

    path: ast.expr
    writer: ast.Call
    reader: ast.Call
    statement: ast.stmt | None


def reread(module: Module, loop: ast.stmt) -> list[Reread]:
    """The files that are written behind a loop and read again in the same function, the first reading of each.

    What one rank writes and reads by itself is none: where a condition lets only the main process do both.
    """
    statements = list(_behind(module, loop))
    found: list[Reread] = []
    for place, (written, waits) in enumerate(statements):
        for writer, path in _written(module, written):
            for read, _ in statements[place:]:
                readers = [c for c in _calls(read) if c is not writer and _reads(module, c, path)]
                readers = [r for r in readers if r.lineno > writer.lineno and not _one_rank_s(module, writer, r)]
                if readers and _waited(module, loop, writer, readers[0]):
                    break
                if readers:
                    between = any(r in set(ast.walk(written)) for r in readers)
                    found.append(Reread(path, writer, readers[0], written if waits and not between else None))
                    break
    return found


OVERWRITTEN = "which every rank opens for itself: sharded, what one writes of its samples is lost under another's"


def opened_by_all(module: Module, receiver: ast.expr) -> ast.expr | None:
    """The path of a file that is open for writing under a name, the same one on all ranks; None where it is none."""
    if not isinstance(receiver, ast.Name):
        return None
    for d in module.bindings.reaching(receiver):
        value = d.value
        while isinstance(value, ast.Call) and _opened(value) is None and value.args:
            value = value.args[0]  # csv.writer(open(..))
        path = _opened(value) if isinstance(value, ast.Call) else None
        by_rank = path is None or any(isinstance(n, ast.expr) and is_rank(n) for n in ast.walk(path))
        if path is not None and not by_rank and not _guarded(module, d.node):
            return path
    return None


def _behind(module: Module, loop: ast.stmt) -> Iterator[tuple[ast.stmt, bool]]:
    """The statements behind a loop up to the next turn of one around it, and whether each rank comes past each."""
    statement, own, scope = loop, True, module.scope(loop)
    while True:
        block = module.block(statement)
        if statement not in block:
            return
        for s in block[block.index(statement) + 1 :]:
            own = own and not any(isinstance(n, _LEAVES) for n in ast.walk(s))
            yield s, own
        outer = module.parents[statement]
        if outer is scope or not isinstance(outer, ast.stmt) or isinstance(outer, _REPEATS):
            return
        own = own and isinstance(outer, (ast.With, ast.AsyncWith))
        statement = outer


def _waited(module: Module, loop: ast.stmt, writer: ast.Call, reader: ast.Call) -> bool:
    """Whether all ranks wait for one another between two calls."""
    between = (c for s, own in _behind(module, loop) if own for c in _calls(s) if last_name(c.func) in _WAITS)
    return any(writer.lineno < c.lineno < reader.lineno and not _guarded(module, c) for c in between)


def _guarded(module: Module, node: ast.AST) -> bool:
    return any(isinstance(n, ast.If) and is_main_test(n.test) for n in module.around(node))


def _calls(statement: ast.stmt) -> list[ast.Call]:
    return sorted(calls_within(statement), key=lambda n: (n.lineno, n.col_offset))


def _written(module: Module, statement: ast.stmt) -> Iterator[tuple[ast.Call, ast.expr]]:
    """The calls of a statement that write a file, with its path."""
    for call in _calls(statement):
        path = _opened(call)
        if path is not None:
            yield call, path
        elif last_name(call.func) not in _NAMES_ONLY and writes_a_file(module, call):
            yield from ((call, a) for a in [*call.args, *(k.value for k in call.keywords)] if _is_path(a))


def _opened(call: ast.Call) -> ast.expr | None:
    """The path of what a call opens for writing, or writes."""
    name = last_name(call.func)
    receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
    if name == "open":
        named = [k.value for k in call.keywords if k.arg == "mode"]
        of_path = receiver is not None and not isinstance(receiver, ast.Name)  # Path(..).open("w")
        modes = [m.value for m in [*call.args, *named] if isinstance(m, ast.Constant) and isinstance(m.value, str)]
        if not any(len(mode) < 4 and set(mode) & set("wax") for mode in modes):
            return None
        return receiver if of_path else call.args[0] if call.args else None
    place = _WRITERS.get(name)
    if place is None:
        return None
    return receiver if place < 0 else call.args[place] if len(call.args) > place else None


def writes_a_file(module: Module, call: ast.Call, depth: int = 0) -> bool:
    """Whether a function of the project opens a file for writing."""
    if depth >= _DEPTH:
        return False
    for function in module.called_functions(call):
        own = module.home(function)
        for inner in calls_within(function):
            if _opened(inner) is not None or writes_a_file(own, inner, depth + 1):
                return True
    return False


def _reads(module: Module, call: ast.Call, path: ast.expr) -> bool:
    """Whether a call is given a path and may look into the file."""
    if last_name(call.func) in _NAMES_ONLY or _opened(call) is not None:
        return False
    given = [*call.args, *(k.value for k in call.keywords)]
    if isinstance(call.func, ast.Attribute):
        given.append(call.func.value)  # Path(..).read_text()
    inner = [n for g in given for n in ast.walk(g) if isinstance(n, ast.expr)]
    return any(_same(module, n, path) for n in inner)


def _same(module: Module, node: ast.expr, path: ast.expr) -> bool:
    """Whether two expressions are the same path, as they are written or by the texts that they are made of."""
    if ast.unparse(node) == ast.unparse(path):
        return not isinstance(node, ast.Constant) or isinstance(node.value, str)
    texts = _texts(module, path)
    return bool(texts) and _texts(module, node) == texts


def _texts(module: Module, node: ast.expr) -> list[str]:
    """The texts that a path is put together of; none where one of them does not look like a file's name."""
    if isinstance(node, ast.Name):
        made = list(module.bindings.reaching(node))
        value = made[0].value if len(made) == 1 and made[0].kind == "assign" and made[0].index is None else None
        return _texts(module, value) if value is not None and not isinstance(value, ast.Name) else []
    found = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return found if any("." in text or "/" in text for text in found) else []


def _is_path(node: ast.expr) -> bool:
    """Whether an expression may be a file's path: a name that says so, or texts that are put together."""
    if isinstance(node, (ast.Name, ast.Attribute)):
        words = ast.unparse(node).lower()
        return any(word in words for word in ("path", "file", "output", "out_", "fname", "gold", "pred"))
    return any(isinstance(n, ast.Constant) and isinstance(n.value, str) for n in ast.walk(node)) and not isinstance(
        node, ast.Constant
    )


def _one_rank_s(module: Module, writer: ast.Call, reader: ast.Call) -> bool:
    """Whether a condition around both lets only the main process in."""
    shared = set(module.around(writer)) & set(module.around(reader))
    return any(isinstance(n, ast.If) and is_main_test(n.test) and reader not in _else(n) for n in shared)


def _else(test: ast.If) -> set[ast.AST]:
    return {n for s in test.orelse for n in ast.walk(s)}


__all__ = ["OVERWRITTEN", "Reread", "opened_by_all", "reread", "writes_a_file"]
