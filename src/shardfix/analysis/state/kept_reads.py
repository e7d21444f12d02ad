"""Where a program reads what its models, datasets and collators keep: of one rank's samples, once it is shared out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.calling import Function
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.code.tree import walk
from shardfix.analysis.metrics.model import Obstacle
from shardfix.analysis.programs.together import together
from shardfix.analysis.state.keeping import MADE_BY, Keeping, Kept, keeping, run_by
from shardfix.analysis.state.mutations import objects, root_name
from shardfix.analysis.state.stored import is_settings

_REPEATS = (ast.For, ast.AsyncFor, ast.While)
_BATCHES = re.compile(r"load|data|iter|batch|epoch|range|sample", re.IGNORECASE)  # words of what is gone through
_GIVE_IT = frozenset({"to", "cuda", "cpu", "eval", "train", "half", "float", "prepare", "unwrap_model", "module"})
_DEPTH = 3


@dataclass(frozen=True, slots=True)
class _Named:
    """What a file reads by a name: at its top level, or as a text that is an attribute's name."""

    names: dict[str, list[ast.expr]] = field(default_factory=dict)
    by_key: dict[str, list[ast.expr]] = field(default_factory=dict)


_KNOWN: WeakKeyDictionary[Module, _Named] = WeakKeyDictionary()


def _named(module: Module) -> _Named:
    known = _KNOWN.get(module)
    if known is None:
        known = _KNOWN[module] = _Named()
        for n in walk(module.tree):
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load):
                known.names.setdefault(n.id, []).append(n)
            elif isinstance(n, ast.Call) and last_name(n.func) in ("getattr", "get_buffer") and n.args:
                _by_key(known, n.args[-1 if last_name(n.func) == "get_buffer" else min(1, len(n.args) - 1)], n)
            elif isinstance(n, ast.Subscript) and _is_dict(n.value):
                _by_key(known, n.slice, n)
    return known


def _is_dict(node: ast.expr) -> bool:
    """``vars(model)``, ``model.__dict__``"""
    if isinstance(node, ast.Call):
        return last_name(node.func) in ("vars", "state_dict")
    return isinstance(node, ast.Attribute) and node.attr == "__dict__"


def _by_key(known: _Named, key: ast.expr, node: ast.expr) -> None:
    if isinstance(key, ast.Constant) and isinstance(key.value, str):
        known.by_key.setdefault(key.value, []).append(node)


