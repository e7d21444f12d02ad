"""What an expression may stand for: every value that it may be, traced back to where each was made.

Only what is known to hand on a value is gone through; all else is an origin of its own, and so told apart from the
value that is asked about.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.calling import Function, argument_of, default_of
from shardfix.analysis.code.decorators import gives_its_result
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.code.objects import named_fields
from shardfix.analysis.loaders.known_calls import ITERATES, PROGRESS
from shardfix.analysis.loaders.rebinding import always_before
from shardfix.analysis.loaders.uses import ANY, ITERATOR, Selector, State
from shardfix.analysis.programs.accelerators import is_prepare
from shardfix.analysis.state.containers import DISPLAYS, changes, items
from shardfix.analysis.state.kept_under import kept_under, runs
from shardfix.analysis.state.stored import Stored

_LIMIT = 600  # values of values
_ITSELF = frozenset({"sanitize", "unpadded"})
_LISTED = frozenset({"list", "tuple", "sorted", "reversed", "iter"})
_Comprehension = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
Access = tuple[Selector, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Origin:
    """A value that an expression may stand for.

    Args:
        node: what makes it, or the last expression that is followed.
        chosen: where it was put in the place of others.
    """

    node: ast.expr
    chosen: ast.expr


@dataclass(frozen=True, slots=True)
class _Step:
    """An expression on the way back, how the value is got at from it, and the calls that were gone into."""

    node: ast.expr
    access: Access
    calls: tuple[ast.Call, ...] = ()


def origins(module: Module, state: State, made: ast.expr, prepare_functions: tuple[str, ...] = ()) -> list[Origin]:
    """What the expression of a use may stand for besides what ``made`` makes, and None; see ``Use.via``.

    Args:
        prepare_functions: the names of the functions of the project that prepare loaders.
    """
    found = _Origins(module, made, _handed(state), prepare_functions)
    found.trace(_Step(state.node, state.access))
    return list({(o.node, o.chosen): o for o in found.found}.values())


def _handed(state: State | None) -> dict[ast.expr, ast.expr]:
    """Which of a call's arguments was followed through it."""
    known: dict[ast.expr, ast.expr] = {}
    while state is not None and state.before is not None:
        known[state.node] = state.before.node
        state = state.before
    return known


