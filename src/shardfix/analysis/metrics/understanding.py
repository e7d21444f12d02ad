"""Understand a loop over an eval loader: what it gathers, where that starts and is read, and what stands in the way."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of, last_name
from shardfix.analysis.loaders.flow import Flow, Use
from shardfix.analysis.loops.epochs import is_enumerated
from shardfix.analysis.metrics.beginnings import is_empty, is_number, is_zero
from shardfix.analysis.metrics.begun import begun_before
from shardfix.analysis.metrics.entries import only_summed
from shardfix.analysis.metrics.gathering import Gathering, Write
from shardfix.analysis.metrics.growing import none_test
from shardfix.analysis.metrics.lengths import reckoned_before, shown
from shardfix.analysis.metrics.model import Accumulator, Gathered, Metric, Obstacle
from shardfix.analysis.metrics.modes import may_train, trains_inside
from shardfix.analysis.metrics.rounding import rounds
from shardfix.analysis.metrics.values import Values
from shardfix.analysis.programs.processes import is_world_size
from shardfix.analysis.state.altering import hooked
from shardfix.analysis.state.called import handed_on
from shardfix.analysis.state.kept_reads import kept_out_of_sight
from shardfix.analysis.state.operators import changed_by_an_operator
from shardfix.analysis.state.telling import asked_behind

_AROUND = frozenset({"enumerate", "tqdm", "track", "progress_bar", "log_every", "iter", "list", "Bar", "Progbar"})
_LAST = frozenset({"median", "avg", "value", "max", "val", "deque"})
_BLOCKS = (
    *(ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.IfExp, ast.BoolOp, ast.Lambda),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)
_COUNTED = frozenset(
    {"n", "last_print_n", "count", "counter", "index", "value", "current", "completed", "step", "done"}
)
_ALL_NAMES = frozenset({"locals", "vars", "dir"})
_LISTS = ("samples", "batches", "by-batch")
_LEAVES = (ast.Return, ast.Continue, ast.Break, ast.Raise)
_REPEATS = (ast.For, ast.AsyncFor, ast.While)


def understand(
    module: Module, use: Use, flow: Flow, *, examples: bool, uneven: bool = False, single: bool = False
) -> Metric | None:
    """What one loop over a loader gathers; None for a comprehension.

    Args:
        examples: whether the loader gives lists of samples that are not collated.
        uneven: whether the shape of a batch may depend on which samples are in it.
        single: whether what is made of a batch is taken to be made of one sample.
    """
    loop = use.node
    if not isinstance(loop, ast.For):
        return None
    home = module.home(loop)
    gathering = Gathering(home, loop, Values(home, loop, loop, examples=examples, single=single))
    reader = _Afterwards(home, loop, gathering, flow)
    obstacles: list[Obstacle] = []
    if loop.orelse:
        obstacles.append(Obstacle(loop, "`else` of the loop"))
    hook = hooked(home, loop)
    if hook is not None:
        obstacles.append(Obstacle(hook, "a hook is told of every batch, and what it keeps is not followed"))
    everything = _reads_all_names(home, loop)
    if everything is not None:
        why = f"`{ast.unparse(everything)}` reads all names, also those of the last batch"
        obstacles.append(Obstacle(home.statement(everything), why))
    obstacles += _out_of_sight(home, loop, gathering)
    alias = _alias(home, use, flow, loop)
    obstacles += _iterated(home, use, loop)
    obstacles += _of_bars(home, loop, gathering)
    accumulators = _doubted(home, loop, gathering, reader.accumulators(), obstacles, uneven=uneven and not examples)
    steps = reader.steps()
    behind = [*reader.obstacles, *reader.left_over({a.name for a in accumulators} | reader.settled)]
    loader = home.source.source(alias) if alias is not None else ""
    found = (*obstacles, *_by_line(gathering.obstacles), *_by_line(behind))
    averaged, shows = tuple(gathering.averaged), any(not _tells_time(gathering, s) for s in gathering.shown)
    return Metric(loop, loader, tuple(accumulators), found, tuple(steps), averaged, shows)


def _out_of_sight(module: Module, loop: ast.For, gathering: Gathering) -> Iterator[Obstacle]:
    """What objects keep of the batches that the loop itself does not show."""
    method = handed_on(module, loop)
    if method is not None:
        why = f"`{ast.unparse(method)}` is handed on, and what calls it is not followed"
        yield Obstacle(module.statement(method), why)
    for found in (
        kept_out_of_sight(module, loop),
        changed_by_an_operator(module, loop, gathering.is_local),
        asked_behind(module, loop, gathering.bound, gathering.is_local),
    ):
        if found is not None:
            yield found


def _tells_time(gathering: Gathering, statement: ast.AST) -> bool:
    """``batch_time.update(time.time() - end)``"""
    call = statement.value if isinstance(statement, ast.Expr) else None
    told = arguments_of(call) if isinstance(call, ast.Call) else []
    return bool(told) and all(gathering.values.of(a).kind == "time" for a in told)


def _reads_all_names(module: Module, loop: ast.For) -> ast.Call | None:
    """``locals()`` in the loop or behind it, and what else may read a name that is not written there."""
    for call in module.calls:
        here = module.scope(call) is module.scope(loop) and call.lineno >= loop.lineno
        if here and isinstance(call.func, ast.Name) and call.func.id in _ALL_NAMES and not call.args:
            return call
    return None


def _doubted(
    module: Module,
    loop: ast.For,
    gathering: Gathering,
    found: list[Accumulator],
    obstacles: list[Obstacle],
    *,
    uneven: bool,
) -> list[Accumulator]:
    """The accumulators once more, where the model may train or samples may be padded for one another: all but numbers
    of samples, in which neither has a say."""
    trained = trains_inside(module, loop)
    if trained is not None:
        obstacles.append(Obstacle(trained, "the model is set to training, in which what it gives may go by the batch"))
    why = (
        "`collate_fn` is not seen to stack samples only: what a row holds, or which there are, may go by the batch"
        if uneven
        else ""
    )
    if may_train(module, loop):
        why = "the model is not seen to be set to evaluation, and in training what it gives may go by the batch"
    entries = {w.name: w.value for w in gathering.writes if w.kind == "by-batch" and w.value is not None}
    if entries and only_summed(module, loop, entries):
        found = [replace(a, why="") if a.name in entries else a for a in found]
    others = {w.name for w in gathering.writes if not _counts(gathering, w)}
    return [replace(a, why=why) if a.name in others and not a.why else a for a in found]


def _counts(gathering: Gathering, write: Write) -> bool:
    value = getattr(write.statement, "value", None)
    return isinstance(value, ast.expr) and gathering.values.of(value).kind in ("count", "constant")


def _by_line(obstacles: Sequence[Obstacle]) -> list[Obstacle]:
    return sorted(obstacles, key=lambda o: (getattr(o.node, "lineno", 0), getattr(o.node, "col_offset", 0)))


def _alias(module: Module, use: Use, flow: Flow, loop: ast.For) -> ast.expr | None:
    """How the loader is called in the scope of the loop: in its head, else where what it goes over is made."""
    named = [n for n in ast.walk(loop.iter) if n in flow.aliases] or [
        n for n in reversed(use.via) if n in flow.aliases and module.scope(n) is module.scope(loop)
    ]
    found = next((n for n in named if isinstance(n, (ast.Name, ast.Attribute))), None)
    if found is None:
        return None
    for d in module.bindings.definitions:  # `loader = tqdm(loader)`: the name stands for something else now
        if d.key == ast.unparse(found) and d.scope is module.scope(found) and d.kind != "parameter":
            if found.lineno <= getattr(d.node, "lineno", 0) <= (loop.end_lineno or loop.lineno):
                return None
    return found


def _iterated(module: Module, use: Use, loop: ast.For) -> Iterator[Obstacle]:
    """What goes around the loader in the head of the loop may count or show, not choose or pair."""
    around = {n for v in use.via for n in (v, module.parents.get(v)) if n is not None}
    for node in (*ast.walk(loop.iter), *around):
        called = isinstance(node, ast.Call) and module.home(node) is module and node in around
        if called and isinstance(node, ast.Call) and _goes_over(node, use) and last_name(node.func) not in _AROUND:
            yield Obstacle(loop, f"`{last_name(node.func)}(..)` goes over the batches in a way that is not followed")
            return


def _of_bars(module: Module, loop: ast.For, gathering: Gathering) -> Iterator[Obstacle]:
    """What a progress bar counted, read behind the loop: one rank's steps or samples."""
    bars = {ast.unparse(loop.iter)} | {
        ast.unparse(s.value.func.value)
        for s in gathering.shown
        if isinstance(s, ast.Expr) and isinstance(s.value, ast.Call) and isinstance(s.value.func, ast.Attribute)
    }
    for n in ast.walk(module.scope(loop)):
        below = getattr(n, "lineno", 0) > (loop.end_lineno or loop.lineno)
        if below and isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load) and n.attr in _COUNTED:
            if ast.unparse(n.value) in bars:
                yield Obstacle(module.statement(n), f"`{ast.unparse(n)}` counts what one rank did")
                return


