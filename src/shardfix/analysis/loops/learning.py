"""Whether a loop over a loader updates a model or only evaluates it, or whether its caller decides which."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from shardfix.analysis.code.calling import argument_of
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of, last_name
from shardfix.analysis.code.tree import calls_within
from shardfix.analysis.loops.spoken import role_of_name, words

# ``either``: as it is asked. ``gradients``: it runs backward and updates nothing. ``neither``: nothing is shown.
Does = Literal["trains", "evaluates", "either", "gradients", "neither"]
_Chance = Literal["always", "asked", "never"]

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEPTH = 2  # how far a loop's own calls are looked into
_LEARNS = frozenset({"train", "training", "learn", "fit", "optimize", "optimise", "step", "distill"})
_CLOCKS = frozenset({"sched", "scheduler", "bar", "pbar", "progress", "tqdm", "profiler", "prof", "timer", "meter"})
_FAMILY = 4  # more methods than these are a framework's


@dataclass(frozen=True, eq=False)
class Asked:
    """What the callers of the functions on a value's way give to their parameters.

    Args:
        aliases: the expressions that stand for the value: a call that is given one of them is a call for this value.
        calls: the calls of a function that are known already.
    """

    module: Module
    aliases: Collection[ast.expr] = ()
    calls: tuple[tuple[ast.AST, ast.Call], ...] = ()

    def within(self, function: ast.AST, call: ast.Call) -> Asked:
        """The same inside a function that a call runs."""
        return Asked(self.module, self.aliases, (*self.calls, (function, call)))

    def callers(self, function: ast.AST) -> list[ast.Call]:
        """The calls that run a function for this value; every call of it where none is given the value."""
        known = [call for f, call in self.calls if f is function]
        if known:
            return known[-1:]
        calls = self.module.callers(function)
        return [c for c in calls if any(a in self.aliases for a in arguments_of(c))] or calls

    def values(self, node: ast.expr, depth: int = 0) -> set[object]:
        """The literals that an expression may be; ``Ellipsis`` among them where something else may be."""
        if isinstance(node, ast.Constant):
            return {node.value}
        definitions = self.module.bindings.reaching(node) if isinstance(node, ast.Name) and depth < 4 else ()
        found: set[object] = set()
        for d in definitions:
            if d.kind == "parameter" and isinstance(d.scope, _FUNCTIONS):
                found |= self._given(d.scope, d.key, depth)
            elif d.kind == "assign" and d.index is None and d.value is not None:
                found |= self.values(d.value, depth + 1)
            elif d.kind == "loop" and isinstance(d.value, (ast.List, ast.Tuple)) and d.index is None:
                for element in d.value.elts:
                    found |= self.values(element, depth + 1)
            else:
                found.add(...)
        return found or {...}

    def _given(self, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str, depth: int) -> set[object]:
        found: set[object] = set()
        for call in self.callers(function):
            value = argument_of(self.module, function, call, name)
            hidden = any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords)
            if value is None:
                value = None if hidden else _default(function, name)
            found |= self.values(value, depth + 1) if value is not None else {...}
        return found or {...}

    def outcomes(self, test: ast.expr) -> set[bool | None]:
        """How a condition of one part may come out; None among them where that is not seen."""
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            return self._compared(test.left, test.ops[0], test.comparators[0])
        if isinstance(test, (ast.Name, ast.Constant)):
            return {None if v is ... else bool(v) for v in self.values(test)}
        return {None}

    def _compared(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> set[bool | None]:
        if isinstance(op, (ast.In, ast.NotIn)):
            elements = right.elts if isinstance(right, (ast.List, ast.Tuple, ast.Set)) else None
            wanted: set[object] = {v for e in elements for v in self.values(e)} if elements is not None else {...}
        elif isinstance(op, (ast.Eq, ast.NotEq, ast.Is, ast.IsNot)):
            wanted = self.values(right)
            if len(wanted) != 1:
                return {None}
        else:
            return {None}
        if ... in wanted:
            return {None}
        negated = isinstance(op, (ast.NotIn, ast.NotEq, ast.IsNot))
        return {None if v is ... else (v in wanted) is not negated for v in self.values(left)}


def _default(function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> ast.expr | None:
    """The default of a parameter."""
    a = function.args
    positional = [*a.posonlyargs, *a.args]
    by_name: dict[str, ast.expr | None] = dict(
        zip([p.arg for p in positional][len(positional) - len(a.defaults) :], a.defaults, strict=True)
    )
    by_name |= {p.arg: d for p, d in zip(a.kwonlyargs, a.kw_defaults, strict=True)}
    return by_name.get(name)


def does(module: Module, node: ast.AST, aliases: Collection[ast.expr] = ()) -> Does:
    """What a loop over a loader (or the ``next`` on it) does with a model.

    Args:
        aliases: the expressions that stand for the loader, by which the calls for it are told from others.
    """
    asked = Asked(module, aliases)
    body = _body(module, node)
    top = node if isinstance(node, (ast.For, ast.AsyncFor)) else body[0]
    found = list(_updates(module, body, top, asked))
    steps = any(kind == "step" or _has_optimizer(module, n) for kind, n, chance in found if chance != "never")
    chances = {chance for _, _, chance in found}
    if steps:
        return "trains" if "always" in chances else "either"
    if chances - {"never"}:
        return "gradients"
    if any(last_name(c.func) == "enable_grad" for c in _calls(body)):
        return "neither"
    around, inside = _gradless_around(module, node, asked), _gradless_inside(node, asked)
    if around == "never" and any(_may_learn(module, c) for c in _calls(body)):
        return "neither"  # a step out of sight, of which what has no gradients is a part
    if "always" in (around, inside):
        return "evaluates"
    if "asked" in (around, inside):
        return "either"
    return "evaluates" if chances else "neither"


def evaluates(module: Module, node: ast.AST) -> bool:
    """Whether a loop over a loader only evaluates: no gradients, or its function is named for evaluation."""
    found = does(module, node)
    if found == "neither":
        return role_of_name(getattr(module.function(node), "name", "")) == "eval"
    return found == "evaluates"


def put_to_evaluation(module: Module, node: ast.AST) -> bool:
    """Whether the last word on a model's mode above a loop, in its own function, is ``model.eval()``."""
    scope = module.scope(node)
    modes = [
        c
        for c in module.calls
        if isinstance(c.func, ast.Attribute)
        and c.func.attr in ("train", "eval")
        and c.lineno < getattr(node, "lineno", 0)
        and module.scope(c) is scope
    ]
    return bool(modes) and max(modes, key=lambda c: c.lineno).func.attr == "eval"  # type: ignore[attr-defined]


