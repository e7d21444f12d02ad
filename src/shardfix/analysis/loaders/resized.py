"""Whether a dataset has another length when it is read than when its loader was built, where a sampler took it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardfix.analysis.code.module import Module
from shardfix.analysis.loaders.flow import Flow
from shardfix.analysis.loaders.items import Dependence, classes_of

_Functions = (ast.FunctionDef, ast.AsyncFunctionDef)
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_GROWS = frozenset({"append", "extend", "insert", "pop", "remove", "clear", "update", "popitem", "add", "discard"})
_DEPTH = 3  # methods that are looked into, one behind the other


def resized(module: Module, built: ast.Call, dataset: ast.expr | None, flow: Flow) -> Dependence | None:
    """What changes the length of a loader's dataset after the loader is built; None where nothing is seen to.

    A ``DistributedSampler`` takes the length when it is made (torch 2.13); the samplers of one process ask for it in
    each pass.

    Args:
        built: the construction of the loader.
        flow: where the loader goes.
    """
    if dataset is None:
        return None
    classes = classes_of(module, dataset)
    measured = {name for cls in classes for name in _measured(module, cls)}
    for cls in classes:
        for function in _items(module, cls):
            for n in ast.walk(function):
                if _changes(n, "self", measured):
                    return Dependence(n, _why(n, "each read of an item changes the dataset's length"))
    for node in _later(module, built, dataset, flow):
        changed = _changed(module, node, measured, classes)
        if changed is not None:
            why = "the dataset's length is changed after the loader is built, when a sampler has taken it"
            return Dependence(changed, _why(changed, why))
    return None


def _why(node: ast.AST, why: str) -> str:
    text = ast.unparse(node)
    return f"`{text if len(text) < 60 else text[:57] + '...'}`: {why}"


def _measured(module: Module, cls: ast.ClassDef) -> Iterator[str]:
    """The attributes that a dataset's length is read from."""
    home = module.home(cls)
    method = home.method(cls, "__len__")
    for n in ast.walk(method) if method is not None else ():
        if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id == "self":
            yield n.attr


def _items(module: Module, cls: ast.ClassDef) -> Iterator[_Function]:
    home = module.home(cls)
    for name in ("__getitem__", "__getitems__"):
        method = home.method(cls, name)
        if method is not None:
            yield method


def _later(module: Module, built: ast.Call, dataset: ast.expr, flow: Flow) -> Iterator[ast.expr]:
    """The reads of a dataset below the construction of its loader in the same function, and through the loader."""
    line = built.end_lineno or built.lineno
    if isinstance(dataset, ast.Name):
        made, scope = module.bindings.reaching(dataset), module.scope(built)
        for n in ast.walk(scope):
            if isinstance(n, ast.Name) and n.id == dataset.id and n.lineno > line and module.scope(n) is scope:
                if isinstance(n.ctx, ast.Load) and made & (module.bindings.reaching(n) or made):
                    yield n
    for use in flow.of("attribute"):
        if isinstance(use.node, ast.Attribute) and use.node.attr == "dataset":
            yield use.node


def _changed(module: Module, node: ast.expr, measured: set[str], classes: list[ast.ClassDef]) -> ast.AST | None:
    """The statement or call that changes the length of the dataset that an expression is."""
    home = module.home(node)
    outer = home.parents.get(node)
    if isinstance(outer, ast.Subscript) and isinstance(outer.ctx, ast.Del) and outer.value is node:
        return home.statement(outer)
    if not isinstance(outer, ast.Attribute) or outer.value is not node:
        return None
    if _changes(home.statement(outer), ast.unparse(node), measured) and outer.attr in measured:
        return home.statement(outer)
    call = home.parents.get(outer)
    if not isinstance(call, ast.Call) or call.func is not outer:
        return None
    methods = [m for cls in classes if (m := home.method(cls, outer.attr)) is not None]
    if any(_resizes(home, m, measured, 0) for m in methods):
        return call
    plain = not classes and isinstance(node, ast.Name) and outer.attr in _GROWS and _is_list(home, node)
    return call if plain else None


def _is_list(module: Module, node: ast.Name) -> bool:
    made = [d.value for d in module.bindings.reaching(node)]
    return bool(made) and all(isinstance(v, (ast.List, ast.ListComp)) for v in made)


def _resizes(module: Module, method: _Function, measured: set[str], depth: int) -> bool:
    home = module.home(method)
    for n in ast.walk(method):
        if _changes(n, "self", measured):
            return True
        if isinstance(n, ast.Call) and depth < _DEPTH and isinstance(n.func, ast.Attribute):
            if ast.unparse(n.func.value) == "self":
                if any(_resizes(home, f, measured, depth + 1) for f in home.called_functions(n, passed=False)):
                    return True
    return False


def _changes(node: ast.AST, owner: str, measured: set[str]) -> bool:
    """Whether a statement or call changes one of these attributes of an object, or makes what it holds longer."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = [e for t in node.targets for e in (t.elts if isinstance(t, (ast.Tuple, ast.List)) else [t])]
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        targets = [node.target]
    elif isinstance(node, ast.Delete):
        targets = [t.value if isinstance(t, ast.Subscript) else t for t in node.targets]
    elif isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call) and _changes(node.value, owner, measured)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _GROWS:
        targets = [node.func.value]
    return any(isinstance(t, ast.Attribute) and t.attr in measured and ast.unparse(t.value) == owner for t in targets)


__all__ = ["resized"]
