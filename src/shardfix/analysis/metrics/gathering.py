"""Walk the body of an evaluation loop: what each statement adds to, and the statement that is not understood."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of, last_name
from shardfix.analysis.loops.accumulation import names_bound, root_of
from shardfix.analysis.loops.evaluation import gathers_itself, is_reduction
from shardfix.analysis.metrics.meters import Meter, meter_of
from shardfix.analysis.metrics.model import Gathered, Obstacle
from shardfix.analysis.metrics.quantities import Value
from shardfix.analysis.metrics.values import Values

# What shows or logs what has been reached so far, and leaves nothing behind that a metric reads.
_SHOWS = frozenset(
    {"print", "info", "debug", "warning", "error", "log", "add_scalar", "add_scalars", "display"}
    | {"set_description", "set_description_str", "set_postfix", "set_postfix_str"}
    | {"synchronize", "empty_cache", "collect", "manual_seed"}
)
_MODES = frozenset({"eval", "train", "zero_grad"})
_CHANGES = frozenset({"append", "extend", "update", "add", "insert", "setdefault", "pop", "add_batch"})
# What gives a tensor or a list with one row for each row of what it is given.
_ROWWISE = frozenset({"cpu", "numpy", "tolist", "detach", "argmax", "squeeze", "batch_decode", "cuda", "to", "round"})
_BARS = re.compile(r"bar|progress|tqdm|timer|(batch|data|iter|end|elapsed)_?time")
_JOINS = frozenset({"cat", "concat", "concatenate", "vstack", "append", "hstack"})
_GRADIENTS = frozenset({"backward", "step", "zero_grad", "backprop"})


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
        self.shown: set[ast.AST] = set()  # statements that only show
        self.begun: set[ast.AST] = set()  # statements that put the first piece in a list or array
        self.inside = set(ast.walk(loop))
        self.bound = names_bound(module, loop)
        self._block(loop.body, _Place())

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
        elif not isinstance(s, (ast.Pass, ast.Assert, ast.Import, ast.ImportFrom, ast.Raise, ast.Delete)):
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
            if isinstance(n.func, ast.Attribute) and n.func.attr in ("backward", "step") and not n.args:
                self.refuse(s, "the loop computes gradients, which DistributedDataParallel averages over the ranks")
            elif is_reduction(self.module, n) and not self._own_metric(n):
                self.refuse(s, "a collective inside the loop")
            elif self._changes(n):
                self.refuse(s, f"`{_short(n.func)}` changes what it is given, or keeps it")

    def _changes(self, call: ast.Call) -> bool:
        """Whether a project function adds to an object from outside the loop, or keeps something of its own."""
        functions = self.module.called_functions(call, passed=False)
        if len(functions) != 1 or functions[0].name in ("__init__", "forward", "__call__"):
            return False
        function = functions[0]
        meter = isinstance(call.func, ast.Attribute) and function.name == "update"
        if meter:
            return False  # looked at where it stands
        kept = {"self"} if isinstance(call.func, ast.Attribute) and not self._local(call.func.value) else set()
        for argument in arguments_of(call):
            parameter = self.module.parameter_of(function, call, argument)
            outside = isinstance(argument, (ast.Name, ast.Attribute)) and not self._local(argument)
            if parameter is not None and outside and self.values.of(argument).kind == "constant":
                kept.add(parameter.arg)
        return any(_alters(n, kept) for n in ast.walk(function))

    def _own_metric(self, call: ast.Call) -> bool:
        return isinstance(call.func, ast.Attribute) and gathers_itself(self.module, call.func.value)

    def _left(self, s: ast.stmt) -> None:
        loop = next((n for n in self.module.around(s) if isinstance(n, (ast.For, ast.AsyncFor, ast.While))), None)
        if loop is self.loop or isinstance(s, ast.Return):
            word = type(s).__name__.lower()
            self.refuse(
                s, f"`{word}` leaves samples out by what came before them, and each rank would leave out others"
            )
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
        if self._only_shows([*s.body, *s.orelse]):
            self.shown |= {n for n in ast.walk(s) if isinstance(n, ast.stmt)}
            return
        if self._first_or_joined(s, place):
            return
        kind = self.values.of(s.test).kind
        if kind == "constant" and not _mentions_any(s.test, self.bound):
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
            inner = replace(place, once=False)
        elif turn in ("sample", "output"):
            left = any(isinstance(n, (ast.Continue, ast.Break)) for b in s.body for n in ast.walk(b))
            inner = replace(place, per_sample=True, loosely=turn == "output", once=place.once and not left)
        else:
            inner = replace(place, once=False)
        self._block([*s.body, *s.orelse], inner)

    # -- what is added ---------------------------------------------------------------------------------------

    def _write(self, target: ast.expr, kind: Gathered, s: ast.stmt, place: _Place, why: str = "") -> None:
        if place.some_batches:
            self.refuse(s, f"only for some batches (`{place.some_batches}`), and the ranks' batches are other ones")
        self.writes.append(Write(target, root_of(target), kind, s, why, sure=place.once))

    def _local(self, node: ast.expr) -> bool:
        """Whether a name or the object behind an item or attribute is made anew in each pass of the loop."""
        while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
            node = node.func if isinstance(node, ast.Call) else node.value
        return isinstance(node, ast.Name) and self._anew(node, set())

    def _anew(self, node: ast.Name, seen: set[ast.AST]) -> bool:
        reaching = self.module.bindings.reaching(node)
        if not reaching:
            return node.id in self.bound
        for d in reaching:
            if d.node not in self.inside:
                return False
            if d.kind == "augmented" and isinstance(d.node, ast.Name) and d.node not in seen:
                seen.add(d.node)
                if not self._anew(d.node, seen):
                    return False
        return True

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
            return "opaque", f"`{_short(node)}` depends on the whole batch"
        if kind in ("sum", "count"):
            return "sum", ""
        if kind == "constant":
            return "steps", ""
        if kind == "mean":
            return "batch-mean", f"`{_short(node)}` is a mean over the batch"
        shown = value.what if value.what is not None else node
        return "opaque", f"`{_short(shown)}` is not seen to be a sum over the batch's samples"

    def _added(self, s: ast.AugAssign, place: _Place) -> None:
        if self._local(s.target):
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
            self._write(s.target, found[0], s, place, found[1])

    def _assigned(self, s: ast.Assign | ast.AnnAssign, place: _Place) -> None:
        targets = s.targets if isinstance(s, ast.Assign) else [s.target]
        for target in targets:
            if isinstance(target, (ast.Name, ast.Tuple, ast.List)) and not self._carried(s, target):
                continue
            if isinstance(target, (ast.Subscript, ast.Attribute)) and self._local(target):
                continue
            if len(targets) == 1 and s.value is not None and self._summed_up(s, target, s.value, place):
                continue
            if not isinstance(target, (ast.Name, ast.Tuple, ast.List)):
                self.refuse(s, f"`{_short(target)}` outlives the batch and is set in the loop")

    def _carried(self, s: ast.stmt, target: ast.expr) -> bool:
        """Whether an assignment reads what it assigns, from the pass before."""
        name = ast.unparse(target)
        for n in ast.walk(getattr(s, "value", None) or s):
            if isinstance(n, (ast.Name, ast.Attribute)) and n is not target and ast.unparse(n) == name:
                if isinstance(n.ctx, ast.Load) and not self._local(n):
                    return True
        return False

    def _summed_up(self, s: ast.stmt, target: ast.expr, value: ast.expr, place: _Place) -> bool:
        """``x = x + e``, ``x = torch.cat((x, e))``, ``x = np.append(x, e, axis=0)``."""
        name = ast.unparse(target)
        if isinstance(value, ast.BinOp) and isinstance(value.op, (ast.Add, ast.Sub)):
            parts = _terms(value)
            own = [p for p in parts if ast.unparse(p) == name]
            rest = [p for p in parts if p not in own]
            if len(own) == 1 and parts[0] is own[0] and not any(name in _names(p) for p in rest):
                for part in rest:
                    found = self.summed(self.values.of(part), place, part)
                    if found is not None:
                        self._write(own[0], found[0], s, place, found[1])
                return True
        if isinstance(value, ast.IfExp) and _is_none_test(value.test) == name:
            joined = [v for v in (value.body, value.orelse) if self._joined(v, name) is not None]
            first = [v for v in (value.body, value.orelse) if v not in joined]
            added = self._joined(joined[0], name) if joined else None
            if len(first) == 1 and added is not None and ast.unparse(added[1]) == ast.unparse(first[0]):
                self._listed(added[0], self.values.of(first[0]), s, place, many=True, joined=True)
                return True
        parts_of = self._joined(value, name)
        if parts_of is not None:
            self._listed(parts_of[0], self.values.of(parts_of[1]), s, place, many=True, joined=True)
            return True
        return False

    def _joined(self, value: ast.expr, name: str) -> tuple[ast.expr, ast.expr] | None:
        """An array, and what is joined to its end along its first dimension."""
        if not isinstance(value, ast.Call) or last_name(value.func) not in _JOINS:
            return None
        if last_name(value.func) == "hstack" or not any(
            q.startswith(("torch.", "numpy.")) for q in self.module.callee(value)
        ):
            return None
        parts = value.args[:2]
        if parts and isinstance(parts[0], (ast.Tuple, ast.List)):
            parts = list(parts[0].elts)
        along = [*value.args[1 if isinstance(value.args[0], (ast.Tuple, ast.List)) else 2 :]]
        along += [k.value for k in value.keywords if k.arg in ("dim", "axis")]
        if any(not (isinstance(a, ast.Constant) and a.value in (0, None)) for a in along):
            return None
        return (parts[0], parts[1]) if len(parts) == 2 and ast.unparse(parts[0]) == name else None

    def _first_or_joined(self, s: ast.If, place: _Place) -> bool:
        """``if preds is None: preds = new`` with ``else: preds = np.append(preds, new, axis=0)``."""
        name = _is_none_test(s.test)
        if not name or not s.orelse:
            return False
        first, later = (s.body, s.orelse) if "not" not in ast.unparse(s.test) else (s.orelse, s.body)
        starts = {ast.unparse(t.targets[0]): t.value for t in first if isinstance(t, ast.Assign)}
        joins = [t for t in later if isinstance(t, ast.Assign)]
        if (
            len(starts) != len(first)
            or len(joins) != len(later)
            or {ast.unparse(t.targets[0]) for t in joins} != {*starts}
        ):
            return False
        found = [self._joined(t.value, ast.unparse(t.targets[0])) for t in joins]
        for t, parts in zip(joins, found, strict=True):
            if parts is None or ast.unparse(parts[1]) != ast.unparse(starts[ast.unparse(t.targets[0])]):
                return False
        self.begun |= set(first)
        for t, parts in zip(joins, found, strict=True):
            if parts is not None:
                self._listed(parts[0], self.values.of(parts[1]), t, place, many=True, joined=True)
        return True

    def _listed(
        self, target: ast.expr, value: Value, s: ast.stmt, place: _Place, *, many: bool, joined: bool = False
    ) -> None:
        """A list or array that grows: by one item for each sample, or by a piece for each batch."""
        if isinstance(target, ast.Subscript):
            self.refuse(s, f"`{_short(target)}` is one of several lists")
            return
        if value.kind == "time":
            return
        if place.per_sample:
            if many or not place.once:
                self.refuse(s, "it need not add exactly one item for each sample")
            elif value.kind in ("sample", "constant", "output"):
                self._write(target, "samples", s, place)
            else:
                self.refuse(s, "what it adds depends on the whole batch")
            return
        if not place.once:
            self.refuse(s, "it need not add exactly one item for each sample")
        elif value.kind == "samples" or (value.kind == "output" and (joined or self._rowwise(s, target, many=many))):
            self._write(target, "samples" if many else "batches", s, place)
        elif many:
            self.refuse(s, "what it adds is not seen to be one item for each sample")
        else:
            why = "a mean over the batch" if value.kind == "mean" else "one value for a batch"
            self.refuse(s, f"it keeps {why}, and the ranks' batches are other ones")

    def _rowwise(self, s: ast.stmt, target: ast.expr, *, many: bool) -> bool:
        """Whether what a model gives is a tensor, or a list as long as one: by what is done with it."""
        if not many:
            made = [d for d in self.module.bindings.definitions if d.key == ast.unparse(target)]
            calls = [self.module.parents[r] for d in made for r in self.module.bindings.readers(d)]
            return any(isinstance(c, ast.Call) and last_name(c.func) in _JOINS for c in calls)
        nodes = list(ast.walk(s))
        for _ in range(3):
            found = [d.value for n in nodes if isinstance(n, ast.Name) for d in self.module.bindings.reaching(n)]
            if any(isinstance(n, ast.Call) and last_name(n.func) in _ROWWISE for n in nodes):
                return True
            nodes = [n for v in found if v is not None and v in self.inside for n in ast.walk(v)]
        return False

    def _is_list(self, target: ast.expr) -> bool:
        made = [d.value for d in self.module.bindings.reaching(target) if d.node not in self.inside]
        return bool(made) and all(isinstance(v, ast.List) for v in made)

    # -- calls -----------------------------------------------------------------------------------------------

    def _expression(self, s: ast.Expr, place: _Place) -> None:
        call = s.value
        if isinstance(call, ast.Constant):
            return
        if not isinstance(call, ast.Call):
            return
        if self._shows(call):
            self.shown.add(s)
            return
        receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
        name = last_name(call.func)
        if receiver is not None and self._local(receiver):
            return
        if receiver is not None and name in ("append", "extend") and len(call.args) == 1:
            self._listed(receiver, self.values.of(call.args[0]), s, place, many=name == "extend")
        elif receiver is not None and name == "update" and self._meter(receiver, call, s, place):
            return
        elif receiver is not None and gathers_itself(self.module, receiver):
            return  # it combines the ranks' parts when it is asked for the result
        elif not any(_mentions_any(a, self.bound) for a in arguments_of(call)) and name not in ("append", "extend"):
            if receiver is not None and isinstance(receiver, ast.Name) and name in ("update", "add", "insert"):
                self.refuse(s, f"`{_short(call)}` keeps something of each batch")
        else:
            self.refuse(s, f"`{_short(call.func)}` is told of the batch, and what it keeps is not followed")

    def _meter(self, receiver: ast.expr, call: ast.Call, s: ast.stmt, place: _Place) -> bool:
        """``top1.update(acc1.item(), images.size(0))``, ``metric_logger.update(loss=loss.item())``"""
        owner = receiver
        if isinstance(receiver, ast.Subscript) and isinstance(receiver.value, ast.Attribute):
            owner = receiver.value.value
        definitions = [d for d in self.module.bindings.reaching(owner) if d.node not in self.inside]
        made = [d.value for d in definitions if d.kind == "assign" and d.index is None]
        if len(made) != 1 or len(definitions) != 1 or not isinstance(made[0], ast.Call):
            return False
        meter = meter_of(self.module, made[0])
        if meter is None or place.per_sample:
            return False
        if place.some_batches:
            self.refuse(s, f"only for some batches (`{place.some_batches}`), and the ranks' batches are other ones")
        given = {k.arg: k.value for k in call.keywords}
        if meter.held_in and owner is receiver:
            if call.args or None in given:
                return False
            found = [self._weighed(meter, value, None, call) for value in given.values()]
            why = next((w for w in found if w), "")
            if any(w is not None for w in found):
                self.writes.append(Write(owner, ast.unparse(owner), "meter", s, why, meter))
            return True
        of_held = isinstance(receiver, ast.Subscript) and isinstance(receiver.value, ast.Attribute)
        if of_held and not (
            meter.held_in and ast.unparse(receiver).startswith(f"{ast.unparse(owner)}.{meter.held_in}[")
        ):
            return False
        value_name, weight_name = (meter.value, meter.weight) if not of_held else ("value", "n")
        value = call.args[0] if call.args else given.get(value_name)
        weight = call.args[1] if len(call.args) > 1 else given.get(weight_name)
        if value is None or not set(given) <= {value_name, weight_name} or not 1 <= len(arguments_of(call)) <= 2:
            return False
        inexact = self._weighed(meter, value, weight, call)
        if inexact is not None:
            self.writes.append(Write(owner, ast.unparse(owner), "meter", s, inexact, meter))
        return True

    def _weighed(self, meter: Meter, value: ast.expr, weight: ast.expr | None, call: ast.Call) -> str | None:
        """Why an averaging object's sum is not one over samples; empty if it is, None for times."""
        found, weighed = self.values.of(value), self.values.of(weight) if weight is not None else None
        if found.kind == "time":
            return None
        if weighed is not None and weighed.kind == "count":
            if found.kind in ("mean", "constant"):
                return ""
            shown = found.what if found.what is not None else value
            return f"`{_short(shown)}` is not seen to be a mean over the batch's samples"
        if weighed is None and found.kind == "mean":
            return f"`{_short(value)}` is a mean over the batch"
        return f"`{_short(call)}` weighs what is not seen to be a mean by what is not seen to be the batch's size"

    def _shows(self, call: ast.Call) -> bool:
        name = last_name(call.func)
        if name in _SHOWS or (name in _MODES and not arguments_of(call)):
            return True
        receiver = ast.unparse(call.func.value).lower() if isinstance(call.func, ast.Attribute) else ""
        if _BARS.search(receiver) and name in ("update", "write", "close", "display", "refresh", "tic", "toc", "start"):
            return self._of_clock(call) or "bar" in receiver or "progress" in receiver or "tqdm" in receiver
        return any(q.startswith(("logging.", "builtins.print", "torch.cuda.")) for q in self.module.callee(call))

    def _of_clock(self, call: ast.Call) -> bool:
        return any(self.values.of(a).kind == "time" for a in arguments_of(call)) or not arguments_of(call)

    def _only_shows(self, body: Sequence[ast.stmt]) -> bool:
        """Whether statements only print or log, with what they compute for that."""
        for s in body:
            if isinstance(s, ast.Expr) and isinstance(s.value, ast.Call) and self._shows(s.value):
                continue
            if isinstance(s, ast.If) and self._only_shows([*s.body, *s.orelse]):
                continue
            if isinstance(s, ast.For) and self._only_shows(s.body):
                continue
            if isinstance(s, ast.Pass):
                continue
            return False
        return True