def _goes_over(call: ast.Call, use: Use) -> bool:
    """Whether what a call gives is what the loop goes over, and the loader goes into it."""
    given = [*call.args, *(k.value for k in call.keywords)]
    over = call in use.via or any(call is n for n in ast.walk(getattr(use.node, "iter", call)))
    return over and any(a in use.via for a in given)


class _Afterwards:
    """What is read behind a loop of what it gathered."""

    def __init__(self, module: Module, loop: ast.For, gathering: Gathering, flow: Flow) -> None:
        self.module, self.loop, self.gathering, self.flow = module, loop, gathering, flow
        self.inside = gathering.inside
        self.scope = module.scope(loop)
        self.obstacles: list[Obstacle] = []
        self.settled: set[str] = set()  # of which nothing more is to be said
        self._steps: list[ast.expr] = []

    # -- accumulators ----------------------------------------------------------------------------------------

    def accumulators(self) -> list[Accumulator]:
        """What is gathered and read behind the loop, each with its kind."""
        by_name: dict[str, list[Write]] = {}
        for write in self.gathering.writes:
            by_name.setdefault(write.name, []).append(write)
        found: list[Accumulator] = []
        for name, writes in by_name.items():
            last = writes[-1]
            if not name:
                self._refuse(last.statement, "what it adds to has no name of its own")
                continue
            starts = self._starts(writes)
            if not self._is_read(name, writes, starts):
                self.settled.add(name)
                continue
            kind, why = self._kind(writes)
            why = why or self._rounds(writes, starts)
            if kind is None:
                self._refuse(last.statement, f"`{name}` is added to in several ways")
                continue
            if self._set_anew(name, writes) or not self._fresh(name, kind, writes, starts):
                self.settled.add(name)
                continue
            self._read_inside(name, writes)
            if last.meter is not None and last.meter.window:
                self._window(name)
            elif last.meter is not None and last.meter.last:
                self._last_value(name, last.meter.last)
            found.append(Accumulator(name, kind, last.statement, True, why, last.meter))
        return found

    def _window(self, name: str) -> None:
        """What averages the last values only has another rank's behind the loop."""
        for node in ast.walk(self.scope):
            below = getattr(node, "lineno", 0) > (self.loop.end_lineno or 0)
            if below and isinstance(node, ast.Attribute) and node.attr in _LAST:
                self._refuse(self.module.statement(node), f"`{node.attr}` holds the last batches of one rank only")
                return

    def _last_value(self, name: str, attributes: Sequence[str]) -> None:
        """What a meter was told last is another value on each rank."""
        for node in ast.walk(self.scope):
            if getattr(node, "lineno", 0) <= (self.loop.end_lineno or 0):
                continue
            read = isinstance(node, ast.Attribute) and ast.unparse(node) in {f"{name}.{a}" for a in attributes}
            shown = isinstance(node, ast.expr) and ast.unparse(node) == name and self._shows_last(node, attributes)
            if read or shown or (isinstance(node, ast.Call) and _formats(node, name, attributes)):
                self._refuse(self.module.statement(node), f"the last value of `{name}`, which is one rank's, is read")
                return

    def _shows_last(self, node: ast.expr, attributes: Sequence[str]) -> bool:
        """Whether a meter is asked for a text, or for anything else, by a method that reads its last value."""
        outer = self.module.parents.get(node)
        names = {"__str__", "__repr__", "__format__"}
        if isinstance(outer, ast.Attribute):
            names = {outer.attr}
        elif not isinstance(outer, ast.FormattedValue) and not (
            isinstance(outer, ast.Call) and last_name(outer.func) in ("str", "print", "repr", "format", "info", "write")
        ):
            return False
        methods = [m for cls in self.module.instances(node) for n in names if (m := self.module.method(cls, n))]
        reads = {ast.unparse(n) for m in methods for n in ast.walk(m) if isinstance(n, ast.Attribute)}
        texts = [
            n.value for m in methods for n in ast.walk(m) if isinstance(n, ast.Constant) and isinstance(n.value, str)
        ]
        return any(f"self.{a}" in reads or any(f"{{{a}" in text for text in texts) for a in attributes)

    def _refuse(self, node: ast.AST, why: str) -> None:
        self.obstacles.append(Obstacle(node, why))

    def _kind(self, writes: Sequence[Write]) -> tuple[Gathered | None, str]:
        kinds = {w.kind for w in writes}
        why = next((w.why for w in writes if w.why), "")
        if kinds & {"samples", "batches", "by-batch"}:
            return (writes[0].kind, why) if len(writes) == 1 else (None, "")
        if kinds == {"meter"}:
            return "meter", why
        if kinds == {"sum"}:
            return "sum", ""
        if kinds == {"steps"}:
            return "steps", "it counts batches, of which several ranks may have more"
        if "meter" in kinds:
            return None, ""
        if kinds <= {"batch-mean"}:
            return "batch-mean", why
        return "opaque", why or "it adds a constant for each batch"

    def _rounds(self, writes: Sequence[Write], starts: Sequence[Definition]) -> str:
        """Why a sum is another one where other numbers are added in another order."""
        begun = [d.value for d in starts if d.value is not None]
        for write in writes:
            added = getattr(write.statement, "value", None)
            if write.kind == "sum" and isinstance(added, ast.expr):
                why = rounds(self.gathering.values, begun, write.target, added)
                if why:
                    return why
        return ""

    def _starts(self, writes: Sequence[Write]) -> list[Definition]:
        """What the name is before the loop."""
        root = writes[0].target
        while isinstance(root, ast.Subscript):
            root = root.value
        reaching = self.module.bindings.reaching(root)
        return [d for d in reaching if d.node not in self.inside]

    def _is_read(self, name: str, writes: Sequence[Write], starts: Sequence[Definition]) -> bool:
        if "." in name:
            return True
        made = [d for d in self.module.bindings.definitions if d.key == name and d.node in self.inside]
        readers = [r for d in (*starts, *made) for r in self.module.bindings.readers(d)]
        return any(r not in self.inside and self._behind(r) for r in readers)

    def _behind(self, node: ast.AST) -> bool:
        """Whether a place may run after the loop: it stands below it, or in a loop or function around or beside it."""
        if self.module.scope(node) is not self.scope:
            return True
        below = getattr(node, "lineno", 0) > (self.loop.end_lineno or self.loop.lineno)
        shared = [n for n in self.module.around(self.loop) if isinstance(n, _REPEATS)]
        return below or any(n in shared for n in self.module.around(node))

    def _set_anew(self, name: str, writes: Sequence[Write]) -> bool:
        """Whether a sum is set back in the loop."""
        known = {w.statement for w in writes} | self.gathering.begun
        for d in self.module.bindings.definitions:
            if d.key == name and d.node in self.inside and d.statement not in known:
                self._refuse(d.statement, f"`{name}` is set anew in the loop")
                return True
        return False

    def _fresh(self, name: str, kind: Gathered, writes: Sequence[Write], starts: Sequence[Definition]) -> bool:
        """Whether an accumulator begins empty just for this loop, in this function."""
        if not starts:
            value = begun_before(self.module, self.loop, writes[0].target) if kind != "meter" else None
            if value is not None and (is_empty(value) if kind in _LISTS else is_zero(value) and is_number(value)):
                return True
            self._refuse(writes[-1].statement, f"where `{name}` begins is not seen")
            return False
        around = {n for n in self.module.around(self.loop) if isinstance(n, _REPEATS)}
        for d in starts:
            repeats = {n for n in self.module.around(d.statement) if isinstance(n, _REPEATS)}
            if d.kind != "assign" or d.index is not None or d.value is None or d.scope is not self.scope:
                self._refuse(writes[-1].statement, f"`{name}` does not begin at nothing right before the loop")
                return False
            if repeats != around:
                self._refuse(writes[-1].statement, f"`{name}` goes on over several passes")
                return False
            if kind != "meter" and not (is_empty(d.value) if kind in _LISTS else is_zero(d.value)):
                self._refuse(d.statement, f"`{name}` does not begin at nothing")
                return False
            if kind != "meter" and not is_number(d.value) and self._known_elsewhere(d):
                self._refuse(d.statement, f"`{name}` is known by another name too")
                return False
        return True

    def _known_elsewhere(self, d: Definition) -> bool:
        """Whether something before the loop keeps the list or array that is filled."""
        for reader in self.module.bindings.readers(d):
            if reader in self.inside or self.module.scope(reader) is not self.scope:
                continue
            if reader.lineno < self.loop.lineno:
                return True
        return False

    def _read_inside(self, name: str, writes: Sequence[Write]) -> None:
        """A running value may be shown; nothing else in the loop may go by it."""
        statements = {w.statement for w in writes}
        for node in self.inside:
            if not isinstance(node, (ast.Name, ast.Attribute)) or not isinstance(node.ctx, ast.Load):
                continue
            if ast.unparse(node) != name:
                continue
            statement = self.module.statement(node)
            if (
                statement is self.loop
                or (statement in statements and not _adds_itself(statement, node))
                or self._only_shown(statement)
                or _tests_none(self.module.parents[node])
                or self._gives_keys(node)
            ):
                continue
            self._refuse(statement, f"the running value of `{name}` is read, which is one rank's")
            return

    def _gives_keys(self, node: ast.expr) -> bool:
        """``for k in hits:`` goes over the keys of a dict that is written out, which are the same on all ranks."""
        outer = self.module.parents[node]
        over = isinstance(outer, (ast.For, ast.comprehension)) and outer.iter is node
        begun = [d.value for d in self.module.bindings.reaching(node) if d.node not in self.inside]
        return over and bool(begun) and all(isinstance(value, (ast.Dict, ast.DictComp)) for value in begun)

    def _only_shown(self, statement: ast.stmt) -> bool:
        if statement in self.gathering.shown:
            return True
        outer = self.module.parents.get(statement)
        if isinstance(outer, ast.stmt) and outer in self.gathering.shown:
            return True
        if not isinstance(statement, ast.Assign) or not all(isinstance(t, ast.Name) for t in statement.targets):
            return False
        made = [d for d in self.module.bindings.definitions if d.node in statement.targets]
        readers = [r for d in made for r in self.module.bindings.readers(d)]
        return all(self.module.statement(r) in self.gathering.shown for r in readers)

    # -- the rest --------------------------------------------------------------------------------------------

    def left_over(self, known: set[str]) -> Iterator[Obstacle]:
        """Names of the last batch that are read behind the loop, or of one batch that are read in the next."""
        for d in self.module.bindings.definitions:
            if d.node not in self.inside or d.key in known or d.key.partition(".")[0] in known:
                continue
            if d.value is not None and d.kind == "assign" and self.gathering.values.of(d.value).kind == "time":
                continue
            for reader in self.module.bindings.readers(d):
                if reader not in self.inside:
                    if reader in self._step_reads():
                        continue
                    yield Obstacle(
                        self.module.statement(reader), f"`{d.key}`, of the last batch, is read behind the loop"
                    )
                    break
                if self._carried(d, reader):
                    yield Obstacle(self.module.statement(reader), f"`{d.key}` of the batch before is read")
                    break

    def _carried(self, d: Definition, reader: ast.expr) -> bool:
        if d.kind in ("loop", "import") or not isinstance(d.node, (ast.Name, ast.Attribute)):
            return False
        if self._made_once(d, reader):
            return False
        before = (reader.lineno, reader.col_offset) < (d.node.lineno, d.node.col_offset)
        same = reader is not d.node and self.module.statement(reader) is d.statement
        if isinstance(d.statement, ast.AugAssign):
            return False  # made anew in the pass, or a sum
        return before or same

    def _made_once(self, d: Definition, reader: ast.expr) -> bool:
        """``if limit is None: limit = ..``, of nothing that is the batch's: whichever batch comes first, it is that."""
        outer = self.module.parents.get(d.statement)
        if not isinstance(outer, ast.If) or outer.orelse or not any(n is reader for n in ast.walk(outer.test)):
            return False
        asked = isinstance(outer.test, ast.Compare) and isinstance(outer.test.ops[0], ast.Is)
        value = self.gathering.values.of(d.value).kind if d.value is not None else "unknown"
        return asked and none_test(outer.test) == d.key and value == "constant"

    def steps(self) -> list[ast.expr]:
        """The expressions by which the number of batches divides something behind the loop."""
        for use in self.flow.of("length"):
            node = use.node
            if node in self.inside or self.module.home(node) is not self.module or not isinstance(node, ast.Call):
                continue
            if self.module.scope(node) is self.scope and self._divides(node):
                again = reckoned_before(self.module, self.loop, node)
                if again is not None:
                    self.obstacles.append(again)
                elif self._unconditional(node):
                    self._steps.append(node)
                else:
                    self._refuse(self.module.statement(node), "it divides by the number of batches on some paths only")
        for node in self._step_reads():
            place = self.module.parents[node]
            whole = place if isinstance(place, ast.BinOp) and isinstance(place.op, ast.Add) else node
            if isinstance(whole, ast.expr) and whole is not node and self._unconditional(node):
                self._steps.append(whole)
            else:
                self._refuse(self.module.statement(node), "the last batch's number is read behind the loop")
        for use in self.flow.of("attribute"):
            sampler = isinstance(use.node, ast.Attribute) and use.node.attr in ("sampler", "batch_sampler")
            measured = self.module.parents.get(use.node)
            length = sampler and isinstance(measured, ast.Call) and last_name(measured.func) == "len"
            if length and isinstance(measured, ast.Call) and not shown(self.module, measured):
                self._refuse(self.module.statement(measured), "the sampler's length is that of one rank's part")
        for node in ast.walk(self.scope):
            below = getattr(node, "lineno", 0) > (self.loop.end_lineno or 0)
            if isinstance(node, ast.expr) and below and is_world_size(node) and self._reckons(node):
                self._refuse(self.module.statement(node), "it reckons with the number of processes already")
                break
        return self._steps

    def _reckons(self, node: ast.expr) -> bool:
        return any(isinstance(n, ast.BinOp) for n in self._up(node))

    def _up(self, node: ast.AST) -> Iterator[ast.AST]:
        for outer in self.module.around(node):
            if isinstance(outer, ast.stmt):
                return
            yield outer

    def _divides(self, node: ast.expr, depth: int = 0) -> bool:
        previous: ast.AST = node
        for outer in (*self._up(node), self.module.statement(node)):
            if isinstance(outer, ast.BinOp) and isinstance(outer.op, (ast.Div, ast.FloorDiv)):
                if outer.right is previous:
                    return getattr(outer, "lineno", 0) > (self.loop.end_lineno or 0) or depth > 0
            if isinstance(outer, ast.AugAssign) and isinstance(outer.op, (ast.Div, ast.FloorDiv)):
                return True
            if isinstance(outer, ast.Call) and last_name(outer.func) not in ("float", "int", "max", "len"):
                if not (isinstance(outer.func, ast.Attribute) and previous is not outer.func):
                    return False
                return False
            if isinstance(outer, ast.Assign) and depth < 2:
                made = [d for d in self.module.bindings.definitions if d.statement is outer]
                readers = [r for d in made for r in self.module.bindings.readers(d)]
                behind = [r for r in readers if r not in self.inside and self._behind(r)]
                if any(self._divides(r, depth + 1) for r in behind):
                    return True
            previous = outer
        return False

    def _step_reads(self) -> list[ast.expr]:
        """The reads behind the loop of the number that it counts its batches by."""
        if not is_enumerated(self.module, self.loop.iter) or not isinstance(self.loop.target, ast.Tuple):
            return []
        counter = self.loop.target.elts[0]
        made = [d for d in self.module.bindings.definitions if d.node is counter]
        return [r for d in made for r in self.module.bindings.readers(d) if r not in self.inside]

    def _unconditional(self, node: ast.AST) -> bool:
        """Whether every rank that runs the loop runs a place too, and just once."""
        around = set(self.module.around(self.loop))
        if not all(n in around for n in self.module.around(node) if isinstance(n, _BLOCKS)):
            return False
        if self.module.scope(node) is not self.scope:
            return False
        end, here = self.loop.end_lineno or self.loop.lineno, getattr(node, "lineno", 0)
        between = (n for n in ast.walk(self.scope) if end < getattr(n, "lineno", 0) < here)
        return not any(isinstance(n, _LEAVES) and self.module.scope(n) is self.scope for n in between)


def _formats(call: ast.Call, name: str, attributes: Sequence[str]) -> bool:
    """``'{loss.val} ({loss.avg})'.format(loss=losses)``"""
    text = call.func.value if isinstance(call.func, ast.Attribute) and call.func.attr == "format" else None
    if not isinstance(text, ast.Constant) or not isinstance(text.value, str):
        return False
    keys = [k.arg or "" for k in call.keywords if ast.unparse(k.value) == name]
    keys += [str(i) for i, a in enumerate(call.args) if ast.unparse(a) == name]
    return any(f"{{{key}.{a}" in text.value for key in keys for a in attributes)


def _adds_itself(statement: ast.stmt, node: ast.AST) -> bool:
    """``rows.append(len(rows))``"""
    added: list[ast.expr] = []
    if isinstance(statement, ast.AugAssign):
        added = [statement.value]
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        added = arguments_of(statement.value)
    return any(n is node for a in added for n in ast.walk(a))


def _tests_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Is, ast.IsNot))


__all__ = ["understand"]
