"""What one process has, counts or writes alone must not reach what all ranks do: it would be another value there."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.module import Module
from shardfix.analysis.loops.dividing import Divided, close
from shardfix.analysis.loops.effects import HERE, effects, kind_of, reads, sets
from shardfix.analysis.loops.files import may_meet
from shardfix.analysis.loops.single import of_one_process
from shardfix.analysis.programs.processes import distributed_test, every_guard, is_main_test, is_not_main_test
from shardfix.wording import numbered


class Missing(Exception):
    """What all ranks need is loaded by the main process alone, from where all ranks could load it."""

    def __init__(self, definition: Definition) -> None:
        super().__init__(definition.key)
        self.definition = definition


@dataclass(frozen=True, eq=False, slots=True)
class Own:
    """Statements that are divided between all ranks and one process.

    Args:
        lifted: the conditions on the rank that go.
        functions: those that all ranks come into from now on.
    """

    module: Module
    divided: Sequence[Divided]
    lifted: frozenset[ast.stmt]
    functions: frozenset[ast.AST]

    def keep(self) -> None:
        """See that what is one process's own stays its own.

        Raises:
            Closed: all ranks would read it.
            Missing: all ranks need it, and could load it.
        """
        self._there()
        self._counted_alone()
        self._set_alone()
        self._read_while_written()

    def _shared(self) -> set[ast.AST]:
        return {s for d in self.divided for s in d.shared}

    def _there(self) -> None:
        """What all ranks read is there on all of them."""
        shared = self._shared()
        for divided in self.divided:
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
                        if _loaded(self.module.home(d.node), d):
                            raise Missing(d)
                        line = getattr(d.node, "lineno", 0)
                        close(n, f"`{d.key}` is the main process's own (line {line})")

    def _on_one(self, d: Definition) -> bool:
        home = self.module.home(d.node)
        test = every_guard(home, d.statement, HERE)[0]
        if test is not None and distributed_test(test) is not False:
            opened = any(d.statement in ast.walk(g) for g in self.lifted)
            return not opened and not of_one_process(home, d.statement)
        return _or_none(d)

    def _only_handed(self, divided: Divided, n: ast.expr) -> bool:
        """Whether a name is only given to a function of which one process alone reads that parameter."""
        module = divided.module
        call = module.parents[n]
        if isinstance(call, ast.keyword):
            call = module.parents[call]
        if not isinstance(call, ast.Call) or n is call.func:
            return False
        functions = [f for f in module.called_functions(call) if f in self.functions]
        if not functions or len(functions) != len(module.called_functions(call)):
            return False
        for f in functions:
            parameter = module.parameter_of(f, call, n)
            inside = next((d for d in self.divided if f.body in d.blocks), None)
            if parameter is None or inside is None:
                return False
            for d in inside.module.bindings.definitions_at(parameter, parameter.arg):
                for reader in inside.module.bindings.readers(d):
                    unit = inside.unit_of(reader)
                    if unit is None or (unit in inside.shared and not self._only_handed(inside, reader)):
                        return False
        return True

    def _counted_alone(self) -> None:
        """What one process alone goes on counting decides on nothing that all ranks do."""
        for divided in self.divided:
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
                for n in _told(module, s):
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
            for d in self.divided
            for p in d.parts()
            for n in ast.walk(p)
            if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load)
        }
        for divided in self.divided:
            for s in divided.alone():
                for name in sorted(sets(divided.module, s)):
                    loads = [n for m in divided.module.fellows for n in m.attribute_loads.get(name, ())]
                    asked = read.get(name) or next((n for n in loads if self._decides(n)), None)
                    if asked is not None:
                        close(s, f"it sets `{name}`, which all ranks read (line {asked.lineno})")

    def _read_while_written(self) -> None:
        """What all ranks read from files is not what one of them writes at the same time.

        A file that is read before the evaluation is read when the ranks next combine something, behind it; one that is
        read when one rank may still write it is waited for.
        """
        writing = [
            (d, s)
            for d in self.divided
            for s in d.alone()
            if any(e.kind == "writes" for e in effects(d.module, s)) and not isinstance(s, ast.Return)
        ]
        for divided in self.divided if writing else ():
            last = max(getattr(t, "end_lineno", 0) or 0 for t in divided.targets)
            for part in divided.parts():
                if isinstance(part, (ast.Return, ast.expr)) or divided.goes_first(part):
                    continue
                for call in reads(divided.module, part, seen=set(divided.within)):
                    same = [(d, s) for d, s in writing if may_meet(self.module, call, d.module, s)]
                    same = [(d, s) for d, s in same if not divided.waits_for(part, d, s)]
                    if not same:
                        continue
                    simple = isinstance(part, (ast.Assign, ast.AnnAssign, ast.Expr))
                    if not simple or getattr(part, "lineno", 0) > last or divided.in_loop(part):
                        lines = numbered(s.lineno for _, s in same)
                        close(call, f"it reads a file, and one process alone writes files ({lines})")
                    assert isinstance(part, ast.stmt)
                    divided.waited.append(part)

    def _decides(self, node: ast.expr) -> bool:
        """Whether a value is asked for where all ranks come: in a condition, or by what a loop goes over."""
        home = self.module.home(node)
        inside = next((d for d in self.divided if d.module is home and d.unit_of(node) is not None), None)
        unit = inside.unit_of(node) if inside is not None else None
        if inside is not None and unit is not None and unit not in inside.shared:
            return False
        previous: ast.AST = node
        for outer in home.around(node):
            if isinstance(outer, (ast.If, ast.While)) and previous is outer.test:
                lifted = isinstance(outer, ast.If) and outer in self.lifted
                return lifted or unit is not None or every_guard(home, outer, HERE)[0] is None
            if isinstance(outer, (ast.For, ast.AsyncFor)) and previous is outer.iter:
                # What all ranks write, one of them now writes last who has nothing of it.
                together = any(e.kind in ("waits", "learns", "writes") for e in effects(home, outer))
                together = together or (inside is not None and any(n in inside.targets for n in ast.walk(outer)))
                return together and every_guard(home, outer, HERE)[0] is None
            if isinstance(outer, ast.stmt):
                return False
            previous = outer
        return False


def _of_object(module: Module, n: ast.Attribute) -> Iterator[Definition]:
    cls = module.class_of(n)
    if cls is not None and isinstance(n.value, ast.Name) and n.value.id == "self":
        yield from module.attribute_values(cls, n.attr)


def _loaded(module: Module, d: Definition) -> bool:
    """Whether a name is bound to what is loaded from files, and nothing else is done for it."""
    if d.kind != "assign" or d.index is not None or not isinstance(d.node, ast.Name) or d.value is None:
        return False
    found = effects(module, d.value)
    return bool(found) and all(e.of_files and not e.deep for e in found)


def _or_none(d: Definition) -> bool:
    """``x if rank == 0 else None``"""
    value = d.value if d.kind == "assign" else None
    return isinstance(value, ast.IfExp) and (is_main_test(value.test) or is_not_main_test(value.test))


def _told(module: Module, s: ast.stmt) -> Iterator[ast.Name]:
    """The names of what a statement calls, fills or sets an attribute of."""
    for n in ast.walk(s):
        held: ast.AST | None = None
        if isinstance(n, ast.Expr) and isinstance(n.value, ast.Call) and kind_of(module, n.value) is None:
            held = n.value.func
        elif isinstance(n, (ast.Attribute, ast.Subscript)) and isinstance(n.ctx, ast.Store):
            held = n.value
        while isinstance(held, (ast.Attribute, ast.Subscript)):
            held = held.value
        if isinstance(held, ast.Name):
            yield held


__all__ = ["Missing", "Own"]
