"""What a dict holds at a place of the program, on every way that leads there: for the ``**kw`` of a call."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.calling import only_called
from shardfix.analysis.code.dict_uses import is_changed, may_change

if TYPE_CHECKING:
    from shardfix.analysis.code.module import Module

_DEPTH = 8  # how many assignments and calls a dict is followed back
_MAX_WAYS = 16


@dataclass(frozen=True, slots=True)
class Item:
    """A value of a dict and what it is written in: a display, a ``dict()`` or ``update()`` call, an assignment."""

    value: ast.expr
    holder: ast.AST


@dataclass(frozen=True, slots=True)
class _Way:
    """The items on one way, and the outcomes of the tests that it took."""

    items: Mapping[str, Item]
    tests: frozenset[tuple[str, bool]] = field(default=frozenset())

    def holding(self, items: Mapping[str, Item]) -> _Way:
        return replace(self, items={**self.items, **items})

    def taking(self, test: str, outcome: bool) -> _Way | None:
        """The way on through a test; None if it took the other outcome of the same test before."""
        if (test, not outcome) in self.tests:
            return None
        return replace(self, tests=self.tests | {(test, outcome)})


class _Unseen(Exception):
    """Something that the items depend on is not seen."""


def ways_of(module: Module, node: ast.expr, at: ast.AST) -> list[dict[str, Item]] | None:
    """The items of a dict at a place, for every way that leads there; None if what it holds is not seen.

    Args:
        at: the call that unpacks it.
    """
    try:
        ways = _ways(module, node, at, 0)
    except _Unseen:
        return None
    found: list[dict[str, Item]] = []
    for way in ways:
        if dict(way.items) not in found:
            found.append(dict(way.items))
    return found


def dict_items(module: Module, node: ast.expr) -> dict[str, list[ast.expr]] | None:
    """The items of a dict whose making is visible, each key with every value; None if it is not."""
    ways = ways_of(module, node, node)
    if ways is None:
        return None
    found: dict[str, list[ast.expr]] = {}
    for way in ways:
        for key, item in way.items():
            values = found.setdefault(key, [])
            if item.value not in values:
                values.append(item.value)
    return found


def _ways(module: Module, node: ast.expr, at: ast.AST, depth: int) -> list[_Way]:
    module = module.home(node)
    if depth > _DEPTH:
        raise _Unseen
    if isinstance(node, ast.Dict):
        ways = [_Way({})]
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                ways = _each(ways, _ways(module, value, at, depth + 1))
            elif isinstance(key, ast.Constant) and isinstance(key.value, str):
                ways = [w.holding({key.value: Item(value, node)}) for w in ways]
            else:
                raise _Unseen
        return ways
    if isinstance(node, ast.Call):
        return _made_by(module, node, at, depth)
    if isinstance(node, ast.IfExp):
        test = _key(module, node.test)
        return _few(
            [
                *_through(_ways(module, node.body, at, depth + 1), test, True),
                *_through(_ways(module, node.orelse, at, depth + 1), test, False),
            ]
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _each(_ways(module, node.left, at, depth + 1), _ways(module, node.right, at, depth + 1))
    if isinstance(node, ast.Name):
        return _variable(module, node, at, depth)
    raise _Unseen


def _made_by(module: Module, call: ast.Call, at: ast.AST, depth: int) -> list[_Way]:
    """``dict(base, key=value)``, ``base.copy()``, ``deepcopy(base)``."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    callee = module.callee(call)
    if name == "copy" and isinstance(call.func, ast.Attribute) and not call.args and not call.keywords:
        return _ways(module, call.func.value, at, depth + 1)
    if callee & {"copy.copy", "copy.deepcopy"} and len(call.args) == 1 and not call.keywords:
        return _ways(module, call.args[0], at, depth + 1)
    if "builtins.dict" in callee and len(call.args) <= 1 and not any(isinstance(a, ast.Starred) for a in call.args):
        ways = _ways(module, call.args[0], at, depth + 1) if call.args else [_Way({})]
        return _with_keywords(module, ways, call, at, depth)
    raise _Unseen


def _with_keywords(module: Module, ways: list[_Way], call: ast.Call, at: ast.AST, depth: int) -> list[_Way]:
    for keyword in call.keywords:
        if keyword.arg is None:
            ways = _each(ways, _ways(module, keyword.value, at, depth + 1))
        else:
            ways = [w.holding({keyword.arg: Item(keyword.value, call)}) for w in ways]
    return ways


def _each(ways: list[_Way], more: list[_Way]) -> list[_Way]:
    """Every way on through every one of more ways."""
    found: list[_Way] = []
    for way in ways:
        for other in more:
            if not any((test, not outcome) in way.tests for test, outcome in other.tests):
                found.append(replace(way.holding(other.items), tests=way.tests | other.tests))
    return _few(found)


def _few(ways: list[_Way]) -> list[_Way]:
    if len(ways) > _MAX_WAYS:
        raise _Unseen
    return ways