@dataclass
class _Reads:
    """The reads of what is kept, as one loop has to do with them."""

    module: Module
    loop: ast.For
    kept: Keeping

    def first(self) -> tuple[ast.expr, bool] | None:
        """The first of them, and whether it is of something added up."""
        for m in together(self.module):
            for name, of_name in self.kept.attributes.items():
                for read in self._loads(m, name, of_name):
                    added = any(k.added for k in of_name)
                    if self._matters(m, read, added, of_name, 0):
                        return read, added
        return next(self._of_files(), None) or next(self._of_all(), None)

    def _loads(self, m: Module, name: str, kept: list[Kept]) -> Iterator[ast.expr]:
        for load in m.attribute_loads.get(name, ()):
            whole = all(k.whole for k in kept)
            if not self._is_own(m, load) and self._may_be(m, load.value, kept) and (not whole or _is_whole(m, load)):
                yield load
        yield from (n for n in _named(m).by_key.get(name, ()) if not self._is_own(m, n))

    def _of_files(self) -> Iterator[tuple[ast.expr, bool]]:
        for (path, name), kept in self.kept.names.items():
            for m in together(self.module):
                found = _named(m).names.get(name, ()) if m.path == path else self._imported(m, path, name)
                yield from ((n, kept.added) for n in found if not self._is_own(m, n))

    def _of_all(self) -> Iterator[tuple[ast.expr, bool]]:
        """All attributes of an object at once: ``vars(model)``, ``model.__dict__``."""
        kept = [k for of_name in self.kept.attributes.values() for k in of_name if not k.anywhere]
        for m in together(self.module) if kept else ():
            asked = [(c, c.args[0]) for c in m.calls if last_name(c.func) == "vars" and c.args]
            for whole, owner in (*asked, *((n, n.value) for n in m.attribute_loads.get("__dict__", ()))):
                if not isinstance(m.parents.get(whole), (ast.Subscript, ast.Attribute)) and not self._is_own(m, whole):
                    if self._may_be(m, owner, kept) and self._matters(m, whole, True, kept, 0):
                        yield whole, True

    def _imported(self, m: Module, path: str, name: str) -> list[ast.expr]:
        home = next((f for f in self.module.fellows if f.path == path), None)
        found = [*_named(m).names.get(name, ()), *m.attribute_loads.get(name, ())]
        return [n for n in found if home is not None and f"{home.name}.{name}" in m.qualify(n)]

    def _is_own(self, m: Module, node: ast.AST) -> bool:
        """Whether a read is one of those that keep it, or that only change it."""
        if any(outer in self.kept.methods for outer in m.around(node)):
            return True
        outer = m.parents.get(node)
        call = m.parents.get(outer) if isinstance(outer, ast.Attribute) else None
        alone = isinstance(call, ast.Call) and isinstance(m.parents.get(call), ast.Expr)
        return alone and isinstance(outer, ast.Attribute) and outer.attr in ("clear", "reset", "zero_", "fill_")

    def _may_be(self, m: Module, node: ast.expr, kept: list[Kept]) -> bool:
        """Whether an object may be one that keeps it."""
        if any(k.anywhere for k in kept):
            return True
        classes = [k.cls for k in kept if k.cls is not None]
        if isinstance(node, ast.Name) and node.id in ("self", "cls"):
            own = m.class_of(node)
            return own is None or any(_related(m, own, cls) for cls in classes)
        seen = m.instances(node)
        if seen:
            return any(_related(m, own, cls) for own in seen for cls in classes)
        if isinstance(node, ast.Call):
            return bool(m.project_classes(node.func)) or last_name(node.func) in ("super", "type", "unwrap_model")
        root = root_name(node)
        if root is None or is_settings(node):
            return False
        found = m.bindings.reaching(root)
        return not found or root.id == "self" or any(self._may_stand(m, d) for d in found)

    def _may_stand(self, m: Module, d: Definition) -> bool:
        """Whether a definition may bind an object that keeps something: no module, no batch, no output of a model."""
        value = d.value
        if d.kind == "import":
            return bool(objects(m, d))
        if d.kind == "function":
            return False
        if d.kind == "loop":
            return value is not None and not _BATCHES.search(ast.unparse(value))
        if isinstance(value, ast.Call):
            root = root_name(value.func)
            made = m.bindings.reaching(root) if root is not None else ()
            if isinstance(value.func, ast.Attribute) and value.func.attr in _GIVE_IT:
                return True
            return not made or any(o.kind in ("import", "function", "class", "star-import") for o in made)
        return not isinstance(value, (ast.Constant, ast.BinOp, ast.Compare, ast.Dict, ast.List))

    def _matters(self, m: Module, read: ast.expr, added: bool, kept: list[Kept], depth: int) -> bool:
        """Whether what is read may be of the loop's batches."""
        scope = m.scope(read)
        cls = m.class_of(read)
        by_itself = isinstance(read, ast.Attribute) and ast.unparse(read.value) in ("self", "cls") and cls is not None
        if by_itself and isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if scope.name in MADE_BY:
                return False
            return self._is_asked(m, scope, added, kept, depth)
        if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)) and scope.name in MADE_BY:
            return False
        if m.scope(read) is self.module.scope(self.loop):
            end = self.loop.end_lineno or self.loop.lineno
            around = [n for n in self.module.around(self.loop) if isinstance(n, _REPEATS)]
            if read.lineno < self.loop.lineno and not any(n in around for n in m.around(read)):
                return False
            if self.loop.lineno <= read.lineno <= end:
                return True
        return added or not self._anew(m, read)

    def _is_asked(self, m: Module, method: Function, added: bool, kept: list[Kept], depth: int) -> bool:
        """Whether a method that reads it is called by anything else: by its name, or as an operator calls it."""
        if method.name == "__len__" and any(k.cls is not None and _is_data(m, k.cls) for k in kept):
            return False  # a dataset that changes is told as such
        if method.name.startswith("__") and method.name.endswith("__"):
            return True
        if depth >= _DEPTH:
            return True
        for other in together(self.module):
            for load in other.attribute_loads.get(method.name, ()):
                if not self._is_own(other, load) and self._may_be(other, load.value, kept):
                    if self._matters(other, load, added, kept, depth + 1):
                        return True
        return False

    def _anew(self, m: Module, read: ast.expr) -> bool:
        """Whether a model is run again right before what it keeps is read, which is of that run then."""
        owner = ast.unparse(read.value) if isinstance(read, ast.Attribute) else ""
        turn = next((n for n in m.around(read) if isinstance(n, (*_REPEATS, ast.FunctionDef, ast.Module))), None)
        if turn is self.loop or turn is None or not owner:
            return False
        for n in ast.walk(turn):
            if isinstance(n, ast.Call) and n.lineno <= read.lineno and n is not m.parents.get(read):
                called = ast.unparse(n.func)
                if called in (owner, f"{owner}.forward") or owner.startswith(f"{called}."):
                    if not any(outer is self.loop for outer in m.around(n)):
                        return True
        return False


def _is_whole(module: Module, load: ast.expr) -> bool:
    """Whether an object is read as it is, not a part of it, and not to be called."""
    outer = module.parents.get(load)
    return not isinstance(outer, ast.Attribute) and not (isinstance(outer, ast.Call) and outer.func is load)


def _is_data(module: Module, cls: ast.ClassDef) -> bool:
    return any(module.method(cls, name) is not None for name in ("__getitem__", "__getitems__"))


def _related(module: Module, one: ast.ClassDef, other: ast.ClassDef) -> bool:
    """Whether an object of one class may be of another, or hold what that inherits."""
    return one in module.lineage(other) or other in module.lineage(one)


def kept_out_of_sight(module: Module, loop: ast.For) -> Obstacle | None:
    """The read of what a model, dataset or collator keeps of one rank's samples."""
    kept = keeping(module)
    run_by(kept, module, loop)
    for call in module.calls:
        if last_name(call.func) == "cache_info":
            return Obstacle(module.statement(call), "it counts what one rank's calls have found in a cache")
    if not kept.attributes and not kept.names:
        return None
    found = _Reads(module, loop, kept).first()
    if found is None:
        return None
    read, added = found
    home = module.home(read)
    what = "is added up elsewhere" if added else "is what is kept of the last batch elsewhere"
    here = home is module
    where = "" if here else f"{home.path}:{read.lineno}: "
    return Obstacle(
        home.statement(read) if here else loop, f"{where}`{ast.unparse(read)}` {what}, of one rank's samples"
    )


__all__ = ["kept_out_of_sight"]
