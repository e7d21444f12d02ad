"""Let every rank into an evaluation that the main process runs alone: which conditions go, what stays under them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import WRAPPERS_DDP, last_name
from shardfix.analysis.loaders.flow import Flow
from shardfix.analysis.loops.conditions import Guard, conjuncts, guards_at, region
from shardfix.analysis.loops.dividing import PLAIN, Closed, Divided, close
from shardfix.analysis.loops.effects import HERE, effects, kind_of, reads, sets
from shardfix.analysis.programs.processes import (
    distributed_test,
    every_guard,
    handed_on,
    is_main_test,
    is_not_main_test,
    name_of,
)

_DEPTH = 6
_Functions = (ast.FunctionDef, ast.AsyncFunctionDef)
_Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.Module
_UPDATES = re.compile(r"update|ema|swa|average|load_state|copy_|sync|swap|apply", re.IGNORECASE)
_NORMED = re.compile(r"BatchNorm|torchvision|timm|resnet|inception|densenet|mobilenet|efficientnet", re.IGNORECASE)


@dataclass(frozen=True, eq=False, slots=True)
class Kept:
    """A run of statements of one block that one process goes on doing alone."""

    module: Module
    first: ast.stmt
    last: ast.stmt
    guard: Guard


@dataclass(frozen=True, eq=False, slots=True)
class LetIn:
    """How all ranks are let into the evaluations over a loader.

    Args:
        wrapped: calls of the evaluation in statements that show or write their result.
        bars: calls of tqdm that every rank would draw from now on.
    """

    guards: tuple[Guard, ...]
    kept: tuple[Kept, ...]
    wrapped: tuple[tuple[ast.Call, ast.stmt], ...]
    bars: tuple[tuple[ast.Call, Guard], ...]

    @property
    def lifted(self) -> frozenset[ast.expr]:
        """The conditions that go."""
        return frozenset(t for g in self.guards for t in g.tests)


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
        self._divide()
        for scope in self.targets:
            self._waits_apart(scope)
        self._there()
        self._counted_alone()
        self._set_alone()
        self._read_while_written()
        self._same_model()
        self._read_elsewhere()
        kept = [Kept(d.module, a, b, g) for d, g in self.divided for a, b in d.kept()]
        wrapped = [w for d, _ in self.divided for w in d.wrapped]
        bars = [(c, g) for d, g in self.divided for c in _bars(d)]
        return LetIn(tuple(self.guards.values()), tuple(kept), tuple(wrapped), tuple(dict.fromkeys(bars)))

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

    def _shared(self) -> set[ast.AST]:
        return {s for d, _ in self.divided for s in d.shared}

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

    def _there(self) -> None:
        """What all ranks read is there on all of them."""
        shared = self._shared()
        for divided, _ in self.divided:
            for part in divided.parts():
                for n in ast.walk(part):
                    if not isinstance(n, (ast.Name, ast.Attribute)) or not isinstance(n.ctx, ast.Load):
                        continue
                    found = divided.module.bindings.reaching(n)
                    if isinstance(n, ast.Attribute) and not found:
                        found = frozenset(_of_object(divided.module, n))
                    for d in found:
                        if d.kind in ("import", "function", "class", "parameter") or d.statement in shared:
                            continue
                        if not self._on_one(d):
                            continue
                        if (len(found) > 1 or _or_none(d)) and self._only_handed(divided, n):
                            continue
                        line = getattr(d.node, "lineno", 0)
                        close(n, f"`{d.key}` is the main process's own (line {line})")

    def _counted_alone(self) -> None:
        """What one process alone goes on counting decides on nothing that all ranks do."""
        for divided, _ in self.divided:
            module = divided.module
            for d in module.bindings.definitions:
                unit = divided.unit_of(d.statement) if d.kind in ("assign", "augmented", "loop") else None
                if unit is None or unit in divided.shared:
                    continue
                readers: list[ast.expr] = list(module.bindings.readers(d))
                if isinstance(d.node, ast.Attribute):
                    readers += [n for m in module.fellows for n in m.attribute_loads.get(d.node.attr, ())]
                for reader in readers:
                    if self._decides(reader):
                        close(reader, f"`{d.key}` is the main process's own (line {getattr(d.node, 'lineno', 0)})")
            for s in divided.alone():
                for n in _told(s):
                    self._told_alone(module, n)

    def _told_alone(self, module: Module, n: ast.Name) -> None:
        """What one process alone calls or fills decides on nothing either: ``stopper(acc)``, ``accs.append(acc)``."""
        for d in module.bindings.reaching(n):
            if d.kind in ("import", "function", "class") or isinstance(d.scope, ast.ClassDef) or n.id == "self":
                continue
            for reader in module.bindings.readers(d):
                if self._decides(reader):
                    close(reader, f"`{n.id}` is told something by the main process only (line {n.lineno})")

    def _set_alone(self) -> None:
        """What one process alone sets further down, by calling what shows or saves, is read by it alone."""
        read = {
            n.attr: n
            for d, _ in self.divided
            for p in d.parts()
            for n in ast.walk(p)
            if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load)
        }
        for divided, _ in self.divided:
            for s in divided.alone():
                for name in sorted(sets(divided.module, s)):
                    loads = [n for m in divided.module.fellows for n in m.attribute_loads.get(name, ())]
                    asked = read.get(name) or next((n for n in loads if self._decides(n)), None)
                    if asked is not None:
                        close(s, f"it sets `{name}`, which all ranks read (line {asked.lineno})")

    def _read_while_written(self) -> None:
        """What all ranks read from files is not what one of them writes."""
        writing = [
            s
            for d, _ in self.divided
            for s in d.alone()
            if any(e.kind == "writes" for e in effects(d.module, s)) and not isinstance(s, ast.Return)
        ]
        if not writing:
            return
        for divided, _ in self.divided:
            for part in divided.parts():
                call = reads(divided.module, part) if not isinstance(part, (ast.Return, ast.expr)) else None
                if call is not None:
                    lines = ", ".join(sorted({str(s.lineno) for s in writing}))
                    close(call, f"it reads a file, and one process alone writes files (line {lines})")

    def _decides(self, node: ast.expr) -> bool:
        """Whether a value is asked for where all ranks come: in a condition, or by what a loop goes over."""
        home = self.module.home(node)
        inside = next((d for d, _ in self.divided if d.module is home and d.unit_of(node) is not None), None)
        unit = inside.unit_of(node) if inside is not None else None
        if inside is not None and unit is not None and unit not in inside.shared:
            return False
        previous: ast.AST = node
        for outer in home.around(node):
            if isinstance(outer, (ast.If, ast.While)) and previous is outer.test:
                lifted = isinstance(outer, ast.If) and outer in self.guards
                return lifted or unit is not None or every_guard(home, outer, HERE)[0] is None
            if isinstance(outer, (ast.For, ast.AsyncFor)) and previous is outer.iter:
                return every_guard(home, outer, HERE)[0] is None
            if isinstance(outer, ast.stmt):
                return False
            previous = outer
        return False

    def _on_one(self, d: Definition) -> bool:
        home = self.module.home(d.node)
        test = every_guard(home, d.statement, HERE)[0]
        if test is not None and distributed_test(test) is not False:
            opened = any(d.statement in ast.walk(g) for g in self.guards if not self.guards[g].early)
            return not opened
        return _or_none(d)

    def _only_handed(self, divided: Divided, n: ast.expr) -> bool:
        """Whether a name is only given to a function of which one process alone reads that parameter."""
        module = divided.module
        call = module.parents[n]
        if isinstance(call, ast.keyword):
            call = module.parents[call]
        if not isinstance(call, ast.Call) or n is call.func:
            return False
        functions = [f for f in module.called_functions(call) if f in self.above]
        if not functions or len(functions) != len(module.called_functions(call)):
            return False
        for f in functions:
            parameter = module.parameter_of(f, call, n)
            inside = next((d for d, _ in self.divided if f.body in d.blocks), None)
            if parameter is None or inside is None:
                return False
            for d in inside.module.bindings.definitions_at(parameter, parameter.arg):
                for reader in inside.module.bindings.readers(d):
                    unit = inside.unit_of(reader)
                    if unit is None or (unit in inside.shared and not self._only_handed(inside, reader)):
                        return False
        return True

    def _same_model(self) -> None:
        """What is evaluated is the same on all ranks."""
        names = {n.id for d, _ in self.divided for p in d.parts() for n in ast.walk(p) if isinstance(n, ast.Name)}
        shared = self._shared()
        for module in {d.module for d, _ in self.divided}:
            for call in module.calls:
                receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
                given = [receiver] if receiver is not None else []
                given += call.args[:1] if receiver is None or isinstance(receiver, ast.Name) else []
                if not _UPDATES.search(last_name(call.func)) or not any(_named(g) & names for g in given):
                    continue
                if module.statement(call) in shared or last_name(call.func) in ("set_postfix", "state_dict"):
                    continue
                test = every_guard(module, call, HERE)[0]
                if test is not None and distributed_test(test) is not False and not _is_result(module, call):
                    close(call, f"only the main process calls `{' '.join(ast.unparse(call.func).split())}(..)`")
            self._changed_in_place(module, {n for n in names if not PLAIN.search(n)})
            self._statistics(module, names)

    def _changed_in_place(self, module: Module, names: set[str]) -> None:
        """What one process alone changes in place: ``for a, b in zip(ema.parameters(), ..): a.mul_(0.5)``."""
        shared = self._shared()
        for call in module.calls:
            name = last_name(call.func)
            if not (name.endswith("_") and not name.startswith("_")) or module.statement(call) in shared:
                continue
            test = every_guard(module, call, HERE)[0]
            if test is None or distributed_test(test) is False:
                continue
            own = [n for n in (call, *module.around(call)) if isinstance(n, ast.stmt)]
            under = own[: next((i for i, n in enumerate(own) if test in ast.walk(n)), len(own))]
            if under and names & {n.id for n in ast.walk(under[-1]) if isinstance(n, ast.Name)}:
                close(call, f"only the main process calls `{' '.join(ast.unparse(call.func).split())}(..)`")

    def _statistics(self, module: Module, names: set[str]) -> None:
        """A model outside of its DistributedDataParallel: the statistics of its BatchNorm are each rank's own."""
        text = "".join(m.text for m in module.fellows)
        if not _NORMED.search(text) or "SyncBatchNorm" in text or "SyncBN" in text:
            return
        wraps = [c for m in module.fellows for c in m.calls if m.callee(c) & WRAPPERS_DDP]
        for wrap in wraps:
            home = self.module.home(wrap)
            if any(k.arg == "broadcast_buffers" and ast.unparse(k.value) == "False" for k in wrap.keywords):
                close(wrap, "with broadcast_buffers=False the statistics of BatchNorm are each rank's own")
            statement = home.statement(wrap)
            targets = statement.targets if isinstance(statement, ast.Assign) else []
            inner = wrap.args[0] if wrap.args else None
            if isinstance(inner, ast.Name) and inner.id in names and inner.id not in {ast.unparse(t) for t in targets}:
                for divided, _ in self.divided:
                    for n in (n for p in divided.parts() for n in ast.walk(p)):
                        if isinstance(n, ast.Name) and n.id == inner.id and isinstance(n.ctx, ast.Load):
                            close(n, _UNWRAPPED.format(n.id))
        for divided, _ in self.divided:
            for n in (n for p in divided.parts() for n in ast.walk(p)):
                if isinstance(n, ast.Attribute) and n.attr == "module" and isinstance(n.ctx, ast.Load) and wraps:
                    close(n, _UNWRAPPED.format(ast.unparse(n)))

    def _read_elsewhere(self) -> None:
        """What the evaluation gives is read by the process that read it before, unless it is sent to all."""
        for divided, guard in self.divided:
            if guard.statement in self.guards and not self._is_body(divided):
                for d in list(divided.module.bindings.definitions):
                    if d.statement in divided.shared and d.kind in ("assign", "augmented"):
                        self._readers(d, divided)
                for s in divided.shared:
                    self._filled(divided, s)
                if guard.early:
                    self._returned(divided)

    def _is_body(self, divided: Divided) -> bool:
        return any(isinstance(s, _Functions) and s.body in divided.blocks for s in self.above)

    def _readers(self, d: Definition, divided: Divided) -> None:
        home = self.module.home(d.node)
        built = any(d.value is call for _, call in self.loaders)
        if isinstance(d.node, ast.Attribute) and not built:
            close(d.node, f"`{d.key}` outlives the function, and who reads it is not followed")
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
            if not isinstance(holder, ast.Name):
                close(holder, f"`{ast.unparse(holder)}` outlives the function, and who reads it is not followed")
            for d in divided.module.bindings.reaching(holder):
                for reader in divided.module.bindings.readers(d):
                    if divided.unit_of(reader) is None:
                        self._outside(divided.module, reader, holder.id, 0)

    def _outside(self, module: Module, reader: ast.AST, what: str, depth: int) -> None:
        if every_guard(module, reader, HERE)[0] is not None:
            return
        for outer in module.around(reader):
            if isinstance(outer, ast.Call) and last_name(outer.func) in _TAKES:
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
                    close(d.node, f"`{d.key}` outlives the function, and who reads it is not followed")
                for reader in module.bindings.readers(d):
                    self._outside(module, reader, d.key, depth)
            return
        self._outside(module, call, ast.unparse(call.func), depth)


