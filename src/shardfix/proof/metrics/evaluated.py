"""From an evaluation loop to statements that can be run: what it gathers, what is made of that, and nothing else.

What a model, a loss or a batch decides is replaced by stand-ins (``stand_ins``) that a batch's indices decide; the
sums, the reduction, the divisions and the order of all of it stay the program's own.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.loops.accumulation import root_of
from shardfix.analysis.loops.epochs import is_enumerated
from shardfix.analysis.metrics.gathering import Gathering, Write
from shardfix.analysis.metrics.values import Values
from shardfix.proof.metrics.afterwards import Afterwards
from shardfix.proof.metrics.granted import following, granted, is_given, of_batches, read_behind, timed, within
from shardfix.proof.metrics.literal import Literal
from shardfix.proof.recipes.choices import text_of
from shardfix.proof.recipes.regime import call, name
from shardfix.proof.recipes.slice import assign
from shardfix.proof.stop import Stop

_JOINS = frozenset({"cat", "concat", "concatenate", "vstack", "append"})
_NUMBERS = frozenset({"item", "tolist", "size", "numel", "len", "int", "float", "sum", "round"})
_CALLERS = 3  # callers of callers that are followed


@dataclass(frozen=True, slots=True)
class Evaluated:
    """Statements that run an evaluation, and the texts of the values they keep, in order.

    The value number n is kept as ``VALUES["#n"]``; with its text stands whether it goes by the number of batches.
    ``assumed`` is what the values hold only by, ``told`` what was not run.
    """

    statements: str
    kept: tuple[tuple[str, bool], ...]
    stand_ins: dict[str, str]
    assumed: tuple[str, ...] = ()
    told: tuple[str, ...] = ()


def evaluated(
    module: Module,
    loop: ast.For,
    loaders: Sequence[str],
    dataset: str,
    names: Sequence[str],
    weighted: Sequence[str] = (),
    examples: bool = False,
    literal: bool = False,
    elsewhere: Callable[[ast.AST], tuple[Sequence[str], str]] = lambda _: ((), ""),
) -> Evaluated:
    """The statements of one loop over a loader and of what follows it.

    Args:
        module: the file of the loop.
        loaders: how the loader is written there; ``dataset``: how its dataset is.
        names: the accumulators, as they are written; ``weighted``: those that add up means over batches or count these.
        examples: whether batches are lists of samples that are not collated.
        literal: whether the body of the loop is to be run as it is written, on rows.
        elsewhere: how the loader and its dataset are written in another function of the file, by that function.

    Raises:
        Stop: something of it is not understood.
    """
    return _Loop(module, loop, loaders, dataset, names, weighted, examples, literal, elsewhere).evaluated()


@dataclass
class _Loop:
    module: Module
    loop: ast.For
    loaders: Sequence[str]
    dataset: str
    names: Sequence[str]
    weighted: Sequence[str]
    examples: bool
    literally: bool = False
    elsewhere: Callable[[ast.AST], tuple[Sequence[str], str]] = lambda _: ((), "")
    stand_ins: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.loose = False  # whether what is added need not be a sum, as is told elsewhere
        self.values = Values(self.module, self.loop, self.loop, examples=self.examples)
        self.after = Afterwards(self.module, self.loaders, self.dataset, self.stand_ins)
        gathering = Gathering(self.module, self.loop, self.values)
        self.writes = [w for w in gathering.writes if w.name in self.names]
        self.inside = set(ast.walk(self.loop))
        self.after.weighted.update(self.weighted)

    def evaluated(self) -> Evaluated:
        starts: list[ast.stmt] = []
        outer = False
        for write in self.writes:
            variable = self.after.track(write.name)
            start = self._start(write)
            if not any(isinstance(s, ast.Assign) and ast.unparse(s.targets[0]) == variable for s in starts):
                starts.append(assign(variable, self._first_value(write, start)))
            outer = outer or self._around(start)
        target = self.loop.target
        if is_enumerated(self.module, self.loop.iter) and isinstance(target, ast.Tuple):
            self.after.tracked[ast.unparse(target.elts[0])] = "STEP"
            self.after.weighted.add(ast.unparse(target.elts[0]))
        functions: dict[str, ast.stmt] = {}
        if self.literally:
            body = self._as_written(starts, functions)
        else:
            body = [made for write in self.writes for made in self._added(write)]
            self.after.assumed += granted(self.module, self.loop, self.values, self.writes)
        batches = call(name("enumerate"), call(name("BATCHES"), name("loader")))
        step = ast.Tuple([ast.Name("STEP", ast.Store()), ast.Name("BATCH", ast.Store())], ast.Store())
        run: list[ast.stmt] = [ast.For(step, batches, body or [ast.Pass()], [])]
        returned = self._run_on(self.loop, run, "RETURNED")
        for accumulator in dict.fromkeys(w.name for w in self.writes):
            drifts = accumulator in self.after.weighted
            run += self.after.keep(accumulator, name(self.after.tracked[accumulator]), drifts)
        told = self._callers(run, returned)
        if outer:  # what an outer loop does not begin anew is gathered over its turns
            run = [ast.For(ast.Name("TURN", ast.Store()), call(name("range"), ast.Constant(2)), run, [])]
        statements = [*functions.values(), assign("VALUES", ast.Dict([], [])), *starts, *run]
        text = ast.unparse(ast.fix_missing_locations(ast.Module(statements, [])))
        assumed = tuple(dict.fromkeys(self.after.assumed))
        kept = tuple(self.after.kept)
        return Evaluated("\n".join([*self.after.imports, text]), kept, self.stand_ins, assumed, told)

    # -- behind the loop -------------------------------------------------------------------------------------

    def _run_on(self, begin: ast.stmt, run: list[ast.stmt], returned: str) -> ast.expr | None:
        """Add what follows a statement to what is run; what its function returns, bound to the name, if it does."""
        for block, at in following(self.module, begin):
            for statement in block[at + 1 :]:
                if self._begins_anew(statement):
                    return None
                value = self._returned(statement, run, returned)
                run += self.after.statement(statement)
                if isinstance(statement, ast.Return):
                    return value
        return None

    def _returned(self, s: ast.stmt, run: list[ast.stmt], variable: str) -> ast.expr | None:
        if not isinstance(s, ast.Return) or s.value is None or not self.after.follows(s.value):
            return None
        run.append(assign(variable, self.after.value(s.value)))
        return s.value

    def _callers(self, run: list[ast.stmt], value: ast.expr | None) -> tuple[str, ...]:
        """Add what the callers in the same file make of what is returned; what of it was not run."""
        returned = "RETURNED"
        site: ast.AST = self.loop
        for depth in range(_CALLERS):
            function = self.module.scope(site)
            if value is None or not isinstance(function, ast.FunctionDef):
                return ()
            calls = list(self.module.callers(function))
            own = [c for c in calls if self.module.home(c) is self.module and self.module.scope(c) is not function]
            texts = {c: self.elsewhere(self.module.scope(c)) for c in own}
            given = [
                c for c in own if any(ast.unparse(a) in texts[c][0] for a in [*c.args, *(k.value for k in c.keywords)])
            ]
            own = given or own
            if not own:
                return (f"what calls `{function.name}` is not run",)
            drifts = self.after.drifts(value)
            following: list[ast.expr] = []
            for c in own[:_CALLERS]:
                text = ast.unparse(c)
                self.after.tracked, self.after.meters = {text: returned}, {}
                self.after.weighted = {text} if drifts else set()
                self.after.unchanged = set()
                self.loaders, self.after.dataset = texts[c]
                self.after.loaders = self.loaders
                statement = self.module.statement(c)
                variable = f"RETURNED{depth}"
                made = self._returned(statement, run, variable)
                run += self.after.statement(statement)
                if not isinstance(statement, ast.Return):
                    made = self._run_on(statement, run, variable)
                following += [made] if made is not None else []
            if len(own) > 1 or not following:
                return (f"what calls `{function.name}` elsewhere is not run",) if len(own) < len(calls) else ()
            site, value, returned = own[0], following[0], variable
        return ()

    # -- the loop as it is written ---------------------------------------------------------------------------

    def _as_written(self, starts: list[ast.stmt], functions: dict[str, ast.stmt]) -> list[ast.stmt]:
        """The body of the loop, on rows."""
        if self.examples:
            raise self.stop("batches are lists of samples", self.loop)
        inner = {n for c in ast.walk(self.loop) if isinstance(c, ast.comprehension) for n in ast.walk(c.target)}
        inside = within(self.loop)
        written = [n for n in ast.walk(self.loop.target) if isinstance(n, ast.Name)]
        written += [n for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n not in inner]
        for n in inside:
            if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) and root_of(n):
                written += [m for m in ast.walk(n.value) if isinstance(m, ast.Name) and m.id == root_of(n)]
        own = {w.name for w in self.writes}
        times = timed(self.values, self.loop)
        for text in dict.fromkeys(n.id for n in written if n.id not in own and n.id not in times):
            first = self._begun(text, inside)
            if first is not None:
                starts.append(first)
        for text in dict.fromkeys(n.id for n in written):
            if text not in times:
                self.after.track(text)
        batchy = of_batches(self.module, self.loop)
        behind = read_behind(self.module, self.loop)
        meters = {id(w.statement): w for w in self.writes if w.meter is not None}

        def known(s: ast.stmt, literal: Literal) -> list[ast.stmt] | None:
            write = meters.get(id(s))
            if write is None:
                by_clock = isinstance(s, ast.Assign) and all(ast.unparse(t) in times for t in s.targets)
                return [] if by_clock else None
            return self._changed_by(write, literal.value, ast.Name(self.after.tracked[write.name], ast.Store()))

        def untracked(node: ast.Call) -> None:
            if not is_given(node, batchy):
                return
            told_of = ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
            if told_of in behind or (isinstance(node.func, ast.Name) and told_of != "print"):
                self.after.assumed.append(f"`{text_of(node)}` keeps nothing that is read behind the loop")

        for n in inside:
            if isinstance(n, ast.Call) and is_given(n, batchy):
                self.after.told_of.add(ast.unparse(n.func))
                if isinstance(n.func, ast.Attribute) and ast.unparse(n.func.value) != "self":
                    self.after.told_of.add(ast.unparse(n.func.value))
        literal = Literal(
            *(self.module, self.after.tracked, self.after.value, lambda node: self.values.of(node).kind, known),
            *(untracked, self.stand_ins, self.after.assumed, functions),
        )
        self.after.literal = literal
        target = self.loop.target
        if is_enumerated(self.module, self.loop.iter) and isinstance(target, ast.Tuple) and len(target.elts) == 2:
            self.after.tracked[ast.unparse(target.elts[0])] = "STEP"
            target = target.elts[1]
        given: ast.expr = call(name("GIVEN"), name("BATCH"))
        if isinstance(target, (ast.Tuple, ast.List)):
            given = call(name("PARTS"), given, ast.Constant(len(target.elts)))
        body = [ast.Assign([literal.target(target)], given, lineno=0), *literal.block(self.loop.body)]
        for s in inside:
            if isinstance(s, ast.Assign) and self.after.drifts(s.value):
                self.after.weighted.update(ast.unparse(t) for t in s.targets)
        self.after.imports += [i for i in sorted(literal.imports) if i not in self.after.imports]
        return body

    def _begun(self, text: str, inside: Sequence[ast.AST]) -> ast.stmt | None:
        """The assignment of what a name of the loop holds before its first turn; None where nothing reads that."""
        for n in inside:
            if not isinstance(n, ast.Name) or n.id != text or not isinstance(n.ctx, ast.Load):
                continue
            found = [d for d in self.module.bindings.reaching(n) if d.node not in self.inside]
            if len(found) == 1 and found[0].kind == "assign" and found[0].value is not None and found[0].index is None:
                return assign(self.after.track(text), self.after.first(found[0].value))
            if found:
                raise self.stop(f"what `{text}` begins with is not seen", n)
        return None

    # -- before the loop -------------------------------------------------------------------------------------

    def _start(self, write: Write) -> Definition:
        """The assignment that an accumulator begins with."""
        target = write.target
        while isinstance(target, ast.Subscript):
            target = target.value
        found = [d for d in self.module.bindings.reaching(target) if d.node not in self.inside]
        if len(found) != 1 or found[0].kind != "assign" or found[0].value is None:
            raise self.stop(f"what `{write.name}` begins with is not seen", write.statement)
        return found[0]

    def _first_value(self, write: Write, start: Definition) -> ast.expr:
        value = start.value
        assert value is not None
        if start.index is not None:
            if not isinstance(value, (ast.Tuple, ast.List)) or not 0 <= start.index < len(value.elts):
                raise self.stop(f"what `{write.name}` begins with is not seen", value)
            value = value.elts[start.index]
        if write.meter is not None:
            meter = write.meter
            self.after.meters[write.name] = meter
            self.stand_ins[text_of(value)] = "a meter that adds up a sum and a count"
            if meter.held_in:
                return call(name("LOGGER"), ast.Constant(meter.held_in))
            attributes = (meter.sum, meter.count, meter.average)
            return call(name("METER"), *(ast.Constant(attribute) for attribute in attributes))
        return self.after.first(value)

    def _around(self, start: Definition) -> bool:
        """Whether a loop stands around the loop over the batches and not around what its accumulator begins with."""
        begun = set(self.module.around(start.node))
        function = self.module.scope(self.loop)
        for outer in self.module.around(self.loop):
            if outer is function:
                return False
            if isinstance(outer, (ast.For, ast.While)) and outer not in begun:
                return True
        return False

    def _begins_anew(self, statement: ast.stmt) -> bool:
        """Whether a statement gives the loader's name another value, or goes over it again: another evaluation."""
        for n in ast.walk(statement):
            if isinstance(n, (ast.Name, ast.Attribute)) and isinstance(n.ctx, ast.Store):
                if ast.unparse(n) in self.loaders:
                    return True
            if isinstance(n, ast.For) and any(ast.unparse(i) in self.loaders for i in ast.walk(n.iter) if _is_named(i)):
                return not any(isinstance(i, ast.Call) and last_name(i.func) == "len" for i in ast.walk(n.iter))
        return False

    # -- in the loop -----------------------------------------------------------------------------------------

    def _added(self, write: Write) -> list[ast.stmt]:
        """What one statement adds, by stand-ins."""
        s = write.statement
        self.loose = write.kind == "opaque" or bool(write.why)
        tests = self._tests(s)
        sample = any(isinstance(t, ast.For) for t in tests)
        target = self._target(write, sample)
        if isinstance(s, ast.Assign):
            made = [self._joined(s, self.after.tracked[write.name], sample)]
        else:
            made = self._changed_by(write, lambda node: self.part(node, sample), target)
        for test in tests:
            if isinstance(test, ast.For):
                made = [ast.For(ast.Name("SAMPLE", ast.Store()), name("BATCH"), made, [])]
            else:
                chosen = call(name("OF"), ast.Constant(ast.unparse(test)), name("SAMPLE"))
                made = [ast.If(ast.BinOp(chosen, ast.Mod(), ast.Constant(2)), made, [])]
        return made

    def _changed_by(
        self, write: Write, part: Callable[[ast.expr], ast.expr], target: ast.Name | ast.Subscript
    ) -> list[ast.stmt]:
        """The statement that adds, of translated parts."""
        s = write.statement
        variable = self.after.tracked[write.name]
        made: list[ast.stmt]
        if isinstance(s, ast.AugAssign):
            made = [ast.AugAssign(target, s.op, part(s.value))]
        elif isinstance(s, ast.Expr) and isinstance(s.value, ast.Call) and isinstance(s.value.func, ast.Attribute):
            parts = [part(a) for a in s.value.args]
            keywords = [ast.keyword(k.arg, part(k.value)) for k in s.value.keywords]
            if write.meter is not None and write.meter.held_in:
                receiver = self._held(write, s.value.func.value)
                made = [ast.Expr(ast.Call(ast.Attribute(receiver, "update", ast.Load()), parts, keywords))]
            elif write.meter is not None:
                order = {write.meter.value: 0, write.meter.weight: 1}
                parts += [k.value for k in sorted(keywords, key=lambda k: order.get(k.arg or "", 0))]
                made = [ast.Expr(call(ast.Attribute(name(variable), "update", ast.Load()), *parts))]
            else:
                method = ast.Attribute(name(variable), s.value.func.attr, ast.Load())
                made = [ast.Expr(call(method, *parts))]
        else:
            raise self.stop(f"how `{text_of_statement(s)}` adds is not followed", s)
        return made

    def _held(self, write: Write, receiver: ast.expr) -> ast.expr:
        """``logger`` or ``logger.meters["acc1"]``, by the variable of the logger."""
        variable = name(self.after.tracked[write.name])
        if ast.unparse(receiver) == write.name:
            return variable
        if isinstance(receiver, ast.Subscript) and isinstance(receiver.value, ast.Attribute):
            base, key = receiver.value, receiver.slice
            if ast.unparse(base.value) == write.name and isinstance(key, ast.Constant):
                return ast.Subscript(ast.Attribute(variable, base.attr, ast.Load()), key, ast.Load())
        raise self.stop(f"which average of `{write.name}` is told is not followed", write.statement)

    def _tests(self, statement: ast.stmt) -> list[ast.For | ast.expr]:
        """The loop over samples around a statement and the conditions in that, from within outwards."""
        found: list[ast.For | ast.expr] = []
        conditions: list[ast.For | ast.expr] = []
        previous: ast.AST = statement
        for outer in self.module.around(statement):
            if outer is self.loop:
                return found
            if isinstance(outer, ast.If):
                test = outer.test if previous in outer.body else ast.UnaryOp(ast.Not(), outer.test)
                conditions.append(test)
            elif isinstance(outer, ast.For):
                if self.values.iterated(outer.iter).kind not in ("sample", "output") or found:
                    raise self.stop("a loop in the loop over the batches is not followed", outer)
                found = [*conditions, outer]
                conditions = []
            elif isinstance(outer, (ast.While, ast.Try)):
                raise self.stop("a loop in the loop over the batches is not followed", outer)
            previous = outer
        return found

    def _target(self, write: Write, sample: bool) -> ast.Name | ast.Subscript:
        """What is added to: a name, or an item of it."""
        target = write.target
        variable = self.after.tracked[write.name]
        if not isinstance(target, ast.Subscript):
            return ast.Name(variable, ast.Store())
        if root_of(target.value) != ast.unparse(target.value):
            raise self.stop("an item of an item is not followed", target)
        if self.values.of(target.slice).kind == "constant":
            key = self.after.value(target.slice)
        elif sample:
            # whatever it holds, two keys are there
            key = ast.BinOp(
                call(name("OF"), ast.Constant(ast.unparse(target.slice)), name("SAMPLE")), ast.Mod(), ast.Constant(2)
            )
        else:
            raise self.stop(f"which item of `{write.name}` is added to is not followed", target)
        return ast.Subscript(name(variable), key, ast.Store())

    def _joined(self, s: ast.Assign, variable: str, sample: bool) -> ast.stmt:
        """``x = x + e``, ``x = torch.cat((x, e))``, ``x = e if x is None else torch.cat((x, e))``."""
        own, value = ast.unparse(s.targets[0]), s.value
        if isinstance(value, ast.IfExp):
            value = value.orelse if isinstance(value.orelse, ast.Call) else value.body
        if isinstance(value, ast.BinOp):
            rest: ast.expr = value
            chain: list[tuple[ast.operator, ast.expr]] = []
            while isinstance(rest, ast.BinOp):
                chain.insert(0, (rest.op, rest.right))
                rest = rest.left
            if ast.unparse(rest) == own:
                total: ast.expr = name(variable)
                for op, part in chain:
                    total = ast.BinOp(total, op, self.part(part, sample))
                return assign(variable, total)
        if isinstance(value, ast.Call) and last_name(value.func) in _JOINS and value.args:
            parts = value.args[0].elts if isinstance(value.args[0], (ast.Tuple, ast.List)) else value.args
            added = [p for p in parts if ast.unparse(p) != own]
            if len(added) == 1:
                return assign(variable, call(name("JOIN"), name(variable), self.part(added[0], sample)))
        raise self.stop(f"how `{text_of_statement(s)}` adds is not followed", s)

    def part(self, node: ast.expr, sample: bool) -> ast.expr:
        """An expression of the loop, by stand-ins."""
        value = self.values.of(node)
        kind = value.kind
        if kind == "constant":
            return self.after.value(node)
        if isinstance(node, ast.BinOp) and kind != "unknown":
            return ast.BinOp(self.part(node.left, sample), node.op, self.part(node.right, sample))
        if isinstance(node, ast.UnaryOp) and kind in ("sum", "count", "mean"):
            return ast.UnaryOp(node.op, self.part(node.operand, sample))
        if isinstance(node, (ast.Tuple, ast.List)) and kind == "items":
            return type(node)([self.part(e, sample) for e in node.elts], ast.Load())
        words = text_of(node)
        text = ast.Constant(words)
        if kind == "count":
            return self._noted(node, "the number of samples", call(name("COUNT"), name("BATCH")))
        if kind == "sum":
            made = call(name("SUM" if "loss" in words.lower() else "HITS"), text, name("BATCH"))
            return self._noted(node, "a sum over the samples", self._as_given(node, made))
        if kind == "mean":
            return self._noted(
                node, "a mean over the samples", self._as_given(node, call(name("MEAN"), text, name("BATCH")))
            )
        if kind in ("sample", "output", "samples") and sample:
            return self._noted(node, "a number for the sample", call(name("OF"), text, name("SAMPLE")))
        if kind in ("samples", "output", "examples"):
            rows = call(name("ROWS"), text, name("BATCH"))
            return self._noted(node, "a number for each sample", self._as_given(node, rows))
        if self.loose and not sample:
            taken = "taken for a mean over the samples"
            return self._noted(node, taken, self._as_given(node, call(name("MEAN"), text, name("BATCH"))))
        raise self.stop(f"`{text_of(node)}` is not seen to be a sum, a mean or a value of samples", node)

    def _noted(self, node: ast.expr, what: str, made: ast.expr) -> ast.expr:
        self.stand_ins[text_of(node)] = what
        return made

    def _as_given(self, node: ast.expr, made: ast.expr) -> ast.expr:
        """A number or list where the expression gives one, else a tensor or array of it."""
        type_ = self._type(node)
        return made if not type_ else call(name(type_), made)

    def _type(self, node: ast.expr, depth: int = 0) -> str:
        if isinstance(node, (ast.List, ast.ListComp)):
            return ""
        if isinstance(node, ast.Call):
            function = last_name(node.func)
            if function in ("numpy", "asarray", "array"):
                return "ARRAY"
            return "" if function in _NUMBERS and not self._torch_sum(node) else "TENSOR"
        if isinstance(node, ast.Subscript) and "shape" in ast.unparse(node.value):
            return ""
        if isinstance(node, ast.Name) and depth < 4:
            found = [d for d in self.module.bindings.reaching(node) if d.node in self.inside and d.value is not None]
            types = {
                self._type(d.value, depth + 1) for d in found if d.kind == "assign" and d.index is None and d.value
            }
            return types.pop() if len(types) == 1 else "TENSOR"
        return "TENSOR"

    def _torch_sum(self, node: ast.Call) -> bool:
        """``(a == b).sum()``, which is a tensor, not Python's ``sum``."""
        return isinstance(node.func, ast.Attribute) and node.func.attr == "sum"

    def stop(self, reason: str, node: ast.AST) -> Stop:
        return Stop(reason, self.module.home(node).location(node))


def _is_named(node: ast.AST) -> bool:
    return isinstance(node, (ast.Name, ast.Attribute))


def text_of_statement(statement: ast.stmt) -> str:
    """A statement in one short line."""
    text = " ".join(ast.unparse(statement).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


__all__ = ["Evaluated", "evaluated"]
