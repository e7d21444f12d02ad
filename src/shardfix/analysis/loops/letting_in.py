"""Let every rank into an evaluation that the main process runs alone: which conditions go, what stays under them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.loaders.flow import Flow
from shardfix.analysis.loops.conditions import Guard, conjuncts, guards_at, region
from shardfix.analysis.loops.dividing import Closed, Divided, close
from shardfix.analysis.loops.effects import HERE, Effect, answered, kind_of
from shardfix.analysis.loops.own import Missing, Own
from shardfix.analysis.loops.sent import TAKES, is_put_into_sent, is_sent_before, read_by_all
from shardfix.analysis.loops.weights import same_weights
from shardfix.analysis.programs.processes import (
    distributed_test,
    every_guard,
    handed_on,
    is_main_test,
    is_not_main_test,
    name_of,
)
from shardfix.analysis.state.stored import is_settings

_DEPTH = 6
_Functions = (ast.FunctionDef, ast.AsyncFunctionDef)
_Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.Module


@dataclass(frozen=True, eq=False, slots=True)
class Kept:
    """A run of statements of one block that one process goes on doing alone."""

    module: Module
    first: ast.stmt
    last: ast.stmt
    guard: Guard


@dataclass(frozen=True, eq=False, slots=True)
class Wait:
    """A wait before a statement, so that what it reads from files is written.

    Args:
        first: whether the others wait until the main process has done the statement; else all wait before it.
    """

    module: Module
    statement: ast.stmt
    guard: Guard
    first: bool


@dataclass(frozen=True, eq=False, slots=True)
class LetIn:
    """How all ranks are let into the evaluations over a loader.

    Args:
        wrapped: calls of the evaluation in statements that show or write their result.
        bars: calls of tqdm that every rank would draw from now on.
        loading: the statements by which all ranks load from files what the main process alone loaded.
        listed: the lists of files that all ranks make alike, since they wait before it.
        unset: the statements in front of which a name is to be bound to None, which one process alone binds.
    """

    guards: tuple[Guard, ...]
    kept: tuple[Kept, ...]
    wrapped: tuple[tuple[ast.Call, ast.stmt], ...]
    bars: tuple[tuple[ast.Call, Guard], ...]
    waits: tuple[Wait, ...] = ()
    loading: tuple[ast.stmt, ...] = ()
    listed: frozenset[ast.expr] = frozenset()
    unset: tuple[tuple[Module, ast.stmt, str], ...] = ()

    @property
    def lifted(self) -> frozenset[ast.expr]:
        """The conditions that go, and what all ranks find alike where they wait for it."""
        return self.listed.union(t for g in self.guards for t in g.tests)


def let_in(module: Module, loaders: Sequence[tuple[Flow, ast.Call]]) -> LetIn | Closed:
    """How all ranks are let into the loops over loaders; the place that stands in the way, and why, where they can't.

    Args:
        loaders: where each goes, and the call that builds it.
    """
    try:
        return _Ways(module, loaders).opened()
    except Closed as closed:
        return closed


@dataclass(eq=False)
class _Ways:
    """The ways to the loops over a loader, from the start of the program."""

    module: Module
    loaders: Sequence[tuple[Flow, ast.Call]]
    targets: dict[_Scope, list[ast.AST]] = field(default_factory=dict)
    above: dict[_Scope, bool] = field(default_factory=dict)  # whether one process alone calls a function
    guards: dict[ast.stmt, Guard] = field(default_factory=dict)
    divided: list[tuple[Divided, Guard]] = field(default_factory=list)
    loaded: set[ast.AST] = field(default_factory=set)  # what more is loaded by all ranks

    def opened(self) -> LetIn:
        for flow, built in self.loaders:
            uses = flow.of("iterate")
            if not uses:
                close(built, "no loop over it is seen")
            for use in uses:
                if not isinstance(use.node, ast.For):
                    close(use.node, "a comprehension goes over the batches")
                self._visit(use.node, set(use.calls), 0)
            local = every_guard(self.module, built, HERE)[0]
            if local is not None and distributed_test(local) is not False:
                self._visit(built, set(), 0)
        if not self.guards:
            close(self.loaders[0][1], "the condition on the rank is not seen to be one that can be taken away")
        for _ in range(_DEPTH):
            self.divided.clear()
            self._divide()
            for scope in self.targets:
                self._waits_apart(scope)
            self._hand_back()
            lifted = frozenset(g for g, v in self.guards.items() if not v.early)
            parts = [d for d, _ in self.divided]
            try:
                Own(self.module, parts, lifted, frozenset(self.above)).keep()
                break
            except Missing as missing:
                self._load_too(missing.definition)
        same_weights(self.module, parts)
        self._read_elsewhere()
        kept = [Kept(d.module, a, b, g) for d, g in self.divided for a, b in d.kept()]
        wrapped = [w for d, _ in self.divided for w in d.wrapped]
        bars = [(c, g) for d, g in self.divided for c in _bars(d)]
        waits, loading = self._waits()
        guards = tuple(self.guards.values())
        listed = frozenset(call for d, _ in self.divided for call in d.listed())
        return LetIn(
            guards,
            tuple(kept),
            tuple(wrapped),
            tuple(dict.fromkeys(bars)),
            tuple(waits),
            tuple(loading),
            listed,
            tuple(self._unset(kept)),
        )

    def _unset(self, kept: Sequence[Kept]) -> Iterator[tuple[Module, ast.stmt, str]]:
        """Where a result of one process alone begins to be made, and its name."""
        for divided, _ in self.divided:
            for leaving, made in divided.results.items():
                block = divided.module.block(made)
                runs = [k for k in kept if k.first in block and k.last in block]
                run = next(k for k in runs if block.index(k.first) <= block.index(made) <= block.index(k.last))
                assert isinstance(leaving.value, ast.Name)
                yield divided.module, run.first, leaving.value.id

    def _load_too(self, d: Definition) -> None:
        """Let all ranks load what the main process alone loads under another condition."""
        if d.statement in self.loaded or not isinstance(self.module.scope(d.statement), (ast.Module, *_Functions)):
            close(d.node, f"`{d.key}` is the main process's own")
        self.loaded.add(d.statement)
        self._visit(d.statement, set(), 0)

    def _waits(self) -> tuple[list[Wait], list[ast.stmt]]:
        """Where ranks wait for files, and the statements that load some."""
        first: list[Wait] = []
        begun: list[Wait] = []
        loading: list[ast.stmt] = []
        for divided, guard in self.divided:
            raced = [(s, e) for s, e in divided.loading if e.raced and s in divided.shared]
            for s, e in raced:
                if self._goes_first(e):
                    continue
                if s in divided.opened or not isinstance(s, (ast.Assign, ast.AnnAssign, ast.Expr)):
                    close(e.node, "one rank may read this file while another writes it")
                first.append(Wait(divided.module, s, guard, True))
            ahead = {e.through for _, e in raced}
            plain = [s for s, e in divided.loading if s in divided.shared and e.through not in ahead]
            loading += plain
            start = divided.begins_to_load()
            if plain and start is not None and guard.statement in self.guards and not self._is_body(divided):
                begun.append(Wait(divided.module, start, guard, False))
            elif plain:
                begun += [Wait(g.module, region(g)[0], g, False) for g in self.guards.values()]
            begun += [Wait(divided.module, s, guard, False) for s in divided.waited]
        found = {(w.statement, w.first): w for w in [*begun, *first]}
        return list(found.values()), list(dict.fromkeys(loading))

    def _goes_first(self, e: Effect) -> bool:
        """Whether a function has waits of its own, by which the main process goes first."""
        home = self.module.home(e.node)
        function = home.function(e.node)
        own = [c for c in home.calls if home.function(c) is function and kind_of(home, c) == "waits"]
        return bool(own) and all(answered(home, c) for c in own)

    # -- the conditions ----------------------------------------------------------------------------------------

    def _visit(self, node: ast.AST, given: set[ast.Call], depth: int) -> bool | None:
        """Whether one process alone comes to a place; None where only runs of one process do."""
        module = self.module.home(node)
        scope = module.scope(node)
        if isinstance(scope, ast.Lambda) or depth > _DEPTH:
            close(node, "the way to it is not followed")
        guards = guards_at(module, node)
        if guards is None:
            return None
        known = self.targets.setdefault(scope, [])
        first = not known
        if node not in known:
            known.append(node)
        for guard in guards:
            self.guards.setdefault(guard.statement, guard)
        if first and isinstance(scope, _Functions):
            self.above[scope] = self._called_alone(module, scope, given, depth)
        if guards and self.above.get(scope):
            close(guards[0].statement, "it stands in another condition on the rank, further up")
        return bool(guards) or self.above.get(scope, False)

    def _called_alone(
        self, module: Module, function: ast.FunctionDef | ast.AsyncFunctionDef, given: set[ast.Call], depth: int
    ) -> bool:
        for decorator in function.decorator_list:
            if name_of(decorator) in ("on_main_process", "rank_zero_only", "main_process_only", "on_rank_zero"):
                close(decorator, "a decorator lets one process in")
        calls = module.callers(function)
        found = {c: self._visit(c, given, depth + 1) for c in calls}
        alone = [c for c, one in found.items() if one]
        free = [c for c, one in found.items() if one is False]
        if alone and (free or handed_on(module, function)):
            close((free or alone)[0], "it is also called where all ranks come")
        return bool(alone)

    # -- what stays --------------------------------------------------------------------------------------------

    def _divide(self) -> None:
        within = frozenset(s for s in self.targets if not isinstance(s, ast.Module))
        regions: dict[ast.stmt, list[ast.AST]] = {}
        for scope, nodes in self.targets.items():
            module = self.module.home(scope)
            for node in nodes:
                for guard in guards_at(module, node) or ():
                    regions.setdefault(guard.statement, []).append(node)
        for statement, nodes in regions.items():
            guard = self.guards[statement]
            divided = Divided(guard.module, frozenset(nodes), within)
            divided.take_out(region(guard))
            divided.settle()
            divided.untangle()
            self.divided.append((divided, guard))
        outer = next(iter(self.guards.values()))
        for scope, nodes in self.targets.items():
            if self.above.get(scope) and isinstance(scope, _Functions):
                divided = Divided(self.module.home(scope), frozenset(nodes), within)
                divided.keep(scope.body)
                divided.settle()
                divided.untangle()
                self.divided.append((divided, outer))

    def _hand_back(self) -> None:
        """What a function gives to one process alone is read by it alone."""
        for inner, _ in self.divided:
            if not inner.results:
                continue
            function = inner.module.scope(inner.blocks[0][0])
            for n in ast.walk(function):
                if isinstance(n, ast.Return) and n.value is not None and n not in inner.results:
                    if inner.module.scope(n) is function:
                        close(n, "it is returned by all ranks, and another result by one alone")
            for divided, _ in self.divided:
                for call in [t for t in divided.targets if isinstance(t, ast.Call)]:
                    if function in divided.module.called_functions(call):
                        self._own_result(divided, call)

    def _own_result(self, divided: Divided, call: ast.Call) -> None:
        statement = divided.module.statement(call)
        if any(statement is w for _, w in divided.wrapped) or (
            isinstance(statement, ast.Expr) and statement.value is call
        ):
            return
        if not (isinstance(statement, ast.Assign) and statement.value is call):
            close(statement, "what one process alone makes is the result, and all ranks would read it")
        divided.own.add(statement)
        divided.settle()

    # -- what must not be --------------------------------------------------------------------------------------

    def _waits_apart(self, scope: _Scope) -> None:
        """Two waits by which the main process lets the others go first, or they it, with the evaluation in between."""
        module = self.module.home(scope)
        lines = [getattr(t, "lineno", 0) for t in self.targets[scope]]
        ahead: list[tuple[bool, ast.Call]] = []
        for call in module.calls:
            if module.scope(call) is not scope or kind_of(module, call) != "waits":
                continue
            side = _side(module, call)
            if side is not None and not any(call in ast.walk(g) for g in self.guards):
                if call.lineno < max(lines):
                    ahead.append((side, call))
                elif not ahead:
                    continue
        main = sum(side for side, _ in ahead)
        if len(ahead) != 2 * main:
            close(ahead[0][1], "ranks wait here for one another, and the evaluation would come in between")

    def _read_elsewhere(self) -> None:
        """What the evaluation gives is read by the process that read it before, unless it is sent to all."""
        for divided, guard in self.divided:
            if self._is_body(divided):
                for d in list(divided.module.bindings.definitions):
                    if d.statement in divided.shared and isinstance(d.node, ast.Attribute) and not _is_setting(d):
                        self._attribute(d.node, d.key)
            elif guard.statement in self.guards:
                for d in list(divided.module.bindings.definitions):
                    if d.statement in divided.shared and d.kind in ("assign", "augmented"):
                        self._readers(d, divided, guard)
                for s in divided.shared:
                    self._filled(divided, s)
                if guard.early:
                    self._returned(divided)
                self._given_by_others(guard)

    def _given_by_others(self, guard: Guard) -> None:
        """What the other ranks give a name in their branch is not what all ranks evaluate with."""
        for d in guard.module.bindings.definitions:
            for reader in guard.module.bindings.readers(d) if d.statement in guard.statement.orelse else ():
                if any(divided.unit_of(reader) in divided.shared for divided, _ in self.divided):
                    close(
                        reader, f"`{d.key}` is another value on the other ranks (line {getattr(d.node, 'lineno', 0)})"
                    )

    def _is_body(self, divided: Divided) -> bool:
        return any(isinstance(s, _Functions) and s.body in divided.blocks for s in self.above)

    def _readers(self, d: Definition, divided: Divided, guard: Guard) -> None:
        home = self.module.home(d.node)
        built = any(d.value is call for _, call in self.loaders)
        if isinstance(d.node, ast.Attribute) and not built:
            self._attribute(d.node, d.key)
            return
        if d.key in guard.others:
            return  # the other ranks go on giving it a value of their own
        for reader in home.bindings.readers(d):
            if divided.unit_of(reader) is None:
                self._outside(home, reader, d.key, 0)
            elif isinstance(home.statement(reader), ast.Return):
                self._returned(divided)

    def _filled(self, divided: Divided, s: ast.stmt) -> None:
        """What a statement puts the result into, which is there before: ``history.append(evaluate())``."""
        call = s.value if isinstance(s, ast.Expr) else None
        kept = [call.func.value] if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else []
        kept += [t.value for t in getattr(s, "targets", ()) if isinstance(t, ast.Subscript)]
        wrapped = any(s is w for d, _ in self.divided for w in (w for _, w in d.wrapped))
        if wrapped or call in divided.targets or not any(t in ast.walk(s) for t in divided.targets):
            return
        for holder in kept:
            while isinstance(holder, ast.Subscript):
                holder = holder.value
            if isinstance(holder, ast.Attribute):
                self._attribute(holder, ast.unparse(holder))
                continue
            if not isinstance(holder, ast.Name):
                close(holder, f"`{ast.unparse(holder)}` outlives the function, and who reads it is not followed")
            for d in divided.module.bindings.reaching(holder):
                for reader in divided.module.bindings.readers(d):
                    if divided.unit_of(reader) is None:
                        self._outside(divided.module, reader, holder.id, 0)

    def _attribute(self, node: ast.Attribute, key: str) -> None:
        """What an object keeps for one process, and no other reads."""
        reader = read_by_all(self.module, node)
        if reader is not None:
            close(reader, f"`{key}` is read here by all ranks, of which only the main process had it")

    def _outside(self, module: Module, reader: ast.AST, what: str, depth: int) -> None:
        if every_guard(module, reader, HERE)[0] is not None:
            return
        if is_sent_before(module, reader) or is_put_into_sent(module, reader):
            return
        for outer in module.around(reader):
            if isinstance(outer, ast.Call) and last_name(outer.func) in TAKES:
                return
            if isinstance(outer, ast.Return) and depth < _DEPTH:
                scope = module.scope(outer)
                for call in module.callers(scope):
                    self._result(self.module.home(call), call, depth + 1)
                return
            if isinstance(outer, ast.stmt):
                break
        close(reader, f"`{what}` is read here by all ranks, of which only the main process had it")

    def _returned(self, divided: Divided) -> None:
        scope = divided.module.scope(divided.blocks[0][0])
        for call in divided.module.callers(scope):
            self._result(self.module.home(call), call, 0)

    def _result(self, module: Module, call: ast.Call, depth: int) -> None:
        statement = module.statement(call)
        if isinstance(statement, ast.Expr) and statement.value is call:
            return
        if every_guard(module, call, HERE)[0] is not None:
            return
        if isinstance(statement, ast.Assign) and statement.value is call:
            made = [d for d in module.bindings.definitions if d.statement is statement]
            for d in made:
                if isinstance(d.node, ast.Attribute):
                    self._attribute(d.node, d.key)
                for reader in module.bindings.readers(d):
                    self._outside(module, reader, d.key, depth)
            return
        self._outside(module, call, ast.unparse(call.func), depth)


def _is_setting(d: Definition) -> bool:
    """Whether a setting is made of settings alone, of no result: ``args.batch = args.each * max(1, args.gpus)``."""
    if not isinstance(d.node, ast.Attribute) or d.value is None or not is_settings(d.node.value):
        return False
    called = {n.func for n in ast.walk(d.value) if isinstance(n, ast.Call)}
    names = [n for n in ast.walk(d.value) if isinstance(n, ast.Name)]
    plain = all(isinstance(f, ast.Name) and f.id in ("max", "min", "int") for f in called)
    return plain and all(n in called or is_settings(n) for n in names)


def _side(module: Module, call: ast.Call) -> bool | None:
    """Whether a call is the main process's (True), the others' (False), or all ranks' (None)."""
    previous: ast.AST = call
    for outer in module.around(call):
        if isinstance(outer, ast.If) and previous is not outer.test:
            tests = conjuncts(outer.test)
            main, other = any(map(is_main_test, tests)), any(map(is_not_main_test, tests))
            if main or other:
                return main if previous in outer.body else other
        if isinstance(outer, (*_Functions, ast.Lambda)):
            return None
        previous = outer
    return None


def _bars(divided: Divided) -> Iterator[ast.Call]:
    for part in divided.parts():
        for n in ast.walk(part):
            if isinstance(n, ast.Call) and last_name(n.func) in ("tqdm", "trange"):
                known = any(q.startswith("tqdm.") for q in divided.module.callee(n))
                if known and not any(k.arg in ("disable", None) for k in n.keywords):
                    yield n


__all__ = ["Kept", "LetIn", "Wait", "let_in"]