@dataclass
class _Origins:
    module: Module
    made: ast.expr
    handed: dict[ast.expr, ast.expr]
    prepare_functions: tuple[str, ...]
    found: list[Origin] = field(default_factory=list)

    def trace(self, first: _Step) -> None:
        """Go back from an expression to all that it may stand for."""
        queue = [(first, first.node)]
        seen = {(first.node, first.access, first.calls)}
        while queue:
            step, chosen = queue.pop()
            if step.node is self.made or _is_nothing(step):
                continue
            before = list(self.before(step)) if len(seen) < _LIMIT else [None]
            if not before or None in before:
                self.found.append(Origin(step.node, chosen if step.node is not first.node else step.node))
            for b in (b for b in before if b is not None):
                if (b.node, b.access, b.calls) not in seen:
                    seen.add((b.node, b.access, b.calls))
                    queue.append((b, b.node if len(before) > 1 else chosen))

    def before(self, step: _Step) -> Iterator[_Step | None]:
        """The expressions that one gets its value from; None for one that is not seen."""
        node, access, calls = step.node, step.access, step.calls
        if isinstance(node, ast.Name):
            yield from self.named(step, node)
        elif isinstance(node, ast.Attribute):
            yield from self.attribute(step, node)
        elif isinstance(node, ast.Subscript):
            yield _Step(node.value, (_key(node.slice), *access), calls)
        elif isinstance(node, ast.IfExp):
            yield from (_Step(n, access, calls) for n in (node.body, node.orelse))
        elif isinstance(node, ast.BoolOp):  # nothing goes over what is not true
            last = isinstance(node.op, ast.And)
            yield from (_Step(n, access, calls) for n in (node.values[-1:] if last else node.values))
        elif isinstance(node, (ast.NamedExpr, ast.Await, ast.Starred)):
            yield _Step(node.value, access, calls)
        elif isinstance(node, ast.Call):
            yield from self.called(step, node)
        elif isinstance(node, DISPLAYS) and access:
            yield from (_Step(v, a, calls) for v, a in items(node, access))
            yield from self.changed(step, node)
        elif isinstance(node, _Comprehension) and access:
            element = node.value if isinstance(node, ast.DictComp) else node.elt
            yield _Step(element, access[1:], calls)
            yield from self.changed(step, node)

    def changed(self, step: _Step, container: ast.expr) -> Iterator[_Step | None]:
        """What is put into a container later, wherever it goes."""
        for value, access in changes(self.module, container, step.access):
            yield _Step(value, access) if value is not None else None

    # -- names -------------------------------------------------------------------------------------------------

    def named(self, step: _Step, node: ast.Name) -> Iterator[_Step | None]:
        home = self.module.home(node)
        found = set(home.bindings.reaching(node))
        elsewhere = {other for d in found for other in _set_elsewhere(home, d)}
        for d in found | elsewhere:
            yield from self.defined(d, step)
        if any(isinstance(d.scope, ast.Module) for d in found):
            own = home.home(next(d.scope for d in found if isinstance(d.scope, ast.Module)))
            yield from (_Step(v, step.access) for v in Stored(home).of_file(node.id, own))

    def defined(self, d: Definition, step: _Step) -> Iterator[_Step | None]:
        """What a definition gives a name."""
        if d.kind == "parameter":
            yield from self.given(d, step)
        elif d.kind == "import":
            home = self.module.home(d.node)
            named = [n for q in (*home.resolve(d.module), d.module) for n in self.module.named(q)]
            yield from (s for n in dict.fromkeys(named) for s in self.defined(n, step))
            if not named:
                yield None
        elif d.kind in ("assign", "loop", "other") and d.value is not None:
            statement = d.statement
            value = statement.value if isinstance(statement, (ast.Assign, ast.AnnAssign)) else d.value
            place = _place(self.module, d)
            entered: Access = (ANY,) if d.kind != "assign" else ()
            if value is None or (d.kind == "other" and not isinstance(statement, (ast.With, ast.AsyncWith))):
                yield None
            else:
                yield _Step(value, (*entered, *place, *step.access), step.calls)
        else:
            yield None

    def given(self, d: Definition, step: _Step) -> Iterator[_Step | None]:
        """What callers give to a parameter: the call that was gone into, or all."""
        function = d.scope
        if not isinstance(function, Function):
            yield None
            return
        home = self.module.home(function)
        callers = home.callers(function)
        mine = step.calls[-1:] if step.calls and step.calls[-1] in callers else ()
        for call in mine or callers:
            rest = step.calls[:-1] if mine else step.calls
            yield from self.argument(function, d.key, call, step.access, rest)
        if not callers:
            yield None

    def argument(
        self, function: Function, name: str, call: ast.Call, access: Access, calls: tuple[ast.Call, ...]
    ) -> Iterator[_Step | None]:
        home = self.module.home(call)
        variable = function.args.vararg
        if variable is not None and variable.arg == name:
            free = [a for a in call.args if home.parameter_of(function, call, a) is None]
            opened = any(isinstance(a, ast.Starred) for a in call.args)
            number = access[0] if access else None
            if opened or not access:
                yield None
            elif isinstance(number, int) and 0 <= number < len(free):
                yield _Step(free[number], access[1:], calls)
            elif number == ANY:
                yield from (_Step(a, access[1:], calls) for a in free)
            return
        value = argument_of(home, function, call, name)
        opened = any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords)
        value = default_of(function, name) if value is None and not opened else value
        yield _Step(value, access, calls) if value is not None else None

    # -- attributes ----------------------------------------------------------------------------------------------

    def attribute(self, step: _Step, node: ast.Attribute) -> Iterator[_Step | None]:
        home = self.module.home(node)
        here = [s for d in home.bindings.reaching(node) for s in self.defined(d, step)]
        yield from here
        settled = any(always_before(home, s, node) for s in _statements(home, node))
        of_module = [d for q in home.qualify(node) for d in home.named(q)]
        if of_module:
            put = Stored(home).of_file(node.attr, home.home(of_module[0].scope))
            found = {*of_module, *(other for d in of_module for other in _set_elsewhere(home, d))}
            yield from (s for d in found for s in self.defined(d, step))
            yield from (_Step(v, step.access) for v in put)
            return
        classes = home.instances(node.value)
        if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
            cls = home.class_of(node)
            classes = [cls] if cls is not None else []
        if classes:
            for value in kept_under(home, classes, node.attr):
                if settled and not _comes_between(home, value.node, node):
                    continue
                if value.definition is not None:
                    yield from self.defined(value.definition, step)
                else:
                    yield _Step(value.node, step.access) if isinstance(value.node, ast.expr) else None
        elif not settled:
            yield _Step(node.value, (f".{node.attr}", *step.access), step.calls)

    # -- calls -----------------------------------------------------------------------------------------------------

    def called(self, step: _Step, call: ast.Call) -> Iterator[_Step | None]:
        home = self.module.home(call)
        name, access, calls = last_name(call.func), step.access, step.calls
        functions = home.called_functions(call)
        argument = self.handed.get(call)
        given = argument if argument in call.args else next(iter(call.args), None)
        if is_prepare(home, call, self.prepare_functions):
            yield from self.prepared(step, call, given)
        elif access[:1] == (ITERATOR,) and (name in ITERATES or name in PROGRESS) and given is not None:
            yield _Step(given, access, calls)
        elif home.project_classes(call.func):
            yield from self.object_of(step, call)
        elif functions:
            for function in functions:
                yield from self.returned(function, _Step(call, access, (*calls, call)))
        elif name in _ITSELF and call.args:
            yield _Step(call.args[0], access, calls)
        elif access and name in _LISTED and call.args:
            yield _Step(call.args[0], (ANY, *access[1:]), calls)
        elif access[1:] and name == "enumerate" and call.args:
            yield _Step(call.args[0], (ANY, *access[2:]), calls)
        elif access[1:] and name == "zip" and isinstance(access[1], int) and access[1] < len(call.args):
            yield _Step(call.args[access[1]], (ANY, *access[2:]), calls)
        elif access and name == "dict" and isinstance(call.func, ast.Name):
            yield from (_Step(v, a, calls) for v, a in items(call, access))
            yield from self.changed(step, call)
        elif isinstance(call.func, ast.Attribute) and name in ("get", "pop", "setdefault") and call.args:
            yield _Step(call.func.value, (_key(call.args[0]), *access), calls)
            yield from (_Step(a, access, calls) for a in call.args[1:])
        elif isinstance(call.func, ast.Attribute) and name in ("values", "copy") and not call.args:
            yield _Step(call.func.value, access, calls)
        elif isinstance(call.func, ast.Attribute) and name == "items" and access[:2] == (ANY, 1):
            yield _Step(call.func.value, (ANY, *access[2:]), calls)
        elif access and named_fields(home, call) is not None:
            yield from self.tuple_of(step, call, named_fields(home, call) or [])

    def prepared(self, step: _Step, call: ast.Call, given: ast.expr | None) -> Iterator[_Step | None]:
        """What of its arguments an Accelerator gives back: all of them, in their order."""
        first, starred = step.access[:1], [a for a in call.args if isinstance(a, ast.Starred)]
        if last_name(call.func) != "prepare" or (len(call.args) == 1 and not starred):
            yield _Step(given, step.access, step.calls) if given is not None else None
            return
        for i, a in enumerate(call.args):
            if isinstance(a, ast.Starred):
                yield _Step(a.value, (ANY, *step.access[1:]), step.calls)
            elif starred or first in ((i,), (ANY,)):
                yield _Step(a, step.access[1:], step.calls)

    def returned(self, function: Function, step: _Step) -> Iterator[_Step | None]:
        """What a function of the project gives its caller."""
        home = self.module.home(function)
        inside = [n for n in ast.walk(function) if home.function(n) is function]
        generated = [n.value for n in inside if isinstance(n, ast.Yield)]
        values = generated or [n.value for n in inside if isinstance(n, ast.Return)]
        access = step.access[1:] if generated else step.access
        managed = "contextmanager" in {last_name(d) for d in function.decorator_list}
        whole = bool(generated) and step.access[:1] != (ANY,)
        given = values and (managed or gives_its_result(home, function))
        if not given or whole or any(isinstance(n, ast.YieldFrom) for n in inside):
            yield None
        yield from (_Step(v, access, step.calls) for v in values if v is not None)

    def object_of(self, step: _Step, call: ast.Call) -> Iterator[_Step | None]:
        """What an object of the project holds under an attribute."""
        home = self.module.home(call)
        first = step.access[0] if step.access else ""
        if not isinstance(first, str) or not first.startswith("."):
            yield None
            return
        for value in kept_under(home, home.project_classes(call.func), first[1:]):
            if value.definition is not None:
                yield from self.defined(value.definition, _Step(call, step.access[1:]))
            else:
                yield _Step(value.node, step.access[1:]) if isinstance(value.node, ast.expr) else None

    def tuple_of(self, step: _Step, call: ast.Call, names: list[str]) -> Iterator[_Step | None]:
        """What a named tuple or a namespace holds under a name or at a place."""
        first = step.access[0]
        for i, value in enumerate(call.args):
            if first in (i, ANY) or (i < len(names) and first == f".{names[i]}"):
                yield _Step(value, step.access[1:], step.calls)
        for k in call.keywords:
            place = names.index(k.arg) if k.arg in names else -1
            if first in (f".{k.arg}", ANY) or first == place:
                yield _Step(k.value, step.access[1:], step.calls)
            elif k.arg is None:
                yield None
        yield from self.changed(step, call)


