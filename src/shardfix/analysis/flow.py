"""Where a value goes: from the expression that makes a loader or sampler, forward to everything that uses it."""

from __future__ import annotations

import ast
from collections import deque
from dataclasses import dataclass
from typing import Literal

from shardfix.analysis.accelerators import is_prepare, is_trainer_hook
from shardfix.analysis.bindings import Definition
from shardfix.analysis.module import Module, attribute_key
from shardfix.analysis.rebinding import Rebinding, always_before, rebindings, replaced

UseKind = Literal[
    "prepare", "iterate", "next", "attribute", "argument", "escape", "returned", "length", "sanitize", "discarded"
]
Selector = int | str
ANY = "*"
ITERATOR = "~"
_LIMIT = 4000  # steps; a value that goes further than this is reported as escaping

_ITERATES = frozenset(
    {"enumerate", "zip", "iter", "reversed", "map", "list", "tuple", "islice", "cycle", "chain", "sorted"}
)
_PROGRESS = frozenset(
    {"tqdm", "trange", "track", "progress_bar", "ProgressBar", "log_every", "tqdm_notebook", "Progbar"}
)
_HARMLESS = frozenset({"print", "isinstance", "type", "id", "hasattr", "getattr", "callable", "str", "repr"})


@dataclass(frozen=True, eq=False, slots=True)
class Use:
    """One use of the value.

    Args:
        kind: what happens to it.
        node: the loop, call, attribute or other node that uses it.
        value: the expression that stands for the value there.
        prepared: the ``prepare`` call it went through before, if any.
        calls: the calls through whose parameters it came here, outermost first.
    """

    kind: UseKind
    node: ast.AST
    value: ast.expr
    prepared: ast.Call | None
    calls: tuple[ast.Call, ...]


@dataclass(frozen=True, eq=False)
class Flow:
    """All uses of a value; ``aliases`` are the expressions that stand for it; ``bounded`` says a limit was hit."""

    uses: tuple[Use, ...]
    aliases: frozenset[ast.expr]
    bounded: bool = False

    def of(self, *kinds: UseKind) -> list[Use]:
        """The uses of some kinds."""
        return [u for u in self.uses if u.kind in kinds]


@dataclass(frozen=True, slots=True)
class _State:
    node: ast.expr
    access: tuple[Selector, ...]
    prepared: ast.Call | None
    calls: tuple[ast.Call, ...]


def last_name(func: ast.expr) -> str:
    """The last component of a callee: ``a.b.c`` gives ``c``."""
    if isinstance(func, ast.Attribute):
        return func.attr
    return func.id if isinstance(func, ast.Name) else ""


def follow(module: Module, origin: ast.expr, prepare_functions: tuple[str, ...] = ()) -> Flow:
    """Follow the value of ``origin`` through names, attributes, containers, parameters and returns of one file."""
    walker = _Walker(module, prepare_functions)
    walker.push(_State(origin, (), None, ()))
    steps = 0
    while walker.queue and steps < _LIMIT:
        walker.step(walker.queue.popleft())
        steps += 1
    return Flow(tuple(walker.uses), frozenset(walker.aliases), bounded=bool(walker.queue))