def _body(module: Module, node: ast.AST) -> list[ast.AST]:
    """What is run for each batch."""
    if isinstance(node, (ast.For, ast.AsyncFor)):
        return list(node.body)
    if isinstance(node, ast.comprehension):
        return [module.parents[node]]
    for outer in module.around(node):
        if isinstance(outer, (ast.For, ast.AsyncFor, ast.While)):
            return [outer]
        if isinstance(outer, _FUNCTIONS):
            break
    return [node]


def _calls(nodes: Sequence[ast.AST]) -> Iterator[ast.Call]:
    for node in nodes:
        yield from calls_within(node)


def _updates(
    module: Module, body: Sequence[ast.AST], top: ast.AST, asked: Asked, depth: int = 0
) -> Iterator[tuple[Literal["step", "gradient"], ast.AST, _Chance]]:
    """Each update of a model in some code and in the project functions it calls, and whether it is surely made."""
    for call in _calls(body):
        kind = _update(call)
        if kind is not None:
            yield kind, call, _chance(module, call, top, asked)
        elif depth < _DEPTH:
            functions = module.called_functions(call)
            chance = _chance(module, call, top, asked) if functions else "never"
            if chance == "never" or len(functions) > _FAMILY:
                continue
            for inner in functions:
                if any(f is inner for f, _ in asked.calls):
                    continue
                for kind, node, within in _updates(module, inner.body, inner, asked.within(inner, call), depth + 1):
                    yield kind, node, "never" if within == "never" else within if chance == "always" else chance


def _update(call: ast.Call) -> Literal["step", "gradient"] | None:
    if not isinstance(call.func, ast.Attribute):
        return None
    name, receiver = call.func.attr, last_name(call.func.value).lower()
    if name in ("backward", "manual_backward"):
        return "gradient"
    stepped = name == "step" and ("optim" in receiver or any("optim" in last_name(a).lower() for a in call.args))
    in_place = name in ("add_", "sub_", "copy_", "addcdiv_") and receiver == "data"  # p.data.add_(p.grad, alpha=-lr)
    return "step" if stepped or in_place else None


def _has_optimizer(module: Module, node: ast.AST) -> bool:
    """Whether the file of a node steps anything: a gradient may be wanted for itself, as by the importance of heads."""
    return any(
        isinstance(c.func, ast.Attribute) and c.func.attr == "step" and "sched" not in last_name(c.func.value).lower()
        for c in module.home(node).calls
    ) or any("optim" in last_name(c.func).lower() for c in module.home(node).calls)


