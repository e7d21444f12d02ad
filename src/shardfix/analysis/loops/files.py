"""Whether a file that all ranks read may be one that one process writes: by the last parts of the paths."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from shardfix.analysis.code.calling import argument_of
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of, is_none, last_name
from shardfix.analysis.loops.effects import effects

_DEPTH = 6
_Functions = (ast.FunctionDef, ast.AsyncFunctionDef)
_FOLDERS = frozenset({"makedirs", "mkdir"})
_SECOND = frozenset({"save", "dump", "savez", "savetxt", "save_file", "copyfile", "move"})  # save(what, path)
_FIRST = frozenset({"to_csv", "to_json", "to_excel", "to_pickle", "to_parquet", "savefig", "open", "write_text"})
_HANDLES = frozenset({"write", "writelines", "writerow", "writerows", "writeheader"})
# What `save_pretrained` writes, and `from_pretrained` reads: the beginnings of the names.
_OF_MODELS = (
    *("config", "generation_config", "tokenizer", "vocab", "merges", "added_tokens", "special_tokens", "spiece"),
    *("sentencepiece", "pytorch_model", "model", "adapter", "preprocessor", "processor", "chat_template", "tf_model"),
)


@dataclass(frozen=True, slots=True)
class _Name:
    """How the last part of a path begins and ends; nothing is known of what is between, unless that is all."""

    start: str
    end: str
    whole: bool

    def meets(self, other: _Name) -> bool:
        """Whether both may be one name."""
        if self.whole and other.whole:
            return self.start == other.start
        for one, two in ((self, other), (other, self)):
            if one.whole:
                return one.start.startswith(two.start) and one.start.endswith(two.end)
        starts = self.start.startswith(other.start) or other.start.startswith(self.start)
        return starts and (self.end.endswith(other.end) or other.end.endswith(self.end))

    @property
    def of_a_model(self) -> bool:
        """Whether it may be one of the files that a model is saved in."""
        return any(self.start.startswith(n) or (not self.whole and n.startswith(self.start)) for n in _OF_MODELS)


_ANY = _Name("", "", False)


def may_meet(module: Module, read: ast.Call, writer: Module, statement: ast.stmt) -> bool:
    """Whether a call may read a file that a statement writes."""
    name, home = last_name(read.func), module.home(read)
    if name == "load_state_dict":
        return False  # of what another call has read
    if name != "from_pretrained" and _is_handle(home, read):
        return False
    written = list(_written(writer, statement))
    if name == "from_pretrained":
        return any(w.of_a_model for w in written)
    path = next(iter(arguments_of(read)), None)
    names = _names(home, path, 0) if path is not None else [_ANY]
    return any(n.meets(w) for n in names for w in written)


def _is_handle(module: Module, read: ast.Call) -> bool:
    """``json.load(f)`` of a file that another call opens."""
    given = next(iter(read.args), None)
    if not isinstance(given, ast.Name) or last_name(read.func) != "load":
        return False
    found = module.bindings.reaching(given)
    return bool(found) and all(isinstance(d.statement, ast.With) for d in found)


def _written(module: Module, statement: ast.stmt) -> Iterator[_Name]:
    """The names of the files that a statement writes, any name where that is not seen."""
    for e in effects(module, statement):
        if e.kind != "writes":
            continue
        home, name = module.home(e.node), last_name(e.node.func)
        given = arguments_of(e.node)
        if name in _FOLDERS or (name in _HANDLES and isinstance(e.node.func, ast.Attribute)):
            continue  # to what another call has opened
        if name == "save_pretrained":
            yield _Name("model", "", False)
        elif name in _SECOND and len(given) > 1:
            handle = isinstance(given[1], ast.Name) and any(
                isinstance(d.statement, ast.With) for d in home.bindings.reaching(given[1])
            )
            yield from [] if handle else _names(home, given[1], 0)
        elif name in _FIRST and given:
            yield from _names(home, given[0], 0)
        else:
            yield _ANY


def _names(module: Module, path: ast.expr, depth: int) -> list[_Name]:
    """What the last part of a path may be, for each way in which it is made."""
    if depth > _DEPTH:
        return [_ANY]
    if isinstance(path, ast.Constant) and isinstance(path.value, str):
        return [_Name(path.value.rpartition("/")[2], "", True)]
    if isinstance(path, ast.IfExp):
        return [*_names(module, path.body, depth + 1), *_names(module, path.orelse, depth + 1)]
    if isinstance(path, ast.JoinedStr):
        parts = [v.value if isinstance(v, ast.Constant) else None for v in path.values]
        return [_of_parts([str(p) if p is not None else None for p in parts])]
    if isinstance(path, ast.BinOp) and isinstance(path.op, (ast.Add, ast.Div)):
        behind = _names(module, path.right, depth + 1)
        if isinstance(path.op, ast.Div) or _has_folder(path.right):
            return behind
        before = _names(module, path.left, depth + 1)
        return [_Name(b.start, a.start if a.whole else a.end, False) for a in behind for b in before]
    if isinstance(path, ast.Call):
        if last_name(path.func) == "join" and path.args and not any(isinstance(a, ast.Starred) for a in path.args):
            return _names(module, path.args[-1], depth + 1)
        text = path.func.value if isinstance(path.func, ast.Attribute) and path.func.attr == "format" else None
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            first, last = text.value.partition("{")[0], text.value.rpartition("}")[2]
            return [_of_parts([first, None, last])]
        if last_name(path.func) in ("str", "Path", "open") and path.args:
            return _names(module, path.args[0], depth + 1)
        return [_ANY]
    found = list(module.bindings.reaching(path)) if isinstance(path, (ast.Name, ast.Attribute)) else []
    names: list[_Name] = []
    for d in found:
        if d.kind == "assign" and d.index is None and d.value is not None:
            home = module.home(d.value)
            names += [] if is_none(d.value) else _names(home, d.value, depth + 1)
        elif d.kind == "parameter" and isinstance(d.scope, _Functions):
            for call in module.callers(d.scope):
                given = argument_of(module, d.scope, call, d.key)
                names += _names(module.home(call), given, depth + 1) if given is not None else [_ANY]
        else:
            return [_ANY]
    return names or [_ANY]


def _of_parts(parts: list[str | None]) -> _Name:
    """A name of texts and what stands between them."""
    place = max((i for i, p in enumerate(parts) if p is not None and "/" in p), default=None)
    if place is not None:
        parts = [(parts[place] or "").rpartition("/")[2], *parts[place + 1 :]]
    if len(parts) == 1:
        return _Name(parts[0] or "", "", True)
    return _Name(parts[0] or "", parts[-1] or "", False)


def _has_folder(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and "/" in node.value


__all__ = ["may_meet"]