def _is_nothing(step: _Step) -> bool:
    """Whether nothing is gone through where an expression is: None, an empty list."""
    node = step.node
    empty = isinstance(node, DISPLAYS) and not step.access and not any(ast.iter_child_nodes(node))
    return isinstance(node, ast.Constant) or empty


def _key(index: ast.expr) -> Selector:
    known = isinstance(index, ast.Constant) and isinstance(index.value, (str, int))
    return index.value if known and isinstance(index, ast.Constant) and isinstance(index.value, (str, int)) else ANY


def _place(module: Module, d: Definition) -> Access:
    """Where in a value the target of a definition stands: ``(1,)`` for the ``b`` of ``a, b = value``."""
    found: list[Selector] = []
    node = d.node
    while isinstance(outer := module.parents.get(node), (ast.Tuple, ast.List, ast.Starred)):
        if not isinstance(outer, ast.Starred):
            found.append(next(i for i, e in enumerate(outer.elts) if e is node) if not _starred(outer) else ANY)
        node = outer
    return tuple(reversed(found))


def _starred(outer: ast.Tuple | ast.List) -> bool:
    return any(isinstance(e, ast.Starred) for e in outer.elts)


def _set_elsewhere(home: Module, d: Definition) -> Iterator[Definition]:
    """The definitions that functions within, or of the file, make of a name of the scope around them."""
    own = home.home(d.scope)
    if "global " not in own.text and "nonlocal " not in own.text:
        return
    for other in own.bindings.definitions:
        if other.key == d.key and other.scope is not d.scope and not isinstance(other.scope, (ast.Lambda, ast.Module)):
            told = (n for n in ast.walk(other.scope) if isinstance(n, (ast.Global, ast.Nonlocal)) and d.key in n.names)
            if any(own.scope(n) is other.scope for n in told):
                yield other


def _statements(home: Module, load: ast.Attribute) -> list[ast.stmt]:
    return [d.statement for d in home.bindings.reaching(load) if isinstance(d.statement, ast.stmt)]


def _comes_between(home: Module, put: ast.AST, load: ast.Attribute) -> bool:
    """Whether something else is put under an attribute between its assignment in a load's own scope and the load."""
    function = home.home(put).function(put)
    if function is None or function is home.function(load):
        return False
    start = max((s.lineno for s in _statements(home, load)), default=0)
    scope = home.scope(load)
    between = (c for c in home.calls if home.scope(c) is scope and start < c.lineno <= load.lineno)
    return any(runs(home, c, function) for c in between)


__all__ = ["Origin", "origins"]
