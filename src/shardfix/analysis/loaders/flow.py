"""Where a value goes: from the expression that makes a loader or sampler, forward to everything that uses it."""

from __future__ import annotations

import ast
from collections import deque
from dataclasses import replace

from shardfix.analysis.code.calling import Function
from shardfix.analysis.code.decorators import gives_its_result
from shardfix.analysis.code.module import Module, attribute_key
from shardfix.analysis.code.names import BATCH_SAMPLER, last_name
from shardfix.analysis.code.objects import (
    crowded,
    field_of,
    imported_loads,
    instance_loads,
    named_fields,
    self_loads,
)
from shardfix.analysis.loaders.attributes import prepared_later, replaced_before, stands, still_raw
from shardfix.analysis.loaders.called_with import Run, left_out
from shardfix.analysis.loaders.known_calls import HARMLESS, ITERATES, PROGRESS
from shardfix.analysis.loaders.rebinding import Rebinding, rebindings, replaced
from shardfix.analysis.loaders.uses import ANY, ITERATOR, Flow, Selector, State, Use, UseKind
from shardfix.analysis.programs.accelerators import is_accelerator, is_prepare, is_trainer_hook

_BATCHES = ["sampler", "batch_size", "drop_last"]
_LIMIT = 4000  # steps; a value that goes further than this is reported as escaping


def follow(
    module: Module, origin: ast.expr, prepare_functions: tuple[str, ...] = (), *, only: tuple[ast.expr, ...] = ()
) -> Flow:
    """Follow the value of ``origin`` through names, attributes, containers, parameters, returns and files.

    Args:
        only: of the calls that get the value from one function (the reads, of a property) those to follow.
    """
    if only:
        return _follow(module, origin, prepare_functions, only)
    known = module.project.flows if module.project is not None else {}
    if (origin, prepare_functions) not in known:
        known[origin, prepare_functions] = _follow(module, origin, prepare_functions)
    return known[origin, prepare_functions]


def _follow(
    module: Module, origin: ast.expr, prepare_functions: tuple[str, ...], only: tuple[ast.expr, ...] = ()
) -> Flow:
    walker = _Walker(module, prepare_functions, only)
    walker.push(State(origin))
    steps = 0
    while walker.queue and steps < _LIMIT:
        walker.step(walker.queue.popleft())
        steps += 1
    return Flow(
        tuple(walker.uses), frozenset(walker.aliases), bool(walker.queue) or walker.crowded, frozenset(walker.lost)
    )


