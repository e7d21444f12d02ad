"""Objects that keep a running average: whether their class is seen to add up a sum and a count, and what reduces it."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from shardfix.analysis.code.module import Module
from shardfix.analysis.programs.processes import distributed_test

# timm 0.1 to 1.0: val, avg, sum and count; update(val, n=1) adds val * n.
_KNOWN = frozenset({"timm.utils.AverageMeter", "timm.utils.metrics.AverageMeter"})
_REDUCES = ("all_reduce", "synchronize_between_processes", "synchronize", "sync")
_COLLECTIVES = frozenset({"all_reduce", "all_gather", "all_gather_object"})


@dataclass(frozen=True, slots=True)
class Meter:
    """A class that averages.

    Args:
        sum: the attribute that adds up value times weight, and ``count`` that of the weights.
        average: the attribute that is their quotient; empty where it is computed when it is read.
        method: a method of its own that reduces both across ranks; empty where there is none.
        value: the first parameter of ``update``; ``weight`` that of the weight, empty where it takes none.
        window: whether it also keeps the last values, of which the ranks have others.
        last: the attributes that hold the value it was told last.
        held_in: for an object that holds averaging objects by name, the attribute that does.
    """

    sum: str
    count: str
    average: str
    method: str
    value: str
    weight: str
    window: bool = False
    held_in: str = ""
    last: tuple[str, ...] = ()


def meter_of(module: Module, call: ast.Call) -> Meter | None:
    """What a call makes, if that is an averaging object whose ``update`` is understood."""
    if module.callee(call) & _KNOWN:
        return Meter("sum", "count", "avg", "", "val", "n", last=("val",))
    classes = module.project_classes(call.func)
    if len(classes) != 1:
        return None
    return _holding(module, classes[0]) or averaging(module, classes[0])


def _holding(module: Module, cls: ast.ClassDef) -> Meter | None:
    """A class that hands named values on to averaging objects that it makes, and reduces all of them by a method."""
    update = module.method(cls, "update")
    if update is None or update.args.kwarg is None or len(update.args.args) != 1:
        return None
    for name in (d.key[5:] for d in module.home(cls).bindings.definitions if d.key.startswith("self.")):
        made = [d.value for d in module.attribute_values(cls, name)]
        given = made[0].args if len(made) == 1 and isinstance(made[0], ast.Call) else []
        classes = module.project_classes(given[0]) if len(given) == 1 else []
        if len(classes) != 1 or ast.unparse(update).count(f"self.{name}[") != 1:
            continue
        inner = averaging(module, classes[0])
        for method in _REDUCES if inner is not None and inner.method else ():
            found = module.method(cls, method)
            if found is None or len(found.args.args) != 1:
                continue
            source = ast.unparse(found)
            if f"in self.{name}.values():" in source and f".{inner.method}()" in source:  # type: ignore[union-attr]
                return Meter("", "", "", method, "", "", window=True, held_in=name)
    return None


def averaging(module: Module, cls: ast.ClassDef) -> Meter | None:
    """A class that adds up values and their weights, each in an attribute of its own."""
    update = module.method(cls, "update")
    if update is None or len(update.args.args) not in (2, 3) or update.args.kwarg or update.args.vararg:
        return None
    names = [a.arg for a in update.args.args]
    if len(names) == 3 and not (update.args.defaults and _is(update.args.defaults[-1], 1)):
        return None
    value, weight = names[1], names[2] if len(names) == 3 else ""
    found = _added(module, update, value, weight)
    if found is None:
        return None
    total, count, average = found
    if not all(_starts_at_zero(module, cls, name) for name in (total, count)):
        return None
    window = ".append(" in ast.unparse(update)
    last = tuple(
        _own(s.targets[0])
        for s in update.body
        if isinstance(s, ast.Assign) and _own(s.targets[0]) and ast.unparse(s.value) == value
    )
    method = _reducing(module, cls, (total, count))
    return Meter(total, count, average, method, value, weight, window, last=last)


def _added(
    module: Module, update: ast.FunctionDef | ast.AsyncFunctionDef, value: str, weight: str
) -> tuple[str, str, str] | None:
    """The attributes that ``update`` adds to, and the quotient that it sets; None if it does anything else."""
    total = count = average = ""
    for statement in update.body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue
        if isinstance(statement, ast.Expr) and _keeps_last(statement.value, value):
            continue
        if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
            name = _own(statement.target)
            added = ast.unparse(statement.value)
            if name and added in (f"{value} * {weight}", f"{weight} * {value}", *([value] if not weight else [])):
                total = name
            elif name and added == (weight or "1"):
                count = name
            else:
                return None
        elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            name = _own(statement.targets[0])
            written = ast.unparse(statement.value)
            if total and count and written.startswith(f"self.{total} / ") and f"self.{count}" in written:
                average = name
                if written != f"self.{total} / self.{count}":
                    return None
            elif name and written == value:
                continue  # the last value
            elif isinstance(statement.targets[0], ast.Name) and statement.targets[0].id == value:
                if written not in (f"{value}.item()", f"float({value})"):
                    return None
            else:
                return None
        elif isinstance(statement, ast.If) and _only_item(statement, value):
            continue
        else:
            return None
    return (total, count, average) if total and count else None


def _keeps_last(node: ast.expr, value: str) -> bool:
    """``self.deque.append(value)``"""
    append = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append"
    return append and isinstance(node, ast.Call) and [ast.unparse(a) for a in node.args] == [value]


def _only_item(statement: ast.If, value: str) -> bool:
    """``if isinstance(value, torch.Tensor): value = value.item()``"""
    return not statement.orelse and [ast.unparse(s) for s in statement.body] in (
        [f"{value} = {value}.item()"],
        [f"{value} = {value}.data.item()"],
    )


def _own(node: ast.expr) -> str:
    """``x`` for ``self.x``."""
    own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    return node.attr if own and isinstance(node, ast.Attribute) else ""


def _is(node: ast.expr, value: int) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.value == value


def _starts_at_zero(module: Module, cls: ast.ClassDef, name: str) -> bool:
    """Whether an attribute is set to 0 and nothing else, but for where ``update`` and what reduces it write it."""
    found = [d for c in module.lineage(cls) for d in module.attribute_values(c, name)]
    plain = [d for d in found if d.kind == "assign" and d.value is not None and d.index is None]
    zeros = [d for d in plain if d.value is not None and _is(d.value, 0)]
    return bool(zeros)


def _reducing(module: Module, cls: ast.ClassDef, attributes: tuple[str, str]) -> str:
    """A method without arguments that sums both attributes over the ranks, and may be called in one process."""
    for name in _REDUCES:
        method = module.method(cls, name)
        if method is None or len(method.args.args) != 1:
            continue
        source = ast.unparse(method)
        if any(c in source for c in _COLLECTIVES) and all(f"self.{a}" in source for a in attributes):
            return name if _guards_itself(method) else ""
    return ""


def _guards_itself(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a method does nothing where there is no process group: a run of one process has none."""
    return any(isinstance(n, (ast.If, ast.IfExp)) and distributed_test(n.test) is not None for n in ast.walk(method))


__all__ = ["Meter", "averaging", "meter_of"]