class _Walker:
    def __init__(self, module: Module, prepare_functions: tuple[str, ...]) -> None:
        self.module = module
        self.prepare_functions = prepare_functions
        self.queue: deque[_State] = deque()
        self.seen: set[tuple[ast.expr, tuple[Selector, ...], bool]] = set()
        self.uses: list[Use] = []
        self.aliases: set[ast.expr] = set()
        self.used: set[tuple[str, ast.AST, bool]] = set()
        self.rebound: list[Rebinding] | None = None

    def push(self, state: _State) -> None:
        key = (state.node, state.access, state.prepared is not None)
        if key not in self.seen and len(state.access) <= 4 and not self.prepared_in_place(state):
            self.seen.add(key)
            self.queue.append(state)

    def prepared_in_place(self, state: _State) -> bool:
        """Whether the raw value is no longer in a container: prepare() has replaced it by what it makes of it."""
        if not state.access or state.prepared is not None or not isinstance(state.node, (ast.Name, ast.Attribute)):
            return False
        if self.rebound is None:
            self.rebound = rebindings(self.module, self.prepare_functions)
        return bool(self.rebound) and replaced(self.module, self.rebound, state.node, state.access[0])

    def use(self, kind: UseKind, node: ast.AST, state: _State) -> None:
        key = (kind, node, state.prepared is not None)
        if key not in self.used:
            self.used.add(key)
            self.uses.append(Use(kind, node, state.node, state.prepared, state.calls))

    # -- one step --------------------------------------------------------------------------------------------

    def step(self, s: _State) -> None:
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
                self.assign(s, target, parent)
        elif isinstance(parent, ast.NamedExpr):
            self.assign(s, parent.target, parent)
            self.push(_State(parent, s.access, s.prepared, s.calls))
        elif isinstance(parent, (ast.Tuple, ast.List, ast.Set)):
            if isinstance(parent.ctx if not isinstance(parent, ast.Set) else ast.Load(), ast.Load):
                position = parent.elts.index(node)
                self.container(s, parent, position)
        elif isinstance(parent, ast.Dict):
            position = next(i for i, v in enumerate(parent.values) if v is node) if node in parent.values else -1
            key = parent.keys[position] if position >= 0 else None
            selector = key.value if isinstance(key, ast.Constant) and isinstance(key.value, (str, int)) else ANY
            self.push(_State(parent, (selector, *s.access), s.prepared, s.calls))
        elif isinstance(parent, (ast.Return, ast.Yield)):
            self.returned(s, parent, s.access if isinstance(parent, ast.Return) else (ANY, *s.access))
        elif isinstance(parent, (ast.IfExp, ast.BoolOp)):
            if not (isinstance(parent, ast.IfExp) and parent.test is node):
                self.push(_State(parent, s.access, s.prepared, s.calls))
        elif isinstance(parent, (ast.For, ast.AsyncFor, ast.comprehension)):
            if parent.iter is node:
                self.loop(s, parent)
        elif isinstance(parent, ast.Attribute):
            self.attribute(s, parent)
        elif isinstance(parent, ast.Subscript):
            self.subscript(s, parent)
        elif isinstance(parent, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            self.push(_State(parent, (ANY, *s.access), s.prepared, s.calls))
        elif isinstance(parent, (ast.Starred, ast.Await)):
            if isinstance(parent, ast.Await):
                self.push(_State(parent, s.access, s.prepared, s.calls))
            else:
                self.push_container_parent(s, parent)
        elif isinstance(parent, ast.Lambda):
            self.use("escape", parent, s)
        elif isinstance(parent, ast.Expr):
            self.use("discarded", parent, s)

    def push_container_parent(self, s: _State, starred: ast.Starred) -> None:
        outer = self.module.parents[starred]
        if isinstance(outer, ast.Call) and s.access:
            self.argument(_State(s.node, s.access[1:], s.prepared, s.calls), outer, starred)
        elif isinstance(outer, (ast.Tuple, ast.List)):
            self.push(_State(outer, (ANY, *s.access[1:]), s.prepared, s.calls))

    def container(self, s: _State, parent: ast.Tuple | ast.List | ast.Set, position: int) -> None:
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
            self.assign(s, outer.targets[0].elts[position], outer)
            return
        self.push(_State(parent, (position, *s.access), s.prepared, s.calls))

    def assign(self, s: _State, target: ast.expr, statement: ast.AST) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            for i, element in enumerate(target.elts):
                inner = element.value if isinstance(element, ast.Starred) else element
                if s.access and (s.access[0] in (i, ANY) or (isinstance(s.access[0], int) and s.access[0] < 0)):
                    self.assign(_State(s.node, s.access[1:], s.prepared, s.calls), inner, statement)
        elif isinstance(target, ast.Name):
            self.definition(s, target, target.id)
        elif isinstance(target, ast.Attribute):
            key = attribute_key(target)
            if key is not None:
                self.definition(s, target, key)
                if key.startswith("self."):
                    self.class_attribute(s, target, statement)
            self.anywhere_attribute(s, target)
        elif isinstance(target, ast.Subscript):
            index = target.slice
            selector = index.value if isinstance(index, ast.Constant) and isinstance(index.value, (str, int)) else ANY
            self.stored(s, target.value, selector)

    def definition(self, s: _State, target: ast.expr, key: str) -> None:
        for d in self.module.bindings.definitions_at(target, key):
            for reader in self.module.bindings.readers(d):
                self.push(_State(reader, s.access, s.prepared, s.calls))

    def class_attribute(self, s: _State, target: ast.Attribute, statement: ast.AST) -> None:
        """``self.x = value``: loads of ``self.x`` in other methods that no later rebinding in this one overrides."""
        m = self.module
        cls = m.class_of(target)
        method = m.function(target)
        if cls is None or method is None:
            return
        key = f"self.{target.attr}"
        standing = m.bindings.exit_of(method).get(key, frozenset())
        mine = m.bindings.definitions_at(target, key)
        if standing and not any(d in standing for d in mine):
            return
        if s.prepared is None and self.rebound_prepared(cls, target.attr, mine):
            return
        for load in m.attribute_loads.get(target.attr, []):
            if not (isinstance(load.value, ast.Name) and load.value.id == "self"):
                continue
            if m.bindings.reaching(load):
                continue  # a definition in its own method decides
            if m.class_of(load) is cls or self.related(m.class_of(load), cls):
                self.push(_State(load, s.access, s.prepared, s.calls))

    def rebound_prepared(self, cls: ast.ClassDef, attribute: str, mine: frozenset[Definition]) -> bool:
        """Whether another method replaces the attribute by what ``prepare`` makes of it."""
        for d in self.module.attribute_definitions.get((cls, attribute), []):
            if d in mine or not isinstance(d.value, ast.Call):
                continue
            if is_prepare(self.module, d.value, self.prepare_functions) and any(
                isinstance(a, ast.Attribute) and a.attr == attribute for a in d.value.args
            ):
                return self.module.function(d.node) is not None
        return False

    def related(self, a: ast.ClassDef | None, b: ast.ClassDef) -> bool:
        if a is None:
            return False
        return any(self.module.class_definition(base) is b for base in a.bases) or any(
            self.module.class_definition(base) is a for base in b.bases
        )

    def anywhere_attribute(self, s: _State, target: ast.Attribute) -> None:
        """``trainer.loader = value`` on another object: its loads by that attribute name on other names."""
        if isinstance(target.value, ast.Name) and target.value.id == "self":
            for load in self.module.attribute_loads.get(target.attr, []):
                if isinstance(load.value, ast.Name) and load.value.id not in ("self", "cls"):
                    if any(
                        isinstance(d.statement, ast.stmt) and always_before(self.module, d.statement, load)
                        for d in self.module.bindings.reaching(load)
                    ):
                        continue  # assigned anew on every path to it
                    owner = None
                    for d in self.module.bindings.reaching(load.value):
                        if isinstance(d.value, ast.Call):
                            owner = self.module.class_definition(d.value.func)
                    if owner is not None and owner is self.module.class_of(target):
                        self.push(_State(load, s.access, s.prepared, s.calls))
        elif attribute_key(target) is None:
            self.use("escape", target, s)

    def stored(self, s: _State, container: ast.expr, selector: Selector) -> None:
        """``container[key] = value`` or ``container.append(value)``: the container's other loads hold the value."""
        m = self.module
        access = (selector, *s.access)
        if isinstance(container, ast.Name):
            for d in m.bindings.reaching(container):
                for reader in m.bindings.readers(d):
                    if reader is not container:
                        self.push(_State(reader, access, s.prepared, s.calls))
        elif isinstance(container, ast.Attribute) and isinstance(container.value, ast.Name):
            for load in m.attribute_loads.get(container.attr, []):
                if load is not container and m.class_of(load) is m.class_of(container):
                    self.push(_State(load, access, s.prepared, s.calls))
        else:
            self.use("escape", container, s)

    # -- calls -----------------------------------------------------------------------------------------------

    def argument(self, s: _State, call: ast.Call, argument: ast.AST) -> None:
        m = self.module
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
            if name in _HARMLESS:
                if name == "getattr" and len(call.args) > 1 and s.access == ():
                    self.use("attribute", call, s)
                return
            if name in ("sanitize",) and s.access == ():
                self.use("sanitize", call, s)
                self.push(_State(call, s.access, s.prepared, s.calls))
                return
            if is_prepare(m, call, self.prepare_functions) and s.access == ():
                self.prepare(s, call, argument)
                return
            if name in _ITERATES or name in _PROGRESS:
                self.push(_State(call, (ITERATOR,), s.prepared, s.calls))
                return
        elif is_prepare(m, call, self.prepare_functions):
            # prepare(*loaders) or prepare(loaders): the result has the same form.
            self.prepare(s, call, argument)
            return
        elif name in ("list", "tuple", "iter", "sorted", "reversed", "enumerate", "zip", "dict"):
            access: tuple[Selector, ...] = (ANY, *s.access[1:])
            if name == "enumerate":
                access = (ANY, 1, *s.access[1:])
            elif name == "zip" and argument in call.args:
                access = (ANY, call.args.index(argument), *s.access[1:])
            self.push(_State(call, s.access if name == "dict" else access, s.prepared, s.calls))
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
        target = m.called_function(call)
        if target is not None:
            parameter = m.parameter_for(call, argument)
            if parameter is not None:
                for d in m.bindings.definitions_at(parameter, parameter.arg):
                    for reader in m.bindings.readers(d):
                        self.push(_State(reader, s.access, s.prepared, (*s.calls, call)))
                return
        if s.access == () or s.access[0] == ITERATOR:
            self.use("argument", call, s)
            outer = m.parents[call]
            if isinstance(outer, (ast.For, ast.AsyncFor, ast.comprehension)) and outer.iter is call:
                self.use("iterate", outer, s)
        else:
            self.use("escape", call, s)

    def prepare(self, s: _State, call: ast.Call, argument: ast.AST) -> None:
        self.use("prepare", call, s)
        access = s.access
        starred = any(isinstance(a, ast.Starred) for a in call.args)
        if last_name(call.func) == "prepare" and argument in call.args and (len(call.args) > 1 or starred):
            position: Selector = ANY if starred else call.args.index(argument)
            access = (position, *s.access)
        self.push(_State(call, access, call, s.calls))

    # -- other contexts --------------------------------------------------------------------------------------

    def loop(self, s: _State, loop: ast.For | ast.AsyncFor | ast.comprehension) -> None:
        if s.access == () or s.access == (ITERATOR,):
            self.use("iterate", loop, s)
        elif s.access:
            self.assign(_State(s.node, s.access[1:], s.prepared, s.calls), loop.target, loop)

    def attribute(self, s: _State, attribute: ast.Attribute) -> None:
        m = self.module
        if s.access == ():
            self.use("attribute", attribute, s)
            return
        call = m.parents[attribute]
        if isinstance(call, ast.Call) and call.func is attribute:
            rest = s.access[1:]
            if attribute.attr == "values":
                self.push(_State(call, (ANY, *rest), s.prepared, s.calls))
            elif attribute.attr == "items":
                self.push(_State(call, (ANY, 1, *rest), s.prepared, s.calls))
            elif attribute.attr in ("get", "pop"):
                self.push(_State(call, rest, s.prepared, s.calls))
            elif attribute.attr == "copy":
                self.push(_State(call, s.access, s.prepared, s.calls))

    def subscript(self, s: _State, subscript: ast.Subscript) -> None:
        if subscript.value is not s.node or not s.access or not isinstance(subscript.ctx, ast.Load):
            return
        index = subscript.slice
        wanted = s.access[0]
        exact = isinstance(index, ast.Constant) and isinstance(index.value, (str, int))
        if isinstance(index, ast.Slice):
            self.push(_State(subscript, (ANY, *s.access[1:]), s.prepared, s.calls))
        elif wanted == ANY or not exact or (isinstance(index, ast.Constant) and index.value == wanted):
            self.push(_State(subscript, s.access[1:], s.prepared, s.calls))

    def returned(self, s: _State, statement: ast.AST, access: tuple[Selector, ...]) -> None:
        m = self.module
        function = m.function(statement)
        if function is None:
            return
        callers = m.callers(function)
        for call in callers:
            calls = tuple(c for c in s.calls if m.called_function(c) is not function)
            self.push(_State(call, access, s.prepared, calls))
        decorators = [last_name(d) for d in getattr(function, "decorator_list", [])]
        if any(d in ("property", "cached_property") for d in decorators):
            for load in m.attribute_loads.get(getattr(function, "name", ""), []):
                self.push(_State(load, access, s.prepared, s.calls))
            return
        if not callers or is_trainer_hook(m, function):
            self.use("returned", function, s)
