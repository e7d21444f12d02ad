"""Divide statements into what all ranks must do and what one process goes on doing alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NoReturn

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of, first_name
from shardfix.analysis.loops.effects import HERE, Effect, answered, effects, listing, unseen
from shardfix.analysis.programs.processes import every_guard

_MODES = frozenset({"train", "eval", "to", "cuda", "cpu", "half", "float", "requires_grad_"})
# Names of what is not a model or a part of one.
PLAIN = re.compile(
    r"^(args?|cfg|config|opts?|params|hparams|epoch|step|global_step|it|i|n|rank|local_rank|device|writer|tb|logger|log|"
    r"criterion|loss_fn|loss|tokenizer|prefix|path|metrics?|results?|self|best|np|torch|dist|os)$|loader|dataset|_set$|dir$|"
    r"writer|logger|history|meter",
    re.IGNORECASE,
)
_Functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_Compound = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try)


class Closed(Exception):
    """The ranks can't all be let in: the place that stands in the way, and why."""

    def __init__(self, node: ast.AST, why: str) -> None:
        super().__init__(why)
        self.node, self.why = node, why


def close(node: ast.AST, why: str) -> NoReturn:
    """Raise ``Closed``."""
    raise Closed(node, why)


@dataclass(eq=False)
class Divided:
    """Statements of some blocks, each of one kind.

    Args:
        targets: the loops and calls that all ranks must come to.
        within: functions that are divided themselves.
        blocks: every block whose statements are told apart.
        shared: what all ranks do; of an opened compound statement that is its head.
        opened: compound statements whose inner blocks are told apart as well.
        wrapped: calls among the targets in statements that show or write their result, which one process does alone.
        loading: statements of all ranks that load from files, each with what it loads.
    """

    module: Module
    targets: frozenset[ast.AST]
    within: frozenset[ast.AST]
    blocks: list[list[ast.stmt]] = field(default_factory=list)
    shared: set[ast.stmt] = field(default_factory=set)
    opened: set[ast.stmt] = field(default_factory=set)
    wrapped: list[tuple[ast.Call, ast.stmt]] = field(default_factory=list)
    loading: list[tuple[ast.stmt, Effect]] = field(default_factory=list)

    own: set[ast.stmt] = field(default_factory=set)  # statements of all ranks by which one process alone gets a value
    results: dict[ast.Return, ast.stmt] = field(default_factory=dict)  # of one process, with what makes each
    waited: list[ast.stmt] = field(default_factory=list)  # statements of all ranks that wait for what one writes

    # -- asked for afterwards --------------------------------------------------------------------------------

    def kept(self) -> Iterator[tuple[ast.stmt, ast.stmt]]:
        """The runs of statements that one process goes on doing alone: the first and the last of each."""
        alone = {statement for _, statement in self.wrapped}
        for block in self.blocks:
            run: list[ast.stmt] = []
            for s in block:
                if run and s in alone:  # what it shows is worked out by all ranks before it
                    yield run[0], run[-1]
                    run = []
                if s in self.shared and s not in alone:
                    if run:
                        yield run[0], run[-1]
                    run = []
                else:
                    run.append(s)
            if run:
                yield run[0], run[-1]

    def alone(self) -> Iterator[ast.stmt]:
        """The statements that one process goes on doing alone."""
        yield from (s for block in self.blocks for s in block if s not in self.shared)

    def parts(self) -> Iterator[ast.AST]:
        """What all ranks do: whole statements, and of opened ones what stands in their heads."""
        calls = {statement: call for call, statement in self.wrapped}
        for s in self.shared:
            yield from heads(s) if s in self.opened else (calls.get(s, s),)

    def unit_of(self, node: ast.AST) -> ast.stmt | None:
        """The innermost statement that is told apart and that a node belongs to; None for one outside."""
        units = {s for block in self.blocks for s in block}
        return next((n for n in (node, *self.module.around(node)) if n in units and isinstance(n, ast.stmt)), None)

    def begins_to_load(self) -> ast.stmt | None:
        """The first statement of the whole in which all ranks load or look for files; None where they load none."""
        loads: set[ast.AST] = {s for s, _ in self.loading if s in self.shared}
        looks = (
            {s for part in self.parts() for s in [self.module.statement(c) for c in listing(part)]} if loads else set()
        )
        return next((s for s in self.blocks[0] if any(n in loads or n in looks for n in ast.walk(s))), None)

    def listed(self) -> Iterator[ast.expr]:
        """The lists of files that all ranks make, each in the same order, once they wait for what is written."""
        for part in self.parts() if self.begins_to_load() is not None else ():
            for call in listing(part):
                outer = self.module.parents.get(call)
                if isinstance(outer, ast.Call) and isinstance(outer.func, ast.Name) and outer.func.id == "sorted":
                    yield call

    def waits_for(self, reader: ast.AST, other: Divided, writer: ast.stmt) -> bool:
        """Whether what reads stands behind a wait, and what writes in front of it."""
        begins = self.begins_to_load()
        if begins is None or self.module.scope(writer) is not self.module.scope(begins):
            return False
        return other.module is self.module and writer.lineno < begins.lineno <= getattr(reader, "lineno", 0)

    def goes_first(self, s: ast.AST) -> bool:
        """Whether the main process does a statement before the others, which wait for it."""
        return any(known is s and e.raced for known, e in self.loading)

    def in_loop(self, s: ast.AST) -> bool:
        """Whether a statement stands in a loop over batches."""
        return any(n in self.targets for n in self.module.around(s) if isinstance(n, ast.For))

    # -- one process did all: the fewest statements are taken out --------------------------------------------

    def take_out(self, block: Sequence[ast.stmt]) -> None:
        """Tell the statements of a block apart that one process alone did: what the targets need is all ranks'.

        Raises:
            Closed: what they need is one process's to do, or what is left can't be left alone.
        """
        self._open(list(block))
        units = [s for b in self.blocks for s in b]
        last = max(getattr(t, "end_lineno", 0) or 0 for t in self.targets)
        while True:
            before = len(self.shared)
            loads = [n for part in self.parts() for n in _loads(part)]
            for n in loads:
                for d in self.module.bindings.reaching(n):
                    unit = self.unit_of(d.statement)
                    if unit is not None:
                        self.shared.add(unit)
            roots = {first_name(n) for n in loads} - {""}
            for s in units:
                if s not in self.shared and self._prepares_in(s, roots, behind=s.lineno > last):
                    self.shared.add(s)
            if len(self.shared) == before:
                break
        for s in units:
            if s not in self.shared:
                self._left_alone(s)
            elif s in self.opened:
                self._head(s)
            elif not any(s is w for _, w in self.wrapped):
                self._needed(s)

    def _open(self, block: list[ast.stmt]) -> None:
        self.blocks.append(block)
        for s in block:
            if isinstance(s, ast.Return) or self._holds_target(s):
                self.shared.add(s)
            if self._shows_around(s):
                continue
            if self._holds_target(s) and isinstance(s, _Compound) and s not in self.targets:
                self.opened.add(s)
                for suite in suites(s):
                    self._open(suite)
            elif s in self.targets and isinstance(s, (ast.For, ast.AsyncFor)):
                self.opened.add(s)
                self.keep(s.body)

    def _prepares_in(self, s: ast.stmt, roots: set[str], *, behind: bool) -> bool:
        """Whether a statement, or one inside of it, readies what the targets read: ``if args.fp16: model.half()``."""
        inner = [n for n in ast.walk(s) if isinstance(n, ast.stmt)] if isinstance(s, _Compound) else [s]
        return any(self._prepares(n, roots, behind=behind) for n in inner)

    def _prepares(self, s: ast.stmt, roots: set[str], *, behind: bool) -> bool:
        """Whether a statement readies what the targets read, or sets it back: ``model.eval()``, ``ema.restore(m)``."""
        targets = s.targets if isinstance(s, ast.Assign) else [s.target] if isinstance(s, ast.AugAssign) else []
        if any(isinstance(t, (ast.Attribute, ast.Subscript)) and first_name(t) in roots for t in targets):
            return not behind
        call = s.value if isinstance(s, ast.Expr) else None
        if not isinstance(call, ast.Call):
            return False
        receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if method in ("train", "eval") and all(isinstance(a, ast.Constant) for a in arguments_of(call)):
            return True  # of whatever model: the one that is evaluated may be a part of it
        own = receiver is not None and first_name(receiver) in roots
        given = any(
            first_name(n) in roots and not PLAIN.search(first_name(n))
            for a in arguments_of(call)
            for n in ast.walk(a)
            if isinstance(n, ast.Name)
        )
        if not (own or given):
            return False
        found = self._but_loads(s)
        if any(e.kind in ("loads", "learns", "waits") for e in found):
            close(s, f"`{_short(call)}` {found[0].words}, which only the main process does now")
        if found:
            return False
        if (own and (not behind or method in _MODES)) or self.module.called_functions(call, passed=False):
            return True
        if own and PLAIN.search(first_name(receiver) if receiver is not None else ""):
            return False
        close(s, f"whether `{_short(call)}` changes what is evaluated is not seen, and only the main process does it")

    def _needed(self, s: ast.stmt) -> None:
        """A statement that all ranks are to do gives a value and no more, but for lines that it logs further down."""
        found = [e for e in self._but_loads(s) if not (e.deep and e.kind == "logs")]
        if not found:
            return
        shown = all(e.kind in ("shows", "logs", "writes") for e in found)
        if shown and isinstance(s, _Compound) and not any(effects(self.module, h, self.within) for h in heads(s)):
            self._inner(s)
            return
        calls = [t for t in self.targets if isinstance(t, ast.Call) and self.module.statement(t) is s]
        if calls and all(e.kind in ("shows", "logs", "writes") for e in found):
            self._wrap(s, calls, found)
            return
        close(found[0].node, f"the evaluation needs `{_short(found[0].node)}`, which {found[0].words}")

    def _but_loads(self, s: ast.stmt) -> list[Effect]:
        """What a statement of all ranks does, but for what it loads from files: that is noted."""
        found = effects(self.module, s, self.within)
        for e in found:
            if e.of_files and not any(s is known and e.node is seen.node for known, seen in self.loading):
                self.loading.append((s, e))
        return [e for e in found if not e.of_files and not self._in_turns(e)]

    def _in_turns(self, e: Effect) -> bool:
        """Whether it is one of two waits by which ranks go one behind the other, and all come to both."""
        if e.kind != "waits" or not e.deep or every_guard(self.module, e.through, HERE)[0] is not None:
            return False
        home = self.module.home(e.node)
        return home.function(e.node) in self.module.called_functions(e.through) and answered(home, e.node)

    def _left_alone(self, s: ast.stmt) -> None:
        """A statement that one process goes on doing leads nobody elsewhere, and waits for nobody."""
        left = leaving(s)
        if left is not None:
            word = type(left).__name__.lower() if not isinstance(left, ast.Call) else "exit"
            close(left, f"`{word}` is decided on one rank only, and the others go on")
        for e in effects(self.module, s, self.within):
            if e.kind == "learns":
                close(e.node, f"only the main process calls `{_short(e.node)}`, so that the ranks' models drift apart")
            if e.kind == "waits":
                close(e.node, f"only the main process comes to `{_short(e.node)}`, which another one elsewhere answers")

    # -- all ranks come: what shows or writes is kept for one ------------------------------------------------

    def keep(self, block: Sequence[ast.stmt]) -> bool:
        """Tell the statements of a block apart that all ranks come to: what shows, logs or writes is one process's.

        Raises:
            Closed: a rank waits for others, loads or learns, or others need what one process alone makes.
        """
        own = list(block)
        self.blocks.append(own)
        kept = [self._keep(s) for s in own]
        return all(kept)

    def _keep(self, s: ast.stmt) -> bool:
        """Whether one process alone does a statement."""
        self.shared.add(s)
        if isinstance(s, _Functions):
            return False
        holds = self._holds_target(s)
        if holds and self._shows_around(s):
            return False
        if holds and (isinstance(s, _Compound) or s in self.targets):
            self._head(s)
            self._inner(s)
            return False
        found = self._but_loads(s)
        bad = next((e for e in found if e.kind in ("waits", "loads", "learns")), None)
        if bad is not None:
            close(bad.node, f"`{_short(bad.node)}` {bad.words}, and only the main process comes to it now")
        if not found and not holds and not self.in_loop(s):
            self._seen(s)
        if not isinstance(s, ast.Expr):
            found = [e for e in found if not (e.deep and e.kind == "logs")]  # its value may be needed
        if not found:
            return False
        if holds:
            calls = [t for t in self.targets if isinstance(t, ast.Call) and self.module.statement(t) is s]
            self._wrap(s, calls, found)
            return False
        if isinstance(s, _Compound) and not any(effects(self.module, h, self.within) for h in heads(s)):
            outside, mine = len(self.blocks), self._inner(s)
            if not mine or leaving(s) is not None or isinstance(s, ast.Try) or self._is_elif(s):
                return False
            del self.blocks[outside:]  # kept as a whole
            self.opened.discard(s)
            self.shared -= {n for n in ast.walk(s) if isinstance(n, ast.stmt)}
            return True
        if isinstance(s, ast.Return) or leaving(s) is not None:
            close(found[0].node, f"`{_short(found[0].node)}` {found[0].words} where the function is left")
        self.shared.discard(s)
        return True

    def _seen(self, s: ast.stmt) -> None:
        """What a statement does that all ranks will do is known, where it is no value."""
        for n in ast.walk(s):
            if isinstance(n, ast.Expr) and isinstance(n.value, ast.Call) and unseen(self.module, n.value):
                close(n, f"what `{_short(n.value)}` does is not seen, and all ranks would do it from now on")

    def _inner(self, s: ast.stmt) -> bool:
        self.opened.add(s)
        kept = [self.keep(suite) for suite in suites(s)]
        return all(kept)

    def untangle(self) -> None:
        """Each run of statements that comes under a condition has lines of its own.

        Raises:
            Closed: two statements share a line.
        """
        for block in self.blocks:
            for before, behind in pairwise(block):
                if before.end_lineno == behind.lineno and not {before, behind} <= self.shared:
                    close(behind, "it shares its line with another statement")
            first = block[0]
            start = self.module.source.span(first).start
            before_it = self.module.text[max(self.module.text.rfind(end, 0, start) for end in "\r\n") + 1 : start]
            if before_it.strip() and not set(block) <= self.shared and not self._lifted_whole(first):
                close(first, "it stands on the line of its condition")

    def _lifted_whole(self, s: ast.stmt) -> bool:
        """Whether all that stands on the line of a condition is a statement that shows a call's result."""
        return any(s is w for _, w in self.wrapped)

    def settle(self) -> None:
        """Let one process alone do as well what reads what it alone makes.

        Raises:
            Closed: others need it.
        """
        while True:
            before = len(self.shared)
            for d in self._made_alone():
                for reader in self.module.bindings.readers(d):
                    unit = self.unit_of(reader)
                    if unit is None or unit not in self.shared:
                        continue
                    if isinstance(unit, ast.Return) and self._results_in(unit, d):
                        assert isinstance(d.statement, ast.Assign)
                        self.results.setdefault(unit, d.statement)
                        continue
                    simple = unit not in self.opened and not isinstance(unit, (ast.Return, *_Functions))
                    if not simple or self._holds_target(unit) or leaving(unit) is not None:
                        close(unit, f"`{d.key}` is made by what one process alone is to do, and is needed by all")
                    self.shared.discard(unit)
            if len(self.shared) == before:
                return

    def _made_alone(self) -> list[Definition]:
        found: list[Definition] = []
        for d in self.module.bindings.definitions:
            unit = self.unit_of(d.statement) if d.kind not in ("parameter", "function", "class") else None
            if unit is not None and (unit not in self.shared or unit in self.own):
                found.append(d)
        return found

    def _results_in(self, leaving: ast.Return, d: Definition) -> bool:
        """Whether a function ends with what one process alone has made right there: the others return None."""
        block = self.module.block(leaving)
        plain = isinstance(leaving.value, ast.Name) and leaving.value.id == d.key and block == self.blocks[0]
        one = len(self.module.bindings.reaching(leaving.value)) == 1 if leaving.value is not None else False
        return plain and one and d.statement in block and isinstance(d.statement, ast.Assign)

    # -- both ------------------------------------------------------------------------------------------------

    def _head(self, s: ast.stmt) -> None:
        for head in heads(s):
            for e in effects(self.module, head, self.within):
                close(e.node, f"`{_short(e.node)}` around the evaluation {e.words}")

    def _shows_around(self, s: ast.stmt) -> bool:
        """Whether a ``with`` that opens what is written to stands around a call; noted like one in a statement."""
        calls = [t for t in self.targets if any(t is n for n in ast.walk(s))]
        found = [e for h in heads(s) for e in effects(self.module, h, self.within)] if isinstance(s, ast.With) else []
        if not found or not all(isinstance(c, ast.Call) for c in calls):
            return False
        if any(e.kind not in ("shows", "logs", "writes") for e in effects(self.module, s, self.within)):
            return False
        bound = {n.id for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        inside = {n.id for c in calls for n in ast.walk(c) if isinstance(n, ast.Name)}
        if len(calls) != 1 or bound & inside or leaving(s) is not None:
            return False
        self._wrap(s, [c for c in calls if isinstance(c, ast.Call)], found)
        return True

    def _wrap(self, s: ast.stmt, calls: Sequence[ast.Call], found: Sequence[Effect]) -> None:
        """Note a call whose result is shown or written in the same statement."""
        for call in calls:
            between: list[ast.AST] = []
            for outer in self.module.around(call):
                if outer is s:
                    break
                between.append(outer)
            unsure = (ast.Lambda, ast.IfExp, ast.BoolOp, ast.comprehension, ast.If, ast.For, ast.While, ast.Try)
            if any(isinstance(n, unsure) for n in between):
                close(s, "the evaluation stands inside of an expression that need not run it")
            around = isinstance(s, ast.With) or any(e.through in between for e in found)
            if not isinstance(s, (ast.Expr, ast.Assign, ast.With)) or not around:
                close(found[0].node, f"`{_short(found[0].node)}` {found[0].words} beside the evaluation")
        if len(calls) != 1 or isinstance(s, ast.Assign):
            close(s, "the evaluation is one of several things that its statement does")
        self.wrapped.append((calls[0], s))

    def _holds_target(self, s: ast.AST) -> bool:
        return any(n in self.targets for n in ast.walk(s))

    def _is_elif(self, s: ast.stmt) -> bool:
        return self.module.source.source(s).startswith("elif")


def suites(s: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The blocks of a compound statement."""
    for name in ("body", "orelse", "finalbody"):
        if suite := getattr(s, name, None):
            yield suite
    for handler in getattr(s, "handlers", ()):
        yield handler.body


def heads(s: ast.stmt) -> list[ast.AST]:
    """The expressions in the head of a compound statement."""
    found = (getattr(s, "test", None), getattr(s, "iter", None), *getattr(s, "items", ()))
    return [n for n in found if isinstance(n, ast.AST)]


def leaving(s: ast.stmt) -> ast.AST | None:
    """What in a statement leads out of it: a ``return``, a ``break`` or ``continue`` of a loop around it, an exit."""
    stack: list[tuple[ast.AST, int]] = [] if isinstance(s, _Functions) else [(s, 0)]
    while stack:
        node, depth = stack.pop()
        if isinstance(node, (ast.Return, ast.Yield, ast.YieldFrom)):
            return node
        if isinstance(node, (ast.Break, ast.Continue)) and not depth:
            return node
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in ("exit", "_exit", "quit"):
                return node
        if isinstance(node, _Functions):
            continue
        inner = depth + isinstance(node, (ast.For, ast.AsyncFor, ast.While))
        stack += [(child, inner) for child in ast.iter_child_nodes(node)]
    return None


def _loads(node: ast.AST) -> Iterable[ast.expr]:
    """The names and attributes that are read; what is added to is read too."""
    for n in ast.walk(node):
        if isinstance(n, (ast.Name, ast.Attribute)) and isinstance(n.ctx, ast.Load):
            yield n
        elif isinstance(n, ast.AugAssign) and isinstance(n.target, (ast.Name, ast.Attribute)):
            yield n.target


def _short(call: ast.Call) -> str:
    return f"{' '.join(ast.unparse(call.func).split())}(..)"


__all__ = ["PLAIN", "Closed", "Divided", "close", "heads", "leaving", "suites"]
