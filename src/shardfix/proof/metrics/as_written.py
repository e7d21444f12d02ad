"""The body of a loop as it is written, to be run on rows."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from shardfix.analysis.code.names import arguments_of
from shardfix.analysis.loops.accumulation import root_of
from shardfix.analysis.loops.epochs import is_enumerated
from shardfix.analysis.metrics.modes import may_train, trains_inside
from shardfix.analysis.metrics.networks import gives_rows
from shardfix.proof.metrics.adding import changed_by
from shardfix.proof.metrics.apart import makes_a_value
from shardfix.proof.metrics.granted import is_given, of_batches, read_behind, timed, within
from shardfix.proof.metrics.literal import Literal
from shardfix.proof.metrics.loop import Loop
from shardfix.proof.metrics.outputs import Outputs
from shardfix.proof.metrics.steady import steady
from shardfix.proof.metrics.told_metrics import told_metrics
from shardfix.proof.metrics.unseen import unseen
from shardfix.proof.recipes.choices import text_of
from shardfix.proof.recipes.regime import call, name
from shardfix.proof.recipes.slice import assign

_FILLS = frozenset({"append", "extend", "update", "add", "setdefault", "insert"})


def as_written(loop: Loop, starts: list[ast.stmt], functions: dict[str, ast.stmt]) -> list[ast.stmt]:
    """The body of the loop, on rows."""
    inner = {n for c in ast.walk(loop.node) if isinstance(c, ast.comprehension) for n in ast.walk(c.target)}
    inside = within(loop.node)
    filled: list[ast.Name] = []
    written = [n for n in ast.walk(loop.node.target) if isinstance(n, ast.Name)]
    written += [n for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n not in inner]
    for n in inside:
        if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) and root_of(n):
            written += [m for m in ast.walk(n.value) if isinstance(m, ast.Name) and m.id == root_of(n)]
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and isinstance(n.func.value, ast.Name):
            if n.func.attr in _FILLS and not loop.module.qualify(n.func.value) & {"torch", "numpy"}:
                filled.append(n.func.value)
    own = {w.name for w in loop.writes}
    times = timed(loop.values, loop.node)
    for text, values in steady(loop, inside).items():  # a stand-in like what else the batches do not decide
        times.add(text)
        loop.known.assumed += [words for value in values for words in unseen(loop.known, value)]
    for text in dict.fromkeys(n.id for n in written if n.id not in own and n.id not in times):
        first = _begun(loop, text, inside)
        if first is not None:
            starts.append(first)
    for text in dict.fromkeys(n.id for n in written):
        if text not in times:
            loop.known.track(text)
    for n in filled:
        found = [d for d in loop.module.bindings.reaching(n) if d.node not in loop.inside]
        plain = len(found) == 1 and found[0].kind == "assign" and found[0].index is None
        if n.id not in loop.known.tracked and plain and isinstance(found[0].value, (ast.List, ast.Dict, ast.Set)):
            starts.append(assign(loop.known.track(n.id), loop.outside.value(found[0].value)))
    batchy = of_batches(loop.module, loop.node)
    behind = read_behind(loop.module, loop.node)
    if may_train(loop.module, loop.node) or trains_inside(loop.module, loop.node) is not None:
        if loop.after.stands:
            loop.known.assumed.append("the model gives a row by its sample alone, though it is not set to evaluation")
        else:
            training = ast.Subscript(name("TRAINING"), ast.Constant(0), ast.Store())
            starts.append(ast.Assign([training], ast.Constant(True), lineno=0))
            loop.known.stand_ins["the model's mode"] = "training, since nothing sets it to evaluation"
    tellers = told_metrics(loop.module, loop.node)
    for text in tellers:
        starts.append(assign(loop.known.track(text), call(name("TELLER"))))
        loop.known.stand_ins[text] = "a metric that all rows decide that it is told of, in whatever order"
    meters = {id(w.statement): w for w in loop.writes if w.meter is not None}

    def known(s: ast.stmt, literal: Literal) -> list[ast.stmt] | None:
        write = meters.get(id(s))
        told = s.value if isinstance(s, ast.Expr) and isinstance(s.value, ast.Call) else None
        if told is not None and isinstance(told.func, ast.Attribute) and ast.unparse(told.func.value) in tellers:
            receiver = name(loop.known.tracked[ast.unparse(told.func.value)])
            keywords = [ast.keyword(k.arg, literal.value(k.value)) for k in told.keywords]
            args = [literal.value(a) for a in told.args]
            return [ast.Expr(ast.Call(ast.Attribute(receiver, "tell", ast.Load()), args, keywords))]
        if write is None:
            by_clock = isinstance(s, ast.Assign) and all(ast.unparse(t) in times for t in s.targets)
            return [] if by_clock else None
        return changed_by(loop, write, literal.value, ast.Name(loop.known.tracked[write.name], ast.Store()))

    models = {ast.unparse(n.func) for n in inside if isinstance(n, ast.Call) and gives_rows(loop.module, n)}

    def untracked(node: ast.Call) -> None:
        changed = [a for a in arguments_of(node) if ast.unparse(a) in models]
        if changed:
            loop.known.assumed.append(f"`{text_of(node)}` does not change `{text_of(changed[0])}`")
        if not is_given(node, batchy):
            return
        told_of = ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
        if told_of in behind or (isinstance(node.func, ast.Name) and told_of != "print"):
            loop.known.assumed.append(f"`{text_of(node)}` keeps nothing that is read behind the loop")

    for n in inside:
        if isinstance(n, ast.Call) and is_given(n, batchy) and not makes_a_value(loop.module, n):
            loop.known.told_of.add(ast.unparse(n.func))
            if isinstance(n.func, ast.Attribute) and ast.unparse(n.func.value) != "self":
                loop.known.told_of.add(ast.unparse(n.func.value))
    literal = Literal(
        loop.known,
        Outputs(loop.known, lambda node: loop.values.of(node).kind),
        *(loop.outside.value, known, untracked, functions),
        samples=loop.examples,
    )
    literal.outputs.seen_to_be_several(loop.module, inside)
    loop.outside.literal = literal
    target = loop.node.target
    if is_enumerated(loop.module, loop.node.iter) and isinstance(target, ast.Tuple) and len(target.elts) == 2:
        loop.known.tracked[ast.unparse(target.elts[0])] = "STEP"
        target = target.elts[1]
    given: ast.expr = call(name("EXAMPLES"), name("BATCH"))
    if not loop.examples:
        given = call(name("GIVEN"), name("BATCH"), **_parts(target, inside))
    if loop.examples:
        loop.known.stand_ins[text_of(target)] = "a list of samples, whose fields their indices decide"
    if isinstance(target, (ast.Tuple, ast.List)):
        given = call(name("PARTS"), given, ast.Constant(len(target.elts)))
    body = [ast.Assign([literal.target(target)], given, lineno=0), *literal.block(loop.node.body)]
    for s in inside:
        if isinstance(s, ast.Assign) and loop.known.drifts(s.value):
            loop.known.weighted.update(ast.unparse(t) for t in s.targets)
    return body


def _parts(target: ast.expr, inside: Sequence[ast.AST]) -> dict[str, ast.expr]:
    """What a batch is seen to have: as many parts as it is unpacked into behind ``batch = tuple(t for t in batch)``,
    the keys that are read behind ``batch = {k: v for k, v in batch.items()}``."""
    batch = ast.unparse(target)
    widths = {
        len(t.elts)
        for n in inside
        if isinstance(n, ast.Assign) and ast.unparse(n.value) == batch
        for t in n.targets
        if isinstance(t, (ast.Tuple, ast.List)) and not any(isinstance(e, ast.Starred) for e in t.elts)
    }
    keys = {
        n.slice.value
        for n in inside
        if isinstance(n, ast.Subscript) and isinstance(n.slice, ast.Constant) and ast.unparse(n.value) == batch
        if isinstance(n.ctx, ast.Load) and isinstance(n.slice.value, str)
    }
    found: dict[str, ast.expr] = {}
    if len(widths) == 1:
        found["width"] = ast.Constant(widths.pop())
    if keys:
        found["named"] = ast.Tuple([ast.Constant(key) for key in sorted(keys)], ast.Load())
    return found


def _begun(loop: Loop, text: str, inside: Sequence[ast.AST]) -> ast.stmt | None:
    """The assignment of what a name of the loop holds before its first turn; None where nothing reads that."""
    for n in inside:
        added = isinstance(n, ast.Name) and isinstance(loop.module.parents[n], ast.AugAssign)
        if not isinstance(n, ast.Name) or n.id != text or not (isinstance(n.ctx, ast.Load) or added):
            continue
        found = [d for d in loop.module.bindings.reaching(n) if d.node not in loop.inside]
        if len(found) == 1 and found[0].kind == "assign" and found[0].value is not None and found[0].index is None:
            return assign(loop.known.track(text), loop.outside.value(found[0].value))
        if found:
            raise loop.known.stop(f"what `{text}` begins with is not seen", n)
    return None