def _through(ways: Iterable[_Way], test: str, outcome: bool) -> list[_Way]:
    return [w for way in ways if (w := way.taking(test, outcome)) is not None]


def _key(module: Module, test: ast.expr) -> str:
    """A test as it is compared with others: what is written, and what its names are bound to there."""
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return f"not {_key(module, test.operand)}"
    bound = [
        sorted(id(d) for d in module.bindings.reaching(n))
        for n in ast.walk(test)
        if isinstance(n, (ast.Name, ast.Attribute))
    ]
    pure = not any(isinstance(n, (ast.Call, ast.NamedExpr, ast.Await)) for n in ast.walk(test))
    return f"{ast.dump(test)} {bound}" if pure else f"{id(test)}"


# --- variables ---


def _variable(module: Module, node: ast.Name, at: ast.AST, depth: int) -> list[_Way]:
    """What a variable holds where it is read: what it was made with, and what was done to it on the way."""
    definitions = sorted(module.bindings.reaching(node), key=lambda d: getattr(d.node, "lineno", 0))
    if not definitions:
        raise _Unseen
    found: list[_Way] = []
    for d in definitions:
        if d.kind == "parameter":
            made = _given(module, d, depth)
        elif d.kind == "assign" and d.value is not None and d.index is None:
            if isinstance(d.value, ast.Name) and any(
                is_changed(module, other) for other in module.bindings.reaching(d.value)
            ):
                raise _Unseen  # two names for one dict
            made = _ways(module, d.value, d.statement, depth + 1)
        else:
            raise _Unseen
        if module.scope(node) is d.scope and isinstance(d.statement, ast.stmt):
            found += _Walk(module, d, node, depth).after(made)
        else:
            if any(may_change(module, use) for use in module.bindings.readers(d)):
                raise _Unseen  # when it is done is not seen
            found += made
    return _few(found)


def _given(module: Module, d: Definition, depth: int) -> list[_Way]:
    """What the callers give to a parameter, or to a function's own ``**kw``: all of them are to be seen."""
    function = d.scope
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        raise _Unseen
    calls = module.callers(function)
    own = function.args.kwarg is not None and d.node is function.args.kwarg
    if not calls or d.node is function.args.vararg or not only_called(module, function):
        raise _Unseen
    found: list[_Way] = []
    for call in calls:
        if function not in module.called_functions(call) or len(module.called_functions(call)) != 1:
            raise _Unseen
        there = module.home(call)
        given: list[ast.expr] = [*call.args, *(k.value for k in call.keywords if k.arg is not None)]
        if own:
            ways = [_Way({})]
            for keyword in call.keywords:
                if keyword.arg is None:
                    ways = _each(ways, _ways(there, keyword.value, call, depth + 1))
                elif module.parameter_of(function, call, keyword) in (None, function.args.kwarg):
                    ways = [w.holding({keyword.arg: Item(keyword.value, call)}) for w in ways]
            names = {a.arg for a in [*function.args.args, *function.args.kwonlyargs]}
            found += [replace(w, items={k: v for k, v in w.items.items() if k not in names}) for w in ways]
            continue
        if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
            raise _Unseen
        mine = [v for v in given if module.parameter_of(function, call, v) is d.node]
        if len(mine) != 1:
            raise _Unseen  # left to its default
        found += _ways(there, mine[0], call, depth + 1)
    return _few([replace(w, tests=frozenset()) for w in found])


