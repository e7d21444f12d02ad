"""Walk the body of an evaluation loop: what each statement adds to, and the statement that is not understood."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of, last_name
from shardfix.analysis.loops.accumulation import mentions, names_bound, root_of
from shardfix.analysis.loops.evaluation import gathers_itself, is_reduction
from shardfix.analysis.loops.leaving import instead_of
from shardfix.analysis.metrics.averages import averaged
from shardfix.analysis.metrics.each_step import averaged_value
from shardfix.analysis.metrics.entries import added_by, is_number
from shardfix.analysis.metrics.growing import chosen, first_or_joined, joined, joined_later, rowwise, squeezed, summands
from shardfix.analysis.metrics.meters import Meter
from shardfix.analysis.metrics.model import Gathered, Obstacle
from shardfix.analysis.metrics.quantities import Value, short
from shardfix.analysis.metrics.reread import OVERWRITTEN, opened_by_all
from shardfix.analysis.metrics.showing import only_shows, shows
from shardfix.analysis.metrics.values import Values
from shardfix.analysis.state.altering import alters, changes_within
from shardfix.analysis.state.drawing import draws
from shardfix.analysis.state.forwards import carries, forwards, learns
from shardfix.analysis.state.mutations import is_definition, root_name
from shardfix.analysis.state.sharing import Sharing, names_of
from shardfix.analysis.state.telling import moves_a_clock, told


@dataclass(frozen=True, eq=False, slots=True)
class Write:
    """One statement that adds to something that outlives the batch.

    Args:
        target: what is added to, as an expression of that statement.
        name: its root as it is written.
    """

    target: ast.expr
    name: str
    kind: Gathered
    statement: ast.stmt
    why: str = ""
    meter: Meter | None = None
    sure: bool = True
    value: Value | None = None  # of a list, what is added to it


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a statement stands: within a loop over the samples, run once for each of them, only for some batches."""

    per_sample: bool = False
    loosely: bool = False  # the loop goes over a model's output, which need not be one for each sample
    once: bool = True
    some_batches: str = ""


