"""What the items of a project's dataset depend on beside their index: how many were read before, or what is drawn.

A rank reads every W-th sample, so a dataset that counts its reads, or takes the next item of something, gives a sample
other values there than in one process. What only keeps what was made once (a cache, a file that is opened at the first
read) gives the same, and so does a count that nothing but the upkeep of a cache goes by.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.calling import argument_of
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of, last_name
from shardfix.analysis.state.drawing import draws

_Functions = (ast.FunctionDef, ast.AsyncFunctionDef)
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_ITEMS = ("__getitem__", "__getitems__")
_AROUND = frozenset({"Subset", "ConcatDataset", "random_split", "deepcopy", "copy"})
_TAKES = frozenset({"pop", "popleft", "__next__", "readline", "send"})  # the next of something
_SEEDS = frozenset({"seed", "manual_seed"})
_SHOWS = frozenset({"print", "info", "debug", "warning", "log", "update", "set_description"})
_DEPTH = 5


@dataclass(frozen=True, eq=False, slots=True)
class Dependence:
    """The statement because of which an item does not follow from its index alone, and why."""

    node: ast.AST
    why: str


def classes_of(module: Module, dataset: ast.expr, depth: int = 0) -> list[ast.ClassDef]:
    """The classes of the project of which a dataset is, or of the datasets that it is a part of; as far as is seen."""
    module = module.home(dataset)
    found = list(module.instances(dataset))
    if found or depth > _DEPTH:
        return found
    parts: list[ast.expr] = []
    if isinstance(dataset, ast.Call) and last_name(dataset.func) in _AROUND:
        parts = [e for a in arguments_of(dataset) for e in (a.elts if isinstance(a, (ast.List, ast.Tuple)) else [a])]
    elif isinstance(dataset, ast.IfExp):
        parts = [dataset.body, dataset.orelse]
    elif isinstance(dataset, (ast.Name, ast.Attribute)):
        parts = [v for d in _definitions(module, dataset) for v in _values(module, d)]
    return list(dict.fromkeys(c for part in parts for c in classes_of(module, part, depth + 1)))


def _definitions(module: Module, node: ast.Name | ast.Attribute) -> list[Definition]:
    found = list(module.bindings.reaching(node))
    cls = module.class_of(node)
    if not found and isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and cls is not None:
        return module.attribute_values(cls, node.attr) if node.value.id == "self" else []
    return found


def _values(module: Module, d: Definition) -> Iterator[ast.expr]:
    """What a definition may bind: its value, an item of what a function gives back, what callers give."""
    home = module.home(d.node)
    if d.kind == "parameter" and isinstance(d.scope, _Functions):
        yield from (v for c in home.callers(d.scope) if (v := argument_of(home, d.scope, c, d.key)) is not None)
    elif d.kind == "assign" and d.value is not None:
        yield d.value
        if isinstance(d.value, ast.Call) and d.index is not None and d.index >= 0:
            for function in home.called_functions(d.value):
                for n in ast.walk(function):
                    if isinstance(n, ast.Return) and isinstance(n.value, ast.Tuple) and d.index < len(n.value.elts):
                        yield n.value.elts[d.index]


# -- how many were read before ----------------------------------------------------------------------------------


def by_reads(module: Module, dataset: ast.expr | None) -> Dependence | None:
    """The statement by which an item depends on how many were read before it; None where none is seen."""
    for cls in classes_of(module, dataset) if dataset is not None else ():
        home = module.home(cls)
        functions = list(_own(home, cls))
        for function in functions:
            own = home.home(function)
            taken = next((n for n in ast.walk(function) if _takes_next(own, n, function)), None)
            if taken is not None:
                why = f"`{ast.unparse(taken)}` takes the next of something, whichever item is read"
                return Dependence(taken, f"{why}, and a rank reads other ones before it")
            carried = next(_carried(own, function), None)
            if carried is not None:
                return Dependence(carried[1], f"`self.{carried[0]}` is kept from the item that was read before")
        for attribute, statement in _counted(functions):
            if any(_goes_by(home, f, attribute) for f in functions):
                why = f"`self.{attribute}` counts what was read, and an item goes by it: a rank reads other ones before"
                return Dependence(statement, why)
    return None


def _own(module: Module, cls: ast.ClassDef) -> Iterator[_Function]:
    """The methods of a class that are run to give an item."""
    lineage = module.lineage(cls)
    waiting = [m for name in _ITEMS if (m := module.method(cls, name)) is not None]
    seen: list[_Function] = []
    while waiting:
        function = waiting.pop()
        if function in seen:
            continue
        seen.append(function)
        yield function
        home = module.home(function)
        for n in ast.walk(function):
            if isinstance(n, ast.Call):
                waiting += [f for f in home.called_functions(n, passed=False) if home.parents.get(f) in lineage]


def _takes_next(module: Module, node: ast.AST, function: _Function) -> bool:
    """``next(self.numbers)``, ``i = self.order.pop()``, ``self.file.readline()`` without a ``seek()`` before."""
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Name) and node.func.id == "next" and node.args:
        return _attribute(node.args[0]) != ""
    if not isinstance(node.func, ast.Attribute) or node.func.attr not in _TAKES or not _attribute(node.func.value):
        return False
    if node.func.attr == "readline":
        calls = (n for n in ast.walk(function) if isinstance(n, ast.Call))
        return not any(last_name(n.func) == "seek" for n in calls)
    # `self.cache.pop(k)` that nobody takes keeps a cache small; of a key it gives what is of the key
    return not isinstance(module.parents.get(node), ast.Expr) and not (node.func.attr == "pop" and node.args)


def _counted(functions: list[_Function]) -> Iterator[tuple[str, ast.stmt]]:
    """The attributes that are made anew from themselves: ``self.n += 1``, ``self.n = self.n + 1``."""
    for function in functions:
        for n in ast.walk(function):
            if isinstance(n, ast.AugAssign) and _attribute(n.target):
                yield _attribute(n.target), n
            elif isinstance(n, ast.Assign):
                for target in n.targets:
                    if isinstance(target, ast.Attribute) and _reads(n.value, name := _attribute(target)) and name:
                        yield name, n


def _goes_by(module: Module, function: _Function, attribute: str) -> bool:
    """Whether anything but its own count and the upkeep of what is kept goes by an attribute."""
    home = module.home(function)
    for n in ast.walk(function):
        if not _is_read(n, attribute):
            continue
        statement = home.statement(n)
        if isinstance(statement, (ast.Assign, ast.AugAssign)) and _sets_only(statement, attribute):
            continue
        if isinstance(statement, ast.If) and n in set(ast.walk(statement.test)):
            if all(_is_upkeep(s) for s in (*statement.body, *statement.orelse)):
                continue
        if isinstance(statement, ast.Expr) and _is_shown(statement):
            continue
        return True
    return False


def _carried(module: Module, function: _Function) -> Iterator[tuple[str, ast.stmt]]:
    """The attributes that are read before they are set, in each read: what the item before has left there."""
    reads: dict[str, int] = {}
    for n in ast.walk(function):
        if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load) and _attribute(n):
            reads[n.attr] = min(reads.get(n.attr, n.lineno), n.lineno)
    for n in ast.walk(function):
        if not isinstance(n, ast.Assign):
            continue
        for target in n.targets:
            name = _attribute(target) if isinstance(target, ast.Attribute) else ""
            if not name or _reads(n.value, name) or reads.get(name, n.lineno) >= n.lineno:
                continue
            around = [o for o in module.around(n) if isinstance(o, (ast.If, ast.IfExp, ast.ExceptHandler))]
            if not around and not isinstance(n.value, ast.Constant):
                yield name, n


# -- what is drawn ----------------------------------------------------------------------------------------------


def drawn(module: Module, dataset: ast.expr | None) -> Dependence | None:
    """The draw that each read of an item makes, whatever the dataset is told to be for; None where none is seen.

    One under a condition may be for training only, and one whose seed is set just before gives the same each time.
    """
    for cls in classes_of(module, dataset) if dataset is not None else ():
        home = module.home(cls)
        waiting = [m for name in _ITEMS if (m := home.method(cls, name)) is not None]
        seen: set[_Function] = set()
        while waiting:
            function = waiting.pop()
            if function in seen or _seeds(function):
                continue
            seen.add(function)
            own = home.home(function)
            for n in ast.walk(function):
                if not isinstance(n, ast.Call) or not _always(own, n, function):
                    continue
                if draws(own, n, _DEPTH) and not _made_here(own, n, function):
                    why = f"`{ast.unparse(n.func)}` draws anew for each item that is read"
                    return Dependence(n, f"{why}, and ranks draw other numbers than one process")
                waiting += own.called_functions(n, passed=False) if len(seen) < _DEPTH * 4 else []
    return None


def _seeds(function: _Function) -> bool:
    calls = (n for n in ast.walk(function) if isinstance(n, ast.Call))
    return any(last_name(n.func) in _SEEDS and (n.args or n.keywords) for n in calls)


def _always(module: Module, node: ast.AST, function: _Function) -> bool:
    """Whether a node is evaluated whenever a function is run: it stands under no condition, and behind no way out."""
    previous = node
    for outer in module.around(node):
        if isinstance(outer, (ast.If, ast.IfExp, ast.While)) and previous is not outer.test:
            return False
        if isinstance(outer, ast.BoolOp) and previous is not outer.values[0]:
            return False
        if isinstance(outer, (ast.ExceptHandler, ast.Lambda, ast.match_case)):
            return False
        if outer is function:
            break
        if isinstance(outer, _Functions):
            return False
        previous = outer
    line = getattr(node, "lineno", 0)
    return not any(isinstance(n, (ast.Return, ast.Continue)) and n.lineno < line for n in ast.walk(function))


def _made_here(module: Module, call: ast.Call, function: _Function) -> bool:
    """Whether a draw is one of a generator that the function makes itself, of a seed: ``default_rng(index)``."""
    given = [k.value for k in call.keywords if k.arg == "generator"]
    receiver = [call.func.value] if isinstance(call.func, ast.Attribute) else []
    inside = set(ast.walk(function))
    for node in (*given, *receiver):
        made = module.bindings.reaching(node) if isinstance(node, ast.Name) else []
        values = [d.value for d in made if d.node in inside]
        if values and all(isinstance(v, ast.Call) and (v.args or v.keywords) for v in values):
            return True
    return False


# -- attributes -------------------------------------------------------------------------------------------------


def _attribute(node: ast.expr) -> str:
    """The attribute of ``self`` that an expression is, or is an item of; empty for anything else."""
    while isinstance(node, ast.Subscript):
        node = node.value
    own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    return node.attr if own and isinstance(node, ast.Attribute) else ""


def _is_read(node: ast.AST, attribute: str) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
        return len(node.args) > 1 and isinstance(node.args[1], ast.Constant) and node.args[1].value == attribute
    loaded = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    return loaded and isinstance(node, ast.Attribute) and _attribute(node) == attribute


def _reads(value: ast.expr, attribute: str) -> bool:
    return any(_is_read(n, attribute) for n in ast.walk(value))


def _sets_only(statement: ast.Assign | ast.AugAssign, attribute: str) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return all(_attribute(t) == attribute for t in targets)


def _is_upkeep(statement: ast.stmt) -> bool:
    """Whether a statement empties or sets back what is kept, or shows something."""
    if isinstance(statement, ast.Assign):
        value = statement.value
        nothing = [value.elts] if isinstance(value, ast.List) else [value.keys] if isinstance(value, ast.Dict) else []
        empty = isinstance(value, ast.Constant) or (bool(nothing) and not any(nothing))
        made = isinstance(value, ast.Call) and not arguments_of(value)  # `OrderedDict()`
        return (empty or made) and all(_attribute(t) for t in statement.targets)
    if isinstance(statement, ast.Delete):
        return all(_attribute(t) for t in statement.targets)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        func = statement.value.func
        cleared = isinstance(func, ast.Attribute) and func.attr in ("clear", "pop", "popitem", "popleft", "collect")
        return cleared or _is_shown(statement)
    return isinstance(statement, ast.Pass)


def _is_shown(statement: ast.Expr) -> bool:
    return isinstance(statement.value, ast.Call) and last_name(statement.value.func) in _SHOWS


__all__ = ["Dependence", "by_reads", "classes_of", "drawn"]