@dataclass(eq=False)
class _Walk:
    """The statements from a definition to a place where its value is read, as far as they change it."""

    module: Module
    definition: Definition
    at: ast.AST
    depth: int
    doing: dict[ast.stmt, list[ast.expr]] = field(default_factory=dict)
    around: set[ast.AST] = field(default_factory=set)  # statements that hold a change or the place

    def after(self, ways: list[_Way]) -> list[_Way]:
        """The ways from the definition to the place."""
        module, d = self.module, self.definition
        for use in module.bindings.readers(d):
            if use is not self.at and may_change(module, use):
                if module.scope(use) is not d.scope:
                    raise _Unseen
                statement = module.statement(use)
                self.doing.setdefault(statement, []).append(use)
                self.around.update((statement, *module.around(statement)))
        if not self.doing and not isinstance(d.statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return self._taken(ways)
        place = module.statement(self.at)
        self.around.update((place, *module.around(place)))
        self.place = place
        if isinstance(d.statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            ways, there = self._block(d.statement.body, ways)
            if not there:
                raise _Unseen
            return ways
        ways = self._taken(ways)
        current: ast.stmt = d.statement  # type: ignore[assignment]
        while True:
            block = module.block(current)
            ways, there = self._block(block[block.index(current) + 1 :], ways)
            if there:
                return ways
            outer = module.parents[current]
            if isinstance(outer, ast.ExceptHandler):
                outer = module.parents[outer]
            if not isinstance(outer, ast.stmt) or outer is d.scope or _is_loop(outer):
                raise _Unseen  # read before it is made
            current = outer

    def _taken(self, ways: list[_Way]) -> list[_Way]:
        """The ways with the tests under which the definition stands and the place does not."""
        module = self.module
        shared = {self.at, *module.around(self.at)}
        inner: ast.AST = self.definition.statement
        for outer in module.around(inner):
            if outer in shared or outer is self.definition.scope:
                break
            if isinstance(outer, ast.If) and isinstance(inner, ast.stmt):
                ways = _through(ways, *self._outcome(outer, inner in outer.body))
            inner = outer
        return ways

    def _outcome(self, node: ast.If, holds: bool) -> tuple[str, bool]:
        test, outcome = _key(self.module, node.test), holds
        while test.startswith("not "):
            test, outcome = test[4:], not outcome
        return test, outcome

    def _block(self, body: list[ast.stmt], ways: list[_Way]) -> tuple[list[_Way], bool]:
        """What is held after a block, or at the place where that is in it."""
        for statement in body:
            if statement is self.place and not isinstance(statement, (ast.If, ast.For, ast.While, ast.With, ast.Try)):
                return ways, True
            if statement in self.around:
                ways, there = self._statement(statement, ways)
                if there:
                    return ways, True
            if isinstance(statement, (ast.Return, ast.Raise)):
                return [], False
        return ways, False

    def _statement(self, s: ast.stmt, ways: list[_Way]) -> tuple[list[_Way], bool]:
        there = s is self.place or self.place in _inside(s, self.module, self.place)
        if isinstance(s, ast.If):
            if s is self.place:
                return ways, True
            first = self._block(s.body, _through(ways, *self._outcome(s, True)))
            if first[1]:
                return first
            second = self._block(s.orelse, _through(ways, *self._outcome(s, False)))
            return second if second[1] else (_few([*first[0], *second[0]]), False)
        if isinstance(s, (ast.With, ast.AsyncWith)):
            return (ways, True) if s is self.place else self._block(s.body, ways)
        if _is_loop(s):
            if s is self.place:
                return ways, True
            if any(n in self.around and n in self.doing for n in ast.walk(s) if isinstance(n, ast.stmt)):
                raise _Unseen  # in which turn it is read and changed is not followed
            return self._block(s.body, ways) if there else (ways, False)  # type: ignore[attr-defined]
        if isinstance(s, ast.Try):
            first = self._block(s.body, ways)
            if first[1]:
                return first
            changed = [n for n in ast.walk(s) if isinstance(n, ast.stmt) and n in self.doing]
            handler = next((h for h in s.handlers if h in self.module.around(self.place)), None)
            if handler is not None and all(handler in self.module.around(n) for n in changed):
                return self._block(handler.body, ways)
            if changed:
                raise _Unseen  # how far the body came is not seen
            for block in (s.orelse, s.finalbody):
                inner = self._block(block, ways)
                if inner[1]:
                    return inner
            return ways, False
        if s in self.doing:
            for use in self.doing[s]:
                ways = self._change(use, ways)
            return ways, False
        if not isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            raise _Unseen  # a match statement, say, with a change or the place in it
        return ways, False

    def _change(self, use: ast.expr, ways: list[_Way]) -> list[_Way]:
        """What one statement does to the dict."""
        module, parent = self.module, self.module.parents[use]
        outer = module.parents[parent]
        if (
            isinstance(parent, ast.Attribute)
            and isinstance(outer, ast.Call)
            and isinstance(module.parents[outer], ast.Expr)
        ):
            if parent.attr == "update" and len(outer.args) <= 1:
                more = [_Way({})]
                if outer.args:
                    more = _ways(module, outer.args[0], outer, self.depth + 1)
                return _each(ways, _with_keywords(module, more, outer, outer, self.depth))
            key = outer.args[0] if outer.args else None
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                name = key.value
                if parent.attr == "pop":
                    return [replace(w, items={k: v for k, v in w.items.items() if k != name}) for w in ways]
                if parent.attr == "setdefault" and len(outer.args) == 2:
                    return [w if name in w.items else w.holding({name: Item(outer.args[1], outer)}) for w in ways]
        if isinstance(parent, ast.Subscript) and isinstance(parent.slice, ast.Constant):
            item = parent.slice.value
            if not isinstance(item, str):
                raise _Unseen
            if isinstance(outer, ast.Assign) and outer.targets == [parent]:
                return [w.holding({item: Item(outer.value, outer)}) for w in ways]
            if isinstance(outer, ast.AugAssign) and outer.target is parent:
                return [w.holding({item: Item(parent, outer)}) for w in ways]
            if isinstance(outer, ast.Delete) and outer.targets == [parent]:
                return [replace(w, items={k: v for k, v in w.items.items() if k != item}) for w in ways]
        raise _Unseen


def _is_loop(node: ast.AST) -> bool:
    return isinstance(node, (ast.For, ast.AsyncFor, ast.While))


def _inside(outer: ast.stmt, module: Module, node: ast.AST) -> tuple[ast.AST, ...]:
    """The node, if it stands in a statement."""
    return (node,) if any(n is outer for n in module.around(node)) else ()