class Gathering:
    """The writes and obstacles of one loop."""

    def __init__(self, module: Module, loop: ast.For, values: Values) -> None:
        self.module, self.loop, self.values = module, loop, values
        self.writes: list[Write] = []
        self.obstacles: list[Obstacle] = []
        self.averaged: list[ast.Call] = []  # what each step replaces by its mean over the ranks
        self.shown: set[ast.AST] = set()  # statements that only show
        self.begun: set[ast.AST] = set()  # statements that put the first piece in a list or array
        self.inside = set(ast.walk(loop))
        self.bound = names_bound(module, loop)
        self.sharing = Sharing(module, loop, {}, names_of(loop))
        self._block(loop.body, _Place(per_sample=values.single))

    def refuse(self, node: ast.AST, why: str) -> None:
        """Note a statement that is not understood."""
        self.obstacles.append(Obstacle(node, why))

    # -- statements ------------------------------------------------------------------------------------------

    def _block(self, body: Sequence[ast.stmt], place: _Place) -> None:
        for statement in body:
            if isinstance(statement, (ast.If, ast.While, ast.Try)) and _leaves(statement):
                self._statement(statement, place)
                place = replace(place, once=False)
            else:
                self._statement(statement, place)

    def _statement(self, s: ast.stmt, place: _Place) -> None:
        self._calls(s)
        call = told(self.module, s, self.bound, self.is_local)
        if call is not None:
            self.refuse(s, f"`{short(call.func)}` is told of the batch, and what it keeps is not followed")
        if isinstance(s, ast.Expr):
            self._expression(s, place)
        elif isinstance(s, (ast.Assign, ast.AnnAssign)):
            self._assigned(s, place)
        elif isinstance(s, ast.AugAssign):
            self._added(s, place)
        elif isinstance(s, ast.If):
            self._branched(s, place)
        elif isinstance(s, (ast.For, ast.AsyncFor)):
            self._looped(s, place)
        elif isinstance(s, ast.While):
            self._block([*s.body, *s.orelse], replace(place, once=False))
        elif isinstance(s, (ast.With, ast.AsyncWith)):
            self._block(s.body, place)
        elif isinstance(s, ast.Try):
            some = place.some_batches if place.per_sample else "nothing is raised"
            inner = replace(place, once=False, some_batches=some)
            for body in (s.body, *(h.body for h in s.handlers), s.orelse, s.finalbody):
                self._block(body, inner)
        elif isinstance(s, (ast.Break, ast.Continue, ast.Return)):
            self._left(s)
        elif isinstance(s, ast.Delete):
            taken = (t.value for t in s.targets if isinstance(t, (ast.Attribute, ast.Subscript)))
            if any(not self.is_local(t) for t in taken):
                self.refuse(s, "it takes something away from what outlives the batch")
        elif not isinstance(s, (ast.Pass, ast.Assert, ast.Import, ast.ImportFrom, ast.Raise)):
            self.refuse(s, "what it does in the loop is not followed")

    def _calls(self, s: ast.stmt) -> None:
        """What no loop that is to be shared out may do: learn, or wait for other ranks."""
        if isinstance(s, (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try)):
            heads = [getattr(s, "test", None), getattr(s, "iter", None), *(getattr(s, "items", None) or ())]
            nodes: Iterable[ast.AST] = (n for h in heads if isinstance(h, ast.AST) for n in ast.walk(h))
        else:
            nodes = ast.walk(s)
        for n in nodes:
            if isinstance(n, (ast.Yield, ast.YieldFrom, ast.Await)):
                self.refuse(s, "the loop hands out its results one by one")
            if not isinstance(n, ast.Call):
                continue
            if learns(self.module, n):
                self.refuse(s, "the loop computes gradients, which DistributedDataParallel averages over the ranks")
            elif is_reduction(self.module, n) and not self._own_metric(n):
                if averaged_value(self.module, n) is None:
                    add = "add up sums over the samples, and their number, and reduce these once, behind the loop"
                    self.refuse(s, f"it combines the ranks' values of each batch, padding among them: {add}")
                else:
                    self.averaged.append(n)
            elif draws(self.module, n):
                self.refuse(s, f"`{short(n.func)}` draws other numbers on each rank, and for other samples")
            elif any(carries(self.module, f) for f in forwards(self.module, n)):
                self.refuse(s, f"`{short(n.func)}` keeps something of a batch that it reads at the next one")
            elif alters(self.values, n, self.is_local):
                self.refuse(s, f"`{short(n.func)}` changes what it is given, or keeps it")
            elif not (isinstance(s, ast.Expr) and s.value is n) and changes_within(self.module, n, self.is_local):
                self.refuse(s, f"`{short(n.func)}` changes what it is called on")

    def _own_metric(self, call: ast.Call) -> bool:
        return isinstance(call.func, ast.Attribute) and gathers_itself(self.module, call.func.value)

    def _left(self, s: ast.stmt) -> None:
        loop = next((n for n in self.module.around(s) if isinstance(n, (ast.For, ast.AsyncFor, ast.While))), None)
        if loop is self.loop or isinstance(s, ast.Return):
            why = f"`{type(s).__name__.lower()}` leaves samples out by what came before them, and each rank would leave"
            self.refuse(s, f"{why} out others{instead_of(self.module, self.loop, s)}")
        elif isinstance(s, ast.Break) and isinstance(loop, ast.For):
            if self.values.iterated(loop.iter).kind in ("sample", "output") and not self._within_sample(loop):
                self.refuse(s, "`break` leaves samples of the batch out, and the ranks' batches are other ones")

    def _within_sample(self, loop: ast.AST) -> bool:
        """Whether a loop stands in another one over samples, so that it goes over parts of one."""
        for outer in self.module.around(loop):
            if outer is self.loop:
                return False
            if isinstance(outer, ast.For) and self.values.iterated(outer.iter).kind in ("sample", "output"):
                return True
        return False

    def _branched(self, s: ast.If, place: _Place) -> None:
        if only_shows(self.values, [*s.body, *s.orelse]):
            self.shown |= {n for n in ast.walk(s) if isinstance(n, ast.stmt)}
            return
        if self._first_or_joined(s, place):
            return
        kind = self.values.of(s.test).kind
        if kind == "constant" and not mentions(s.test, self.bound):
            inner = replace(place, once=False)  # a setting of the run: without it the list stays empty
        elif place.per_sample and kind in ("sample", "constant"):
            inner = replace(place, once=False)
        else:
            inner = replace(place, once=False, some_batches=ast.unparse(s.test))
        self._block(s.body, inner)
        self._block(s.orelse, inner)

    def _looped(self, s: ast.For | ast.AsyncFor, place: _Place) -> None:
        turn = self.values.iterated(s.iter).kind
        if place.per_sample:
            inner = replace(place, once=False, loosely=place.loosely or turn == "unknown")
        elif turn == "elements":  # as many as there are: sums of them are the samples', lists are not one for each
            inner = replace(place, per_sample=True, once=False)
        elif turn in ("sample", "output"):
            left = any(isinstance(n, (ast.Continue, ast.Break)) for b in s.body for n in ast.walk(b))
            inner = replace(place, per_sample=True, loosely=turn == "output", once=place.once and not left)
        else:
            inner = replace(place, once=False)
        self._block([*s.body, *s.orelse], inner)

    # -- what is added ---------------------------------------------------------------------------------------

    def _write(self, target: ast.expr, kind: Gathered, why: str, s: ast.stmt, place: _Place) -> None:
        if place.some_batches:
            self.refuse(s, f"only for some batches (`{place.some_batches}`), and the ranks' batches are other ones")
        self._by_another_name(target, s)
        self.writes.append(Write(target, root_of(target), kind, s, why, sure=place.once))

    def _by_another_name(self, target: ast.expr, s: ast.stmt) -> None:
        """``rows = self.rows; rows.append(y)``: what is added to is read by a name that is not followed."""
        root = root_name(target)
        if root is not None and self.sharing.changes_another_s(root) and root.id in self.sharing.known:
            self.refuse(s, f"`{root.id}` is another name of what is there before the loop, and that is not followed")

    def is_local(self, node: ast.expr) -> bool:
        """Whether a name or the object behind an item or attribute is made anew in each pass of the loop."""
        whole = node
        while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
            node = node.func if isinstance(node, ast.Call) else node.value
        own = isinstance(node, ast.Name) and self._anew(node, set())
        return own and not self.sharing.changes_another_s(whole)

    def _anew(self, node: ast.Name, seen: set[ast.AST]) -> bool:
        reaching = self.module.bindings.reaching(node)
        if not reaching:
            return node.id in self.bound
        for d in reaching:
            if d.node not in self.inside or self._of_another(d):
                return False
            if d.kind == "augmented" and isinstance(d.node, ast.Name) and d.node not in seen:
                seen.add(d.node)
                if not self._anew(d.node, seen):
                    return False
        return True

    def _of_another(self, d: Definition) -> bool:
        """Whether a name stands for an object from outside the loop, or for an item of one."""
        value = d.value
        if value is None or d.statement is self.loop or d.kind not in ("assign", "loop"):
            return False
        while isinstance(value, (ast.Attribute, ast.Subscript, ast.Starred)):
            value = value.value
        if isinstance(value, ast.Call):
            name = last_name(value.func)
            through = d.kind == "loop" or name in ("get", "setdefault", "pop", "next", "values", "items")
            given = [value.func.value] if isinstance(value.func, ast.Attribute) else list(value.args)
            return through and name != "range" and any(self._is_outer(a) for a in given)
        if isinstance(value, ast.IfExp):
            return self._is_outer(value.body) or self._is_outer(value.orelse)
        return self._is_outer(value)

    def _is_outer(self, node: ast.expr) -> bool:
        """Whether an expression is an object that was there before the loop: no number, text or library."""
        while isinstance(node, (ast.Attribute, ast.Subscript)):
            node = node.value
        if isinstance(node, (ast.Tuple, ast.List)):
            return any(self._is_outer(e) for e in node.elts)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            return self._is_outer(node.func.value)
        if isinstance(node, ast.Call) and node.args and last_name(node.func) in ("zip", "enumerate", "list", "tuple"):
            return any(self._is_outer(a) for a in node.args)
        if not isinstance(node, ast.Name) or self.is_local(node):
            return False
        return bool(self.module.bindings.reaching(node)) and not is_definition(self.module, node)

    def summed(self, value: Value, place: _Place, node: ast.AST) -> tuple[Gathered, str] | None:
        """The kind of a sum of these values; None where it is nothing to reduce."""
        kind = value.kind
        if kind == "time":
            return None
        if place.per_sample:
            if kind in ("sample", "constant") and not place.loosely:
                return "sum", ""
            if kind in ("sample", "constant", "output", "place"):
                return "opaque", "it is added for each item of a model's output, which need not be one for each sample"
            return "opaque", f"`{short(node)}` depends on the whole batch"
        if kind in ("sum", "count"):
            return "sum", ""
        if kind == "constant":
            return "steps", ""
        if kind == "mean":
            return "batch-mean", f"`{short(node)}` is a mean over the batch"
        shown = value.what if value.what is not None else node
        return "opaque", f"`{short(shown)}` is not seen to be a sum over the batch's samples"

    def _added(self, s: ast.AugAssign, place: _Place) -> None:
        if self.is_local(s.target):
            return
        value = self.values.of(s.value)
        grows = isinstance(s.value, (ast.List, ast.ListComp)) or value.kind in ("samples", "examples")
        if isinstance(s.op, ast.Add) and grows and self._is_list(s.target):
            self._listed(s.target, value, s, place, many=True)
            return
        if not isinstance(s.op, (ast.Add, ast.Sub)):
            self.refuse(s, "no sum: parts of it can't be added up over the ranks")
            return
        found = self.summed(value, place, s.value)
        if found is not None:
            self._write(s.target, *self._stored(s.target, found, place), s, place)

    def _stored(self, target: ast.expr, found: tuple[Gathered, str], place: _Place) -> tuple[Gathered, str]:
        """What is added to one of several sums, where the samples of a batch don't choose it together."""
        apart = ("constant", "sample") if place.per_sample else ("constant",)
        while isinstance(target, (ast.Subscript, ast.Attribute)):
            if isinstance(target, ast.Subscript):
                parts = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
                for part in parts:
                    if not isinstance(part, ast.Slice) and self.values.of(part).kind not in apart:
                        return "opaque", f"`{short(part)}`, by which one of several sums is chosen, is no one sample's"
            target = target.value
        return found

    def _assigned(self, s: ast.Assign | ast.AnnAssign, place: _Place) -> None:
        targets = s.targets if isinstance(s, ast.Assign) else [s.target]
        for target in targets:
            if isinstance(target, (ast.Name, ast.Tuple, ast.List)) and not self._carried(s, target):
                continue
            if isinstance(target, (ast.Subscript, ast.Attribute)) and self.is_local(target.value):
                continue
            if len(targets) == 1 and s.value is not None and self._summed_up(s, target, s.value, place):
                continue
            if not isinstance(target, (ast.Name, ast.Tuple, ast.List)):
                self.refuse(s, f"`{short(target)}` outlives the batch and is set in the loop")

    def _carried(self, s: ast.stmt, target: ast.expr) -> bool:
        """Whether an assignment reads what it assigns, from the pass before."""
        name = ast.unparse(target)
        for n in ast.walk(getattr(s, "value", None) or s):
            if isinstance(n, (ast.Name, ast.Attribute)) and n is not target and ast.unparse(n) == name:
                if isinstance(n.ctx, ast.Load) and not self.is_local(n):
                    return True
        return False

    def _summed_up(self, s: ast.stmt, target: ast.expr, value: ast.expr, place: _Place) -> bool:
        """``x = x + e``, ``x = torch.cat((x, e))``, ``x = np.append(x, e, axis=0)``."""
        name = ast.unparse(target)
        parts = summands(value, name)
        for part in parts[1] if parts is not None else ():
            found = self.summed(self.values.of(part), place, part)
            if found is not None and parts is not None:
                self._write(parts[0], *self._stored(parts[0], found, place), s, place)
        more = chosen(self.module, value, name, s) or joined(self.module, value, name, s)
        if more is not None:
            self._listed(more.array, self.values.of(more.added), s, place, many=True, array=True)
        return parts is not None or more is not None

    def _first_or_joined(self, s: ast.If, place: _Place) -> bool:
        """Arrays that are begun by the first batch and made longer by the others."""
        found = first_or_joined(self.module, s)
        if found is None:
            return False
        self.begun |= set(found[0])
        for more in found[1]:
            self._listed(more.array, self.values.of(more.added), more.statement, place, many=True, array=True)
        return True

    def _listed(
        self, target: ast.expr, value: Value, s: ast.stmt, place: _Place, *, many: bool, array: bool = False
    ) -> None:
        """A list or array that grows: by one item for each sample, or by a piece for each batch."""
        if isinstance(target, ast.Subscript):
            self.refuse(s, f"`{short(target)}` is one of several lists")
            return
        if value.kind == "time":
            return
        if place.per_sample:
            if many or not place.once:
                self.refuse(s, "it need not add exactly one item for each sample")
            elif value.kind in ("sample", "constant", "output"):
                self._write(target, "samples", "", s, place)
            else:
                self.refuse(s, "what it adds depends on the whole batch")
            return
        if not place.once:
            self.refuse(s, "it need not add exactly one item for each sample")
        elif value.kind == "samples" or (value.kind == "output" and (array or self._tensor(s, target, many=many))):
            self._write(target, "samples" if many else "batches", self._flat(s, array=array), s, place)
        elif many:
            self.refuse(s, "what it adds is not seen to be one item for each sample")
        else:
            kept = "a mean over the batch" if value.kind == "mean" else "one value for a batch"
            why = f"it keeps {kept}"
            if value.kind not in ("step", "constant") and is_number(self.values, added_by(s)):
                self._by_another_name(target, s)
                self.writes.append(Write(target, root_of(target), "by-batch", s, why, sure=place.once, value=value))
            else:
                self.refuse(s, f"{why}, and the ranks' batches are other ones")

    def _flat(self, s: ast.stmt, *, array: bool) -> str:
        """Why what is added may be no list where a batch holds one sample; empty if it is one."""
        call = squeezed(self.module, s, self.inside)
        if call is None or (array and "append" in ast.unparse(s)):
            return ""  # np.append takes a number too
        return (
            f"`{short(call)}` gives no list for a batch of one sample, which a rank may have where one process has none"
        )

    def _tensor(self, s: ast.stmt, target: ast.expr, *, many: bool) -> bool:
        """Whether what a model gives is shown to be a tensor, or as long as one."""
        return rowwise(self.module, s, self.inside) if many else joined_later(self.module, target)

    def _is_list(self, target: ast.expr) -> bool:
        made = [d.value for d in self.module.bindings.reaching(target) if d.node not in self.inside]
        return bool(made) and all(isinstance(v, ast.List) for v in made)

    # -- calls -----------------------------------------------------------------------------------------------

    def _expression(self, s: ast.Expr, place: _Place) -> None:
        call = s.value
        if not isinstance(call, ast.Call):
            self._bare(s, call)
            return
        if shows(self.values, call):
            self.shown.add(s)
            return
        receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
        name = last_name(call.func)
        if receiver is not None and self.is_local(receiver):
            return
        if receiver is not None and name in ("append", "extend") and len(call.args) == 1:
            self._listed(receiver, self.values.of(call.args[0]), s, place, many=name == "extend")
        elif receiver is not None and name == "update" and self._meter(receiver, call, s, place):
            return
        elif receiver is not None and gathers_itself(self.module, receiver):
            return  # it combines the ranks' parts when it is asked for the result
        elif not any(mentions(a, self.bound) for a in arguments_of(call)) and name not in ("append", "extend"):
            known = receiver is not None and ast.unparse(receiver) in {w.name for w in self.writes}  # is told as read
            still = known or name == "write" or moves_a_clock(call)
            if not still and changes_within(self.module, call, self.is_local):
                self.refuse(s, f"`{short(call.func)}` changes what it is called on")
            elif receiver is not None and isinstance(receiver, ast.Name) and name in ("update", "add", "insert"):
                self.refuse(s, f"`{short(call)}` keeps something of each batch")
        else:
            path = opened_by_all(self.module, receiver) if receiver is not None else None
            why = f"writes to `{short(path)}`, {OVERWRITTEN}" if path is not None else ""
            self.refuse(s, f"`{short(call.func)}` {why or 'is told of the batch, and what it keeps is not followed'}")

    def _bare(self, s: ast.Expr, value: ast.expr) -> None:
        """An expression that nobody takes: read, or run for what it does where it shows something."""
        inner = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
        last = [value.values[-1]] if isinstance(value, ast.BoolOp) else inner
        if all(isinstance(n, (ast.Constant, ast.Name, ast.Attribute)) for n in last):
            return
        if all(isinstance(n, ast.Constant) or (isinstance(n, ast.Call) and shows(self.values, n)) for n in last):
            self.shown.add(s)
        else:
            self.refuse(s, "nobody takes what it gives, and what it is done for is not followed")

    def _meter(self, receiver: ast.expr, call: ast.Call, s: ast.stmt, place: _Place) -> bool:
        """What an averaging object, or one that holds some, is told."""
        found = averaged(self.values, receiver, call)
        if found is None or place.per_sample:
            return False
        if place.some_batches:
            self.refuse(s, f"only for some batches (`{place.some_batches}`), and the ranks' batches are other ones")
        if found.why is not None:
            self.writes.append(Write(found.owner, ast.unparse(found.owner), "meter", s, found.why, found.meter))
        return True


def _leaves(statement: ast.stmt) -> bool:
    return any(isinstance(n, (ast.Continue, ast.Break)) for n in ast.walk(statement))


__all__ = ["Gathering", "Write"]