def _alters(node: ast.AST, names: set[str]) -> bool:
    """Whether a statement of a function changes an object that one of its parameters is."""
    if isinstance(node, (ast.Global, ast.Nonlocal)):
        return True
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = [t for t in node.targets if isinstance(t, (ast.Subscript, ast.Attribute))]
    elif isinstance(node, ast.AugAssign):
        targets = [node.target]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES:
        targets = [node.func.value]
    return any(_base(t) in names for t in targets)


def _base(node: ast.expr) -> str:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _leaves(statement: ast.stmt) -> bool:
    return any(isinstance(n, (ast.Continue, ast.Break)) for n in ast.walk(statement))


def _mentions_any(node: ast.AST, names: set[str]) -> bool:
    return any(isinstance(n, (ast.Name, ast.Attribute)) and ast.unparse(n) in names for n in ast.walk(node))


def _names(node: ast.AST) -> set[str]:
    return {ast.unparse(n) for n in ast.walk(node) if isinstance(n, (ast.Name, ast.Attribute))}


def _terms(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        return [*_terms(node.left), node.right]
    return [node]


def _is_none_test(test: ast.expr) -> str:
    """``x`` for ``x is None``, ``x is not None``."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], (ast.Is, ast.IsNot)):
        right = test.comparators[0]
        if isinstance(right, ast.Constant) and right.value is None:
            return ast.unparse(test.left)
    return ""


def _short(node: ast.AST) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 60 else f"{text[:57]}..."


__all__ = ["Gathering", "Write"]