def _chance(module: Module, node: ast.AST, top: ast.AST, asked: Asked) -> _Chance:
    """Whether a node of a function is reached: what the callers ask may decide."""
    chances: set[_Chance] = set()
    previous: ast.AST = node
    for outer in module.around(node):
        if isinstance(previous, ast.stmt):
            block = module.block(previous)
            for earlier in block[: block.index(previous)] if previous in block else ():
                if isinstance(earlier, ast.If) and isinstance(earlier.body[-1], (ast.Return, ast.Continue)):
                    chances.add(_of(asked, earlier.test, False))
        if outer is top or isinstance(outer, _FUNCTIONS):
            break
        if isinstance(outer, (ast.If, ast.IfExp)) and previous is not outer.test:
            body = outer.body if isinstance(outer.body, list) else [outer.body]
            chances.add(_of(asked, outer.test, previous in body))
        previous = outer
    return "never" if "never" in chances else "asked" if "asked" in chances else "always"


def _of(asked: Asked, test: ast.expr, wanted: bool) -> _Chance:
    """Whether a condition comes out as wanted; one that asks nothing about training is taken to, now and then."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _of(asked, test.operand, not wanted)
    if isinstance(test, ast.BoolOp):
        parts = {_of(asked, v, wanted) for v in test.values}
        if isinstance(test.op, ast.And) is wanted:  # each of them must
            return "never" if "never" in parts else "asked" if "asked" in parts else "always"
        return "always" if "always" in parts else "asked" if "asked" in parts else "never"
    outcomes = asked.outcomes(test)
    if None in outcomes:
        return "asked" if _is_about_training(test) else "always"
    if wanted not in outcomes:
        return "never"
    return "always" if outcomes == {wanted} else "asked"


def _is_about_training(test: ast.expr) -> bool:
    """``mode == "train"``, ``is_train``, ``self.training``, ``optimizer is not None``."""
    if isinstance(test, ast.Compare):
        none = any(isinstance(c, ast.Constant) and c.value is None for c in test.comparators)
        if none:
            return "optim" in last_name(test.left).lower()
        return any(
            isinstance(c, ast.Constant) and isinstance(c.value, str) and role_of_name(c.value) != "unknown"
            for c in (test.left, *test.comparators)
        )
    return isinstance(test, (ast.Name, ast.Attribute)) and role_of_name(last_name(test)) != "unknown"


def _gradless_around(module: Module, node: ast.AST, asked: Asked, depth: int = 0) -> _Chance:
    """Whether gradients are off around a loop, or around every call of its function."""
    found: list[_Chance] = []
    function: ast.AST | None = None
    for outer in module.around(node):
        if isinstance(outer, (ast.With, ast.AsyncWith)):
            found += [_off(item.context_expr, asked) for item in outer.items]
        if isinstance(outer, _FUNCTIONS):
            found += [_off(d, asked) for d in outer.decorator_list]
            function = outer
            break
    if "always" in found:
        return "always"
    if "asked" in found:
        return "asked"
    calls = asked.callers(function) if function is not None and depth < 2 else []
    if calls and all(_gradless_around(module, c, asked, depth + 1) == "always" for c in calls):
        return "always"
    return "never"


def _gradless_inside(node: ast.AST, asked: Asked) -> _Chance:
    """Whether a loop's body turns gradients off for some of what it does."""
    body = node.body if isinstance(node, (ast.For, ast.AsyncFor)) else []
    blocks = [n for s in body for n in ast.walk(s) if isinstance(n, (ast.With, ast.AsyncWith))]
    found = [_off(item.context_expr, asked) for n in blocks for item in n.items]
    return "always" if "always" in found else "asked" if "asked" in found else "never"


def _may_learn(module: Module, call: ast.Call) -> bool:
    """Whether a call of what is not seen is named for training: ``agent.learn(b)``, ``engine.train_step(b)``."""
    if not arguments_of(call) or role_of_name(last_name(call.func)) == "eval" or module.called_functions(call):
        return False
    receiver = words(last_name(call.func.value)) if isinstance(call.func, ast.Attribute) else set()
    return bool(words(last_name(call.func)) & _LEARNS) and not receiver & _CLOCKS


def _off(node: ast.expr, asked: Asked) -> _Chance:
    """Whether a context turns gradients off."""
    if isinstance(node, ast.Call) and last_name(node.func) == "set_grad_enabled":
        return _of(asked, node.args[0], False) if node.args and asked.outcomes(node.args[0]) != {None} else "never"
    return "always" if _is_gradless(node) else "never"


def _is_gradless(node: ast.expr) -> bool:
    return last_name(node.func if isinstance(node, ast.Call) else node) in ("no_grad", "inference_mode")


__all__ = ["Asked", "Does", "does", "evaluates", "put_to_evaluation"]
