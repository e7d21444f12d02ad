"""What an evaluation makes of gathered values behind its loop, as statements that can be run."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field

from shardfix.analysis.code.bindings import parameters
from shardfix.analysis.code.names import last_name
from shardfix.analysis.loops.accumulation import root_of
from shardfix.analysis.loops.evaluation import find_reduction, is_reduction
from shardfix.analysis.metrics.values import Values
from shardfix.analysis.programs.processes import is_main_test, is_not_main_test
from shardfix.proof.metrics.apart import makes_a_value, only_keeps, speaks
from shardfix.proof.metrics.branches import held_before
from shardfix.proof.metrics.closed import strange
from shardfix.proof.metrics.collectives import collective, is_collective, only_waits
from shardfix.proof.metrics.expressions import METHODS, Outside
from shardfix.proof.metrics.known import COLLECTIVE, Known
from shardfix.proof.recipes.choices import text_of
from shardfix.proof.recipes.regime import call, name, value_of
from shardfix.proof.recipes.slice import assign
from shardfix.proof.stop import Stop

_CHANGES = frozenset({"append", "extend", "add", "update", "insert", "pop", "sort", "remove", "setdefault", "reverse"})


@dataclass
class Afterwards:
    """Translates the statements behind a loop.

    Attributes:
        stands: whether the code is judged as it stands: then what one rank shows is that rank's.
        kept: the texts of the values that are kept, and whether each goes by the number of batches.
        on_first: the numbers of those among them that the first rank alone has.
        guarded: whether the statements stand under a condition that lets the first rank in alone.
    """

    known: Known
    outside: Outside
    values: Values
    stands: bool = False
    kept: list[tuple[str, bool]] = field(default_factory=list)
    on_first: set[int] = field(default_factory=set)
    unchanged: set[str] = field(default_factory=set)
    guarded: bool = False

    def keep(self, text: str, value: ast.expr, weighted: bool, on_first: bool = False) -> list[ast.stmt]:
        """Keep a value to be compared, once for what it is."""
        if text in self.unchanged or text in self.known.by_batch:
            return []
        self.unchanged.add(text)
        number = len(self.kept)
        self.kept.append((text, weighted))
        if self.guarded or on_first:
            self.on_first.add(number)
        key = ast.Subscript(name("VALUES"), ast.Constant(f"#{number}"), ast.Store())
        return [ast.Assign([key], value, lineno=0)]

    # -- statements ------------------------------------------------------------------------------------------

    def statement(self, s: ast.stmt) -> list[ast.stmt]:
        """A statement behind the loop: what it makes of what was gathered, and what of it is shown.

        Raises:
            Stop: it puts the ranks' parts together in a way that is not followed.
        """
        for node in ast.walk(s):
            waits = isinstance(s, ast.Expr) and s.value is node
            if not isinstance(node, ast.Call) or not self._reduces(node) or self._is_run(node):
                continue
            if not (waits and self._reaches_nothing(node)):
                raise self.known.stop(f"the program's own `{text_of(node.func)}` is not followed", node)
        known = self.known
        before = dict(known.tracked), list(self.kept), set(self.unchanged), set(known.weighted), set(known.of_first)
        on_first, guarded = set(self.on_first), self.guarded
        try:
            return self._followed(s)
        except Stop:
            calls = [n for n in ast.walk(s) if isinstance(n, ast.Call)]
            if any(last_name(n.func) in COLLECTIVE or is_collective(self.known.module, n) for n in calls):
                raise
            known.tracked, self.kept, self.unchanged, known.weighted, known.of_first = before
            self.on_first, self.guarded = on_first, guarded
            return self._as_one(s)

    def _reduces(self, node: ast.Call) -> bool:
        """Whether a call, not one of those that were added, combines values across ranks."""
        if last_name(node.func) in COLLECTIVE or ast.unparse(node) in self.known.tracked:
            return False
        if isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) in self.known.meters:
            return False  # its method is known
        if (
            isinstance(node.func, ast.Attribute)
            and self.known.follows(node.func.value)
            and self._may_reduce(node.func.attr)
        ):
            return True
        inner = self.known.module.called_function(node)
        return is_reduction(self.known.module, node) or (
            inner is not None and find_reduction(self.known.module.home(inner), inner) is not None
        )

    def _reaches_nothing(self, node: ast.Call) -> bool:
        """Whether a function, whose result nobody takes, can't come by anything that was gathered: it waits."""
        inner = self.known.module.called_function(node)
        if not isinstance(node.func, ast.Name) or not isinstance(inner, ast.FunctionDef) or self.known.follows(node):
            return False
        roots = {text.partition(".")[0].partition("[")[0] for text in self.known.tracked}
        reached = {n.id for part in (node, inner) for n in ast.walk(part) if isinstance(n, ast.Name)}
        own = {a.arg for a in parameters(inner)}
        return not roots & (reached - own | {n.id for n in ast.walk(node) if isinstance(n, ast.Name)})

    def _may_reduce(self, method: str) -> bool:
        """Whether a class of the project has a method of this name that combines values across ranks."""
        return method not in METHODS and any(
            f.name == method and m.class_of(f) is not None and find_reduction(m, f) is not None
            for m in self.known.module.fellows
            for f in m.functions
        )

    def _is_run(self, node: ast.Call) -> bool:
        """Whether a call that combines values across ranks is run as it is written."""
        return is_collective(self.known.module, node) or self.outside.runs(node)

    def _as_one(self, s: ast.stmt) -> list[ast.stmt]:
        """A statement that is not run: what it reads of the gathered values decides all that it writes."""
        if not self.known.follows(s):
            return []
        nodes = list(ast.walk(s))
        targets = [n for n in nodes if isinstance(n, (ast.Name, ast.Attribute, ast.Subscript))]
        written = {root_of(n) for n in targets if isinstance(n.ctx, ast.Store)}
        written |= {
            root_of(n.func.value)
            for n in nodes
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr in _CHANGES
        }
        made_of = self.outside.made_of(s)
        other = speaks(self.known.module, s)
        if other is not None:
            self.known.resting[made_of] = (
                f"`{' '.join(ast.unparse(other).split())}` makes nothing of other ranks' values"
            )
        alone = {n.value for n in nodes if isinstance(n, ast.Expr)}  # whose results nobody takes
        for inner in (n for n in nodes if isinstance(n, ast.Call) and n not in alone and other is None):
            if not makes_a_value(self.known.module, inner):
                why = strange(self.known.module, inner)
                because = f", though what {why} may do is not known" if why else ""
                words = f"`{text_of(inner)}` makes nothing of other ranks' values"
                self.known.resting[made_of] = f"{words}{because}"
                break
        drifts = self.known.drifts(s)
        made: list[ast.stmt] = []
        for text in sorted(w for w in written if w and w not in self.known.meters):
            made.append(assign(self.known.track(text), made_of))
            self._given(text, s)
            (self.known.weighted.add if drifts else self.known.weighted.discard)(text)
        return made

    def _followed(self, s: ast.stmt) -> list[ast.stmt]:
        if isinstance(s, ast.Return):
            return self._shown([s.value]) if s.value is not None else []
        if isinstance(s, (ast.Assign, ast.AnnAssign)) and s.value is not None:
            targets = s.targets if isinstance(s, ast.Assign) else [s.target]
            self._changed(targets)
            return self._assigned(targets, s.value)
        if isinstance(s, ast.AugAssign):
            self._changed([s.target])
            if ast.unparse(s.target) in self.known.tracked and not isinstance(s.target, ast.Subscript):
                target = ast.Name(self.known.tracked[ast.unparse(s.target)], ast.Store())
                if self.known.drifts(s.value):
                    self.known.weighted.add(ast.unparse(s.target))
                if self.guarded or self.known.is_of_first(s.value):
                    self.known.of_first.add(ast.unparse(s.target))
                return [ast.AugAssign(target, s.op, self.outside.value(s.value))]
            return self._shown([s.value])
        if isinstance(s, ast.Expr):
            return self._called(s.value)
        if isinstance(s, ast.If):
            return self._branched(s)
        if isinstance(s, (ast.With, ast.AsyncWith)):
            for item in s.items:
                if self.known.follows(s) and speaks(self.known.module, item.context_expr) is not None:
                    self.known.assumed.append(f"what is done with `{text_of(item.context_expr)}` is one rank's own")
            return [made for inner in s.body for made in self.statement(inner)]
        if isinstance(s, (ast.For, ast.While, ast.Try)):
            raise self.known.stop("what it makes of the gathered values is not followed", s)
        return []

    def _assigned(self, targets: Sequence[ast.expr], value: ast.expr) -> list[ast.stmt]:
        if len(targets) != 1:
            targets = targets[:1] if not self.known.follows(value) else targets
        made: list[ast.stmt] = []
        for target in targets:
            if isinstance(target, (ast.Tuple, ast.List)):
                made += self._unpacked(target, value)
            elif isinstance(target, (ast.Name, ast.Attribute)):
                text = ast.unparse(target)
                base = ast.unparse(target.value) if isinstance(target, ast.Attribute) else ""
                if base in self.known.meters:
                    attribute = ast.Attribute(name(self.known.tracked[base]), target.attr, ast.Store())  # type: ignore[union-attr]
                    made.append(ast.Assign([attribute], self.outside.value(value), lineno=0))
                elif self.known.follows(value):
                    translated = self.outside.value(value)
                    self._drifting(text, value)
                    self._given(text, value)
                    made.append(assign(self.known.track(text), translated))
                    if isinstance(target, ast.Attribute):  # which outlives the function
                        kept = name(self.known.tracked[text])
                        made += self.keep(text, kept, self.known.drifts(value), self.known.is_of_first(value))
                elif text in self.known.tracked:
                    del self.known.tracked[text]  # something else from here on
            elif self.known.follows(value):
                self._kept_in(target)
                made += self._shown([value])
        return made

    def _kept_in(self, target: ast.expr) -> None:
        """An item of a list or dict is set; of anything else, or by the rank, nobody knows what becomes of it."""
        base = target.value if isinstance(target, ast.Subscript) else target
        if speaks(self.known.module, target) is not None or self.known.module.instances(base):
            self.known.assumed.append(f"`{text_of(target)} = ..` makes nothing of other ranks' values")

    def _changed(self, targets: Sequence[ast.expr]) -> None:
        """What is kept already and mentions these is to be kept anew."""
        written = {ast.unparse(n) for t in targets for n in ast.walk(t) if isinstance(n, (ast.Name, ast.Attribute))}
        self.unchanged = {text for text in self.unchanged if not any(w in text for w in written)}

    def _given(self, text: str, value: ast.AST) -> None:
        """Note whether the first rank alone has what a name is given."""
        first = self.guarded or self.known.is_of_first(value)
        (self.known.of_first.add if first else self.known.of_first.discard)(text)

    def _drifting(self, text: str, value: ast.expr) -> None:
        (self.known.weighted.add if self.known.drifts(value) else self.known.weighted.discard)(text)

    def _is_collective(self, value: ast.expr) -> bool:
        return isinstance(value, ast.Call) and last_name(value.func) in COLLECTIVE

    def _unpacked(self, target: ast.Tuple | ast.List, value: ast.expr) -> list[ast.stmt]:
        if not self.known.follows(value):
            return []
        translated = self.outside.value(value)
        names: list[ast.expr] = []
        for element in target.elts:
            text = ast.unparse(element)
            base = ast.unparse(element.value) if isinstance(element, ast.Attribute) else ""
            if base in self.known.meters and isinstance(element, ast.Attribute):
                names.append(ast.Attribute(name(self.known.tracked[base]), element.attr, ast.Store()))
            elif isinstance(element, (ast.Name, ast.Attribute)):
                if not self._is_collective(value):
                    self._drifting(text, value)
                    self._given(text, value)
                names.append(ast.Name(self.known.track(text), ast.Store()))
            else:
                raise self.known.stop("what it makes of the gathered values is not followed", target)
        if isinstance(translated, ast.Call) and last_name(translated.func) == "CALL":
            return [
                ast.Assign([each], call(name("CALL"), ast.Constant(f"item {n}"), translated), lineno=0)
                for n, each in enumerate(names)
            ]
        return [ast.Assign([ast.Tuple(names, ast.Store())], translated, lineno=0)]

    def _called(self, node: ast.expr) -> list[ast.stmt]:
        """A call whose result nobody takes: it prints, logs or writes what is kept here."""
        if not isinstance(node, ast.Call):
            return []
        if ast.unparse(node) in self.known.tracked:
            return []  # the evaluation itself, whose result nobody takes here
        receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
        text = ast.unparse(receiver) if receiver is not None else ""
        if only_waits(self.known.module, node):
            return []
        given = [*node.args, *(k.value for k in node.keywords)]
        if is_collective(self.known.module, node) and any(map(self.known.follows, given)):
            return [*self._filled(node), ast.Expr(collective(self.known, node, self.outside.value))]
        if (
            text in self.known.meters
            and text not in self.known.classes
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == self.known.meters[text].method
        ):
            self.known.stand_ins[text_of(node)] = "sums the meter over the ranks"
            return [
                ast.Expr(call(ast.Attribute(name(self.known.tracked[text]), "REDUCE", ast.Load()), name("reduced"))),
            ]
        own = METHODS | self.known.classes.get(text, frozenset())
        if text in self.known.tracked and isinstance(node.func, ast.Attribute) and node.func.attr in own:
            return [ast.Expr(self.outside.value(node))]
        if self.known.follows(node) and self.outside.runs(node):
            return [ast.Expr(self.outside.value(node)), *self._shown(given)]
        if self.known.follows(node) and not only_keeps(self.values, node):
            self.known.assumed.append(f"`{text_of(node)}` changes nothing of what it is given")
        return self._shown(given)

    def _filled(self, node: ast.Call) -> list[ast.stmt]:
        """The lists that a collective fills, as they begin."""
        made: list[ast.stmt] = []
        for a in node.args:
            if not isinstance(a, ast.Name) or self.known.follows(a):
                continue
            found = list(self.known.module.bindings.reaching(a))
            if len(found) == 1 and found[0].kind == "assign" and found[0].value is not None and found[0].index is None:
                made.append(assign(self.known.track(a.id), self.outside.value(found[0].value)))
        return made

    def _shown(self, nodes: Sequence[ast.expr]) -> list[ast.stmt]:
        """Keep the values that are returned or shown."""
        made: list[ast.stmt] = []
        for node in nodes:
            for part in _parts(node):
                if self.known.follows(part) and not (isinstance(part, ast.Name) and part.id in self.known.loaders):
                    first = self.known.is_of_first(part)
                    made += self.keep(text_of(part), self.outside.value(part), self.known.drifts(part), first)
        return made

    def _branched(self, s: ast.If) -> list[ast.stmt]:
        if is_main_test(s.test) or is_not_main_test(s.test):
            first, others = (s.body, s.orelse) if is_main_test(s.test) else (s.orelse, s.body)
            if not self.stands and others and all(map(_is_nothing, others)) and not any(map(self._binds, first)):
                # what was rewritten leaves the others with nothing for a result, as they had before
                return [made for b in first for made in self.statement(b)]
            # what one rank shows is what all have: the guard decides only who says it
            if self.stands or any(self._binds(b) for b in (*s.body, *s.orelse)):
                return self._on_first(s)
            return [made for b in (*s.body, *s.orelse) for made in self.statement(b)]
        if not self.known.follows(s) and not self._binds(s):
            return []
        before = dict(self.known.tracked)
        launch = value_of(self.known.module, s.test)
        test = launch if launch is not None else self.outside.value(s.test)
        body = [made for b in s.body for made in self.statement(b)]
        orelse = [made for b in s.orelse for made in self.statement(b)]
        after = {**self.known.tracked, **before}
        self.known.tracked = before
        held = held_before(self.known, self.outside, s, after, [body, orelse])
        self.known.tracked = after
        return [*held, ast.If(test, body or [ast.Pass()], orelse)]

    def _on_first(self, s: ast.If) -> list[ast.stmt]:
        """What the first rank alone does, and what the others do instead."""
        if any(self._binds(b) for b in (*s.body, *s.orelse)) and self.stands:
            raise self.known.stop("one rank alone makes something of the gathered values", s)
        first, others = (s.body, s.orelse) if is_main_test(s.test) else (s.orelse, s.body)
        before, guarded = dict(self.known.tracked), self.guarded
        self.guarded = not self.stands or guarded
        on_first = [made for b in first for made in self.statement(b)]
        elsewhere = [made for b in others for made in self.statement(b)]
        self.guarded, after = guarded, {**self.known.tracked, **before}
        self.known.tracked = before
        held = held_before(self.known, self.outside, s, after, [on_first, elsewhere])
        self.known.tracked = after
        is_first = ast.Compare(name("RANK"), [ast.Eq()], [ast.Constant(0)])
        return [*held, ast.If(is_first, on_first or [ast.Pass()], elsewhere)]

    def _binds(self, s: ast.AST) -> bool:
        """Whether a statement gives a gathered value, or what follows from it, a new value."""
        targets = {
            ast.unparse(n)
            for n in ast.walk(s)
            if isinstance(n, (ast.Name, ast.Attribute)) and isinstance(n.ctx, ast.Store)
        }
        return bool(targets & set(self.known.tracked))


def _is_nothing(s: ast.stmt) -> bool:
    """Whether a statement gives names a constant: ``acc = None``."""
    return isinstance(s, ast.Pass) or (isinstance(s, ast.Assign) and isinstance(s.value, ast.Constant))


def _parts(node: ast.expr) -> list[ast.expr]:
    """The values of a tuple, a dict or a formatted text, each by itself; else the expression."""
    if isinstance(node, (ast.Tuple, ast.List)):
        return [part for element in node.elts for part in _parts(element)]
    if isinstance(node, ast.Dict):
        return [part for value in node.values for part in _parts(value)]
    if isinstance(node, ast.JoinedStr):
        return [part for v in node.values if isinstance(v, ast.FormattedValue) for part in _parts(v.value)]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return [part for a in node.args for part in _parts(a)] + [p for k in node.keywords for p in _parts(k.value)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant):
        return _parts(node.right)  # "%.3f" % value
    return [node]


__all__ = ["Afterwards"]