class _Walker:
    def __init__(self, module: Module, prepare_functions: tuple[str, ...], only: tuple[ast.expr, ...] = ()) -> None:
        self.module = module  # answers for the nodes of every file
        self.only = only
        self.prepare_functions = prepare_functions
        self.queue: deque[State] = deque()
        self.seen: set[tuple[ast.expr, tuple[Selector, ...], bool, tuple[ast.Call, ...]]] = set()
        self.uses: list[Use] = []
        self.aliases: set[ast.expr] = set()
        self.used: set[tuple[str, ast.AST, bool]] = set()
        self.lost: set[str] = set()
        self.rebound: dict[Module, list[Rebinding]] = {}
        self.crowded = False

    def push(self, state: State) -> None:
        key = (state.node, state.access, state.prepared is not None, state.calls)
        if key not in self.seen and len(state.access) <= 4 and not self.prepared_in_place(state):
            self.seen.add(key)
            self.queue.append(state)

    def prepared_in_place(self, state: State) -> bool:
        """Whether the raw value is no longer in a container: prepare() has replaced it by what it makes of it."""
        if not state.access or state.prepared is not None or not isinstance(state.node, (ast.Name, ast.Attribute)):
            return False
        m = self.module.home(state.node)
        if m not in self.rebound:
            self.rebound[m] = rebindings(m, self.prepare_functions)
        return bool(self.rebound[m]) and replaced(m, self.rebound[m], state.node, state.access[0])

    def use(self, kind: UseKind, node: ast.AST, state: State) -> None:
        key = (kind, node, state.prepared is not None)
        if key not in self.used:
            self.used.add(key)
            self.uses.append(Use(kind, node, state.node, state.prepared, state.calls, state))

    # -- one step --------------------------------------------------------------------------------------------

    def step(self, s: State) -> None:
        m, node = self.module, s.node
        if s.access == ():
            self.aliases.add(node)
        parent = m.parents[node]
        if isinstance(parent, ast.Call):
            self.argument(s, parent, node)
        elif isinstance(parent, ast.keyword):
            call = m.parents[parent]
            if isinstance(call, ast.Call):
                self.argument(s, call, parent)
            else:
                self.use("escape", parent, s)
        elif isinstance(parent, (ast.Assign, ast.AnnAssign)):
            for target in parent.targets if isinstance(parent, ast.Assign) else [parent.target]:
                self.assign(s, target)
        elif isinstance(parent, ast.NamedExpr):
            self.assign(s, parent.target)
            self.push(s.at(parent))
        elif isinstance(parent, (ast.Tuple, ast.List, ast.Set)):
            if isinstance(parent, ast.Set) or isinstance(parent.ctx, ast.Load):
                self.container(s, parent, parent.elts.index(node))
        elif isinstance(parent, ast.Dict):
            position = next(i for i, v in enumerate(parent.values) if v is node) if node in parent.values else -1
            key = parent.keys[position] if position >= 0 else None
            selector = key.value if isinstance(key, ast.Constant) and isinstance(key.value, (str, int)) else ANY
            self.push(s.at(parent, (selector, *s.access)))
        elif isinstance(parent, (ast.Return, ast.Yield)):
            self.returned(s, parent, s.access if isinstance(parent, ast.Return) else (ANY, *s.access))
        elif isinstance(parent, (ast.IfExp, ast.BoolOp)):
            if not (isinstance(parent, ast.IfExp) and parent.test is node):
                self.push(s.at(parent))
        elif isinstance(parent, (ast.For, ast.AsyncFor, ast.comprehension)):
            if parent.iter is node:
                self.loop(s, parent)
        elif isinstance(parent, ast.Attribute):
            self.attribute(s, parent)
        elif isinstance(parent, ast.Subscript):
            self.subscript(s, parent)
        elif isinstance(parent, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            self.push(s.at(parent, (ANY, *s.access)))
        elif isinstance(parent, ast.Await):
            self.push(s.at(parent))
        elif isinstance(parent, ast.Starred):
            self.starred(s, parent)
        elif isinstance(parent, ast.withitem):
            self.managed(s, parent)
        elif isinstance(parent, ast.Lambda):
            self.use("escape", parent, s)
        elif isinstance(parent, ast.Expr):
            self.use("discarded", parent, s)

    def managed(self, s: State, item: ast.withitem) -> None:
        """``with make() as loader:`` for a function that yields the loader."""
        if s.access[:1] == (ANY,) and item.optional_vars is not None:
            self.assign(s.held(s.access[1:]), item.optional_vars)
        elif item.optional_vars is not None:
            self.use("escape", item, s)

    def starred(self, s: State, starred: ast.Starred) -> None:
        outer = self.module.parents[starred]
        if isinstance(outer, ast.Call) and s.access:
            place = s.access[0]
            if (
                isinstance(place, int)
                and place >= 0
                and is_prepare(self.module.home(outer), outer, self.prepare_functions)
            ):
                before = outer.args.index(starred)
                if not any(isinstance(a, ast.Starred) for a in outer.args[:before]):
                    self.use("prepare", outer, s.held(s.access[1:]))
                    self.push(replace(s.at(outer, (before + place, *s.access[1:])), prepared=outer))
                    return
            self.argument(s.held(s.access[1:]), outer, starred)
        elif isinstance(outer, (ast.Tuple, ast.List)):
            self.push(s.at(outer, (ANY, *s.access[1:])))

    def container(self, s: State, parent: ast.Tuple | ast.List | ast.Set, position: int) -> None:
        outer = self.module.parents[parent]
        if (
            isinstance(outer, ast.Assign)
            and isinstance(parent, (ast.Tuple, ast.List))
            and outer.value is parent
            and len(outer.targets) == 1
            and isinstance(outer.targets[0], (ast.Tuple, ast.List))
            and len(outer.targets[0].elts) == len(parent.elts)
            and not any(isinstance(e, ast.Starred) for e in [*outer.targets[0].elts, *parent.elts])
        ):
            self.assign(s, outer.targets[0].elts[position])
            return
        self.push(s.at(parent, (position, *s.access)))

    # -- targets ---------------------------------------------------------------------------------------------

    def assign(self, s: State, target: ast.expr) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            for i, element in enumerate(target.elts):
                inner = element.value if isinstance(element, ast.Starred) else element
                if s.access and (s.access[0] in (i, ANY) or (isinstance(s.access[0], int) and s.access[0] < 0)):
                    self.assign(s.held(s.access[1:]), inner)
        elif isinstance(target, ast.Name):
            self.definition(s, target, target.id)
        elif isinstance(target, ast.Attribute):
            key = attribute_key(target)
            if key is not None:
                self.definition(s, target, key)
            self.object_attribute(s, target)
        elif isinstance(target, ast.Subscript):
            index = target.slice
            selector = index.value if isinstance(index, ast.Constant) and isinstance(index.value, (str, int)) else ANY
            self.stored(s, target.value, selector)

    def definition(self, s: State, target: ast.expr, key: str) -> None:
        for d in self.module.bindings.definitions_at(target, key):
            for reader in [*self.module.bindings.readers(d), *imported_loads(self.module, d)]:
                self.push(s.at(reader))

    def object_attribute(self, s: State, target: ast.Attribute) -> None:
        """``x.attribute = value``: the loads of that attribute on the same object in other places."""
        m = self.module
        cls = m.class_of(target)
        if isinstance(target.value, ast.Name) and target.value.id == "self" and cls is not None:
            if stands(m, target):
                prepares = self.prepared_later(s, cls, target.attr, target)
                for load in self_loads(m, cls, target.attr):
                    # A definition in the load's own method decides, and what prepare() returns replaces the value.
                    if not m.bindings.reaching(load) and still_raw(m, load, prepares):
                        self.push(s.at(load))
            for load in self.loads(cls, target.attr, others=True):
                if not replaced_before(m, load):
                    self.push(s.at(load))
            return
        made = m.instances(target.value)
        for cls in made:
            prepares = self.prepared_later(s, cls, target.attr, target)
            for load in self.loads(cls, target.attr):
                if not m.bindings.reaching(load) and still_raw(m, load, prepares):
                    self.push(s.at(load))
        if not made and attribute_key(target) is None:
            self.use("escape", target, s)

    def loads(self, cls: ast.ClassDef, attribute: str, *, others: bool = False) -> list[ast.Attribute]:
        """The loads of an attribute of a class's instances; ``others`` leaves out those through ``self``."""
        self.crowded = self.crowded or crowded(self.module, attribute)
        own = [] if others else self_loads(self.module, cls, attribute)
        return [*own, *instance_loads(self.module, cls, attribute)]

    def prepared_later(
        self, s: State, cls: ast.ClassDef, attribute: str, target: ast.Attribute | None = None
    ) -> list[ast.AST]:
        """What puts the prepared value in the place of a raw one in an attribute of a class's instances."""
        if s.prepared is not None:
            return []
        return prepared_later(self.module, cls, attribute, self.prepare_functions, target)

    def stored(self, s: State, container: ast.expr, selector: Selector) -> None:
        """``container[key] = value`` or ``container.append(value)``: the container's other loads hold the value."""
        m = self.module
        access = (selector, *s.access)
        if isinstance(container, ast.Name):
            for d in m.bindings.reaching(container):
                for reader in [*m.bindings.readers(d), *imported_loads(m, d)]:
                    if reader is not container:
                        self.push(s.at(reader, access))
        elif isinstance(container, ast.Attribute) and isinstance(container.value, ast.Name):
            cls = m.class_of(container) if container.value.id == "self" else None
            owners = [cls] if cls is not None else m.instances(container.value)
            for owner in owners:
                for load in self.loads(owner, container.attr):
                    if load is not container:
                        self.push(s.at(load, access))
            if not owners:
                self.use("escape", container, s)
        else:
            self.use("escape", container, s)

    # -- calls -----------------------------------------------------------------------------------------------

    def argument(self, s: State, call: ast.Call, argument: ast.AST) -> None:
        m = self.module.home(call)
        if argument is call.func:
            return
        name = last_name(call.func)
        if s.access == () or s.access[0] == ITERATOR:
            if name == "len" and s.access == ():
                self.use("length", call, s)
                return
            if name == "next":
                self.use("next", call, s)
                return
            if name in HARMLESS:
                if name == "getattr" and len(call.args) > 1 and s.access == ():
                    self.use("attribute", call, s)
                return
            if name in ("sanitize", "unpadded") and s.access == ():
                self.use("sanitize" if name == "sanitize" else "unpadded", call, s)
                self.push(s.at(call))
                return
            if is_prepare(m, call, self.prepare_functions) and s.access == ():
                self.prepare(s, call, argument)
                return
            if name in ITERATES or name in PROGRESS:
                self.push(s.at(call, (ITERATOR,)))
                if s.access == () and name in ITERATES and m.called_functions(call):  # the project's own of that name
                    self.handed(s, call, argument)
                return
        elif is_prepare(m, call, self.prepare_functions):
            # prepare(*loaders) or prepare(loaders): the result has the same form.
            self.prepare(s, call, argument)
            return
        elif name == "map" and self.maps_prepare(m, call) and argument in call.args[1:]:
            self.use("prepare", call, s)
            self.push(replace(s.at(call), prepared=call))
            return
        elif name in ("list", "tuple", "iter", "sorted", "reversed", "enumerate", "zip", "dict"):
            access: tuple[Selector, ...] = (ANY, *s.access[1:])
            if name == "enumerate":
                access = (ANY, 1, *s.access[1:])
            elif name == "zip" and argument in call.args:
                access = (ANY, call.args.index(argument), *s.access[1:])
            self.push(s.at(call, s.access if name == "dict" else access))
            return
        elif name == "len":
            return
        if (
            isinstance(call.func, ast.Attribute)
            and name in ("append", "extend", "add", "insert")
            and s.access[:1] != (ITERATOR,)
        ):
            self.stored(s, call.func.value, ANY)
            return
        if not self.handed(s, call, argument):
            self.unseen(s, call)

    def maps_prepare(self, m: Module, call: ast.Call) -> bool:
        """``map(accelerator.prepare, loaders)``"""
        func = call.args[0] if call.args else None
        return isinstance(func, ast.Attribute) and func.attr == "prepare" and is_accelerator(m, func.value)

    def handed(self, s: State, call: ast.Call, argument: ast.AST) -> bool:
        """Follow a value into the functions that a call of the project runs; False where one of them is not seen."""
        m = self.module
        functions = m.called_functions(call)
        parameters = [(f, *self.bound(f, call, argument)) for f in functions]
        if not functions:
            fields = [(c, field_of(m, c, call, argument)) for c in m.project_classes(call.func)]
            for cls, name in fields:
                prepares = self.prepared_later(s, cls, name)
                for load in self.loads(cls, name) if name else ():
                    if still_raw(m, load, prepares):
                        self.push(s.at(load))
            if fields and s.access == ():
                self.use("handed", call, s)
            if not fields and self.named(s, call, argument):
                return True
            return bool(fields) and all(name for _, name in fields)
        calls = s.calls if call in s.calls else (*s.calls, call)
        for _, parameter, access in parameters:
            if parameter is None:
                continue
            for d in m.bindings.definitions_at(parameter, parameter.arg):
                for reader in m.bindings.readers(d):
                    self.push(replace(s.at(reader, (*access, *s.access)), calls=calls))
        if s.access == ():
            self.use("handed", call, s)
        return all(parameter is not None for _, parameter, _ in parameters)

    def bound(
        self, function: Function, call: ast.Call, argument: ast.AST
    ) -> tuple[ast.arg | None, tuple[Selector, ...]]:
        """The parameter that an argument binds to, and its place in it where that is ``*objects``."""
        m = self.module
        parameter = m.parameter_of(function, call, argument)
        variable = function.args.vararg
        if parameter is not None or variable is None or argument not in call.args:
            return parameter, ()
        before = call.args[: call.args.index(argument)]
        if any(isinstance(a, ast.Starred) for a in (*before, argument)):
            return None, ()
        return variable, (sum(m.parameter_of(function, call, a) is None for a in before),)

    def named(self, s: State, call: ast.Call, argument: ast.AST) -> bool:
        """A value put into a named tuple or a namespace is got at by position and by its field's name, a sampler in a
        BatchSampler by the name of its attribute."""
        names = _BATCHES if BATCH_SAMPLER in self.module.callee(call) else named_fields(self.module, call)
        if names is None or (isinstance(argument, ast.keyword) and argument.arg is None):
            return False
        if isinstance(argument, ast.keyword):
            field = argument.arg or ""
        else:
            position = call.args.index(argument) if isinstance(argument, ast.expr) and argument in call.args else -1
            field = names[position] if 0 <= position < len(names) else ""
        if not field or isinstance(argument, ast.Starred):
            return False
        self.push(s.at(call, (f".{field}", *s.access)))
        if field in names:
            self.push(s.at(call, (names.index(field), *s.access)))
        return True

    def unseen(self, s: State, call: ast.Call) -> None:
        """A value handed to what is not seen into."""
        m = self.module
        self.lost |= m.qualify(call.func)
        if isinstance(call.func, ast.Attribute):  # a method of what a class makes that no parsed file defines
            for d in m.bindings.reaching(call.func.value):
                self.lost |= m.qualify(d.value.func) if isinstance(d.value, ast.Call) else frozenset()
        if s.access == () or s.access[0] == ITERATOR:
            self.use("argument", call, s)
            outer = m.parents[call]
            if isinstance(outer, (ast.For, ast.AsyncFor, ast.comprehension)) and outer.iter is call:
                self.use("iterate", outer, s)
        else:
            self.use("escape", call, s)

    def prepare(self, s: State, call: ast.Call, argument: ast.AST) -> None:
        self.use("prepare", call, s)
        access = s.access
        starred = any(isinstance(a, ast.Starred) for a in call.args)
        if last_name(call.func) == "prepare" and argument in call.args and (len(call.args) > 1 or starred):
            position: Selector = ANY if starred else call.args.index(argument)
            access = (position, *s.access)
        self.push(replace(s.at(call, access), prepared=call))

    # -- other contexts --------------------------------------------------------------------------------------

    def loop(self, s: State, loop: ast.For | ast.AsyncFor | ast.comprehension) -> None:
        if s.access == () or s.access == (ITERATOR,):
            self.use("iterate", loop, s)
        elif s.access:
            self.assign(s.held(s.access[1:]), loop.target)

    def attribute(self, s: State, attribute: ast.Attribute) -> None:
        m = self.module
        if s.access == ():
            self.use("attribute", attribute, s)
            return
        if s.access[0] == f".{attribute.attr}":
            self.push(s.at(attribute, s.access[1:]))
            return
        call = m.parents[attribute]
        if isinstance(call, ast.Call) and call.func is attribute:
            rest = s.access[1:]
            if attribute.attr == "values":
                self.push(s.at(call, (ANY, *rest)))
            elif attribute.attr == "items":
                self.push(s.at(call, (ANY, 1, *rest)))
            elif attribute.attr in ("get", "pop"):
                self.push(s.at(call, rest))
            elif attribute.attr == "copy":
                self.push(s.at(call))

    def subscript(self, s: State, subscript: ast.Subscript) -> None:
        if subscript.value is not s.node or not s.access or not isinstance(subscript.ctx, ast.Load):
            return
        index = subscript.slice
        wanted = s.access[0]
        exact = isinstance(index, ast.Constant) and isinstance(index.value, (str, int))
        if isinstance(index, ast.Slice):
            self.push(s.at(subscript, (ANY, *s.access[1:])))
        elif wanted == ANY or not exact or (isinstance(index, ast.Constant) and index.value == wanted):
            self.push(s.at(subscript, s.access[1:]))

    def not_by(self, s: State, statement: ast.AST, function: ast.AST, call: ast.Call) -> bool:
        """Whether a call of a function does not come this way in it: what it is given chooses another one."""
        if not isinstance(function, Function):
            return False
        m, runs = self.module, (Run(function, call),)
        state: State | None = s
        while state is not None and m.function(state.node) is function:
            if left_out(m, state.node, runs):
                return True
            state = state.before
        return left_out(m, statement, runs)

    def returned(self, s: State, statement: ast.AST, access: tuple[Selector, ...]) -> None:
        m = self.module
        function = m.function(statement)
        if function is None:
            return
        if not gives_its_result(m, function):
            self.use("escape", function, s)  # its callers get what a decorator makes of it
            return
        through = [c for c in s.calls if function in m.called_functions(c)]
        callers = through or m.callers(function)
        for call in [c for c in callers if c in self.only] or callers:
            if self.not_by(s, statement, function, call):
                continue
            calls = tuple(c for c in s.calls if c not in through)
            self.push(replace(s.at(call, access), calls=calls))
        decorators = [last_name(d) for d in getattr(function, "decorator_list", [])]
        cls = m.class_of(function)
        if any(d in ("property", "cached_property") for d in decorators) and cls is not None:
            name = getattr(function, "name", "")
            loads = self.loads(cls, name)
            for load in [node for node in loads if node in self.only] or loads:
                self.push(s.at(load, access))
            return
        if not callers or is_trainer_hook(m.home(function), function):
            self.use("returned", function, s)


__all__ = ["Flow", "Use", "UseKind", "follow"]