_TAKES = frozenset({"broadcast", "broadcast_object_list", "step"})
_UNWRAPPED = (
    "`{}` is the model without its DistributedDataParallel: the statistics of BatchNorm are each rank's own there"
)


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


def _of_object(module: Module, n: ast.Attribute) -> Iterator[Definition]:
    cls = module.class_of(n)
    if cls is not None and isinstance(n.value, ast.Name) and n.value.id == "self":
        yield from module.attribute_values(cls, n.attr)


def _or_none(d: Definition) -> bool:
    """``x if rank == 0 else None``"""
    value = d.value if d.kind == "assign" else None
    return isinstance(value, ast.IfExp) and (is_main_test(value.test) or is_not_main_test(value.test))


def _named(node: ast.AST) -> set[str]:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return {node.id} if isinstance(node, ast.Name) and node.id != "self" else set()


def _told(s: ast.stmt) -> Iterator[ast.Name]:
    """The names of what a statement calls, fills or sets an attribute of."""
    for n in ast.walk(s):
        held: ast.AST | None = None
        if isinstance(n, ast.Expr) and isinstance(n.value, ast.Call):
            held = n.value.func
        elif isinstance(n, (ast.Attribute, ast.Subscript)) and isinstance(n.ctx, ast.Store):
            held = n.value
        while isinstance(held, (ast.Attribute, ast.Subscript)):
            held = held.value
        if isinstance(held, ast.Name):
            yield held


def _is_result(module: Module, call: ast.Call) -> bool:
    """Whether a call is of a counter or a bar, which holds no weights: ``pbar.update(1)``, ``best.update(acc=acc)``."""
    receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
    if receiver is None:
        return False
    text = ast.unparse(receiver).lower()
    return bool(re.search(r"bar|result|metric|meter|log|stat|score|history|tracker", text))


def _bars(divided: Divided) -> Iterator[ast.Call]:
    for part in divided.parts():
        for n in ast.walk(part):
            if isinstance(n, ast.Call) and last_name(n.func) in ("tqdm", "trange"):
                known = any(q.startswith("tqdm.") for q in divided.module.callee(n))
                if known and not any(k.arg in ("disable", None) for k in n.keywords):
                    yield n


__all__ = ["Kept", "LetIn", "let_in"]
