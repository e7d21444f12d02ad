"""Items of a container that are prepared in place: ``loaders[k] = accelerator.prepare(loaders[k])``."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from shardfix.analysis.code.module import Module
from shardfix.analysis.programs.accelerators import is_prepare


@dataclass(frozen=True, slots=True)
class Rebinding:
    """One such assignment; ``keys`` are the items that it replaces, None for every one."""

    container: ast.expr
    statement: ast.stmt
    keys: frozenset[str | int] | None


def rebindings(module: Module, prepare_functions: tuple[str, ...]) -> list[Rebinding]:
    """The assignments of a module by which items of a container are prepared in place."""
    found: list[Rebinding] = []
    for call in module.calls:
        statement = module.parents[call]
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        target = statement.targets[0]
        targets = target.elts if isinstance(target, ast.Tuple) else [target]
        if not any(isinstance(t, ast.Subscript) for t in targets) or len(targets) != len(call.args):
            continue
        if not is_prepare(module, call, prepare_functions):
            continue
        for t, given in zip(targets, call.args, strict=True):
            if isinstance(t, ast.Subscript) and not _leaves_out(_loop(module, t)):
                own = _same_item(module, t, given) or _item_of_loop(module, t, given)
                if own:
                    found.append(Rebinding(t.value, statement, _keys(module, t)))
    return found


def _same_item(module: Module, target: ast.Subscript, given: ast.expr) -> bool:
    return isinstance(given, ast.Subscript) and module.source.source(given) == module.source.source(target)


def _loop(module: Module, target: ast.Subscript) -> ast.For | None:
    """The loop that binds the key of an item."""
    for n in module.around(target):
        if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)) or not isinstance(target.slice, ast.Name):
            break
        if isinstance(n, ast.For) and target.slice.id in {m.id for m in ast.walk(n.target) if isinstance(m, ast.Name)}:
            return n
    return None


def _leaves_out(loop: ast.For | None) -> bool:
    """Whether a loop may pass items over, or end before the last."""
    return loop is not None and any(isinstance(n, (ast.Break, ast.Continue)) for n in ast.walk(loop))


def _item_of_loop(module: Module, target: ast.Subscript, given: ast.expr) -> bool:
    """``for k, loader in loaders.items(): loaders[k] = accelerator.prepare(loader)``, or so by ``enumerate``."""
    loop = _loop(module, target)
    if loop is None or not isinstance(given, ast.Name) or not isinstance(loop.target, ast.Tuple):
        return False
    names = [e.id for e in loop.target.elts if isinstance(e, ast.Name)]
    over = _enumerated(loop.iter)
    suffixes = (".items()",) if over is loop.iter else ("",)
    return len(names) == 2 and given.id == names[1] and _over(module, over, target.value, suffixes)


def _enumerated(node: ast.expr) -> ast.expr:
    """What ``enumerate(x)`` counts from 0: ``x``. Anything else as it is."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "enumerate":
        return node.args[0] if len(node.args) == 1 and not node.keywords else node
    return node


def _over(module: Module, node: ast.expr, container: ast.expr, suffixes: tuple[str, ...]) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("list", "tuple", "sorted"):
        return len(node.args) == 1 and _over(module, node.args[0], container, suffixes)
    source = module.source.source(container)
    return module.source.source(node) in {source + suffix for suffix in suffixes}


def _keys(module: Module, target: ast.Subscript) -> frozenset[str | int] | None:
    key = target.slice
    if isinstance(key, ast.Constant) and isinstance(key.value, (str, int)):
        return frozenset((key.value,))
    loop = _loop(module, target)
    if loop is None:
        return frozenset()
    if _over(module, _enumerated(loop.iter), target.value, ("", ".keys()", ".items()")):
        return None
    if isinstance(loop.iter, (ast.Tuple, ast.List)):
        values = [e.value for e in loop.iter.elts if isinstance(e, ast.Constant)]
        return frozenset(v for v in values if isinstance(v, (str, int)))
    return frozenset()


def replaced(module: Module, found: list[Rebinding], node: ast.expr, selector: str | int) -> bool:
    """Whether the item of a container has been prepared in place wherever the container is loaded by ``node``."""
    for rebinding in found:
        if rebinding.keys is not None and selector not in rebinding.keys:
            continue
        if _same_object(module, rebinding.container, node) and always_before(module, rebinding.statement, node):
            return True
    return False


def _same_object(module: Module, a: ast.expr, b: ast.expr) -> bool:
    if ast.dump(a) != ast.dump(b):
        return False
    if isinstance(a, ast.Attribute) and isinstance(a.value, ast.Name) and a.value.id == "self":
        return module.class_of(a) is module.class_of(b)
    return bool(module.bindings.reaching(a) & module.bindings.reaching(b))


def always_before(module: Module, statement: ast.stmt, load: ast.AST) -> bool:
    """Whether a statement has run on every path to a load: before it and under no condition of its own, or in another
    method of its class under none at all."""
    around = set(module.around(load))
    if statement in around:
        return False
    function, mine = module.function(statement), module.function(load)
    current: ast.AST = statement
    while True:
        outer = module.parents[current]
        if outer in around or outer is function or isinstance(outer, ast.Module):
            break
        if not isinstance(outer, (ast.For, ast.AsyncFor, ast.With, ast.AsyncWith)):
            return False
        current = outer
    if function is not mine:
        return function is None or module.class_of(statement) is not None
    return getattr(current, "end_lineno", 0) < getattr(load, "lineno", 0)
