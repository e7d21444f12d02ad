"""From an evaluation loop to statements that can be run: what it gathers, what is made of that, and nothing else.

What a model, a loss or a batch decides is replaced by stand-ins (``stand_ins``) that a batch's indices decide; the
sums, the reduction, the divisions and the order of all of it stay the program's own.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.loops.epochs import is_enumerated
from shardfix.analysis.metrics.begun import begun_before
from shardfix.analysis.metrics.gathering import Write
from shardfix.proof.metrics.as_written import as_written
from shardfix.proof.metrics.by_stand_ins import by_stand_ins
from shardfix.proof.metrics.known import Known
from shardfix.proof.metrics.loop import Elsewhere, Loop
from shardfix.proof.metrics.meter_classes import made_meter
from shardfix.proof.metrics.onwards import run_callers, run_on
from shardfix.proof.metrics.pruned import pruned
from shardfix.proof.metrics.reaching import reaching
from shardfix.proof.recipes.regime import call, name
from shardfix.proof.recipes.slice import assign


@dataclass(frozen=True, slots=True)
class Evaluated:
    """Statements that run an evaluation, and the texts of the values they keep, in order.

    The value number n is kept as ``VALUES["#n"]``; with its text stands whether it goes by the number of batches.
    ``assumed`` is what the values hold only by, ``told`` what was not run. ``numbers`` is what they hold only by unless
    the same batches are compared, ``by_batch_only`` what stands for calls then.
    ``on_first``: the numbers of values that the first rank alone has.
    """

    statements: str
    kept: tuple[tuple[str, bool], ...]
    stand_ins: dict[str, str]
    assumed: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    by_batch_only: tuple[tuple[str, str], ...] = ()
    on_first: frozenset[int] = frozenset()


def evaluated(
    module: Module,
    loop: ast.For,
    loaders: Sequence[str],
    dataset: str,
    names: Sequence[str],
    weighted: Sequence[str] = (),
    examples: bool = False,
    rows: bool = False,
    elsewhere: Elsewhere = lambda _: ((), ""),
    accelerate: bool = False,
    stands: bool = False,
    loose: bool = False,
) -> Evaluated:
    """The statements of one loop over a loader and of what follows it.

    Args:
        module: the file of the loop.
        loaders: how the loader is written there; ``dataset``: how its dataset is.
        names: the accumulators, as they are written; ``weighted``: those that add up means over batches or count these.
        examples: whether batches are lists of samples that are not collated.
        rows: whether the body of the loop is to be run as it is written, on rows.
        elsewhere: how the loader and its dataset are written in another function of the file, by that function.
        accelerate: whether the loader's program binds ``accelerator``.
        stands: whether the code is judged as it stands: then what one rank shows is that rank's.

        loose: whether the same batches are compared, so that what is not seen may be any value of its batch.

    Raises:
        Stop: something of it is not understood.
    """
    known = Known(module, loaders, dataset, {}, weighted=set(weighted), accelerate=accelerate, loose=loose)
    made = Loop(module, loop, names, examples, elsewhere, known)
    made.after.stands = stands
    known.by_batch.update(w.name for w in made.writes if w.kind == "by-batch")
    starts: list[ast.stmt] = []
    functions: dict[str, ast.stmt] = {}
    outer = False
    for write in made.writes:
        variable = made.known.track(write.name)
        start = _start(made, write)
        if not any(isinstance(s, ast.Assign) and ast.unparse(s.targets[0]) == variable for s in starts):
            starts.append(assign(variable, _first_value(made, write, start, functions)))
        outer = outer or _around(made, start)
    target = made.node.target
    if is_enumerated(made.module, made.node.iter) and isinstance(target, ast.Tuple):
        made.known.tracked[ast.unparse(target.elts[0])] = "STEP"
        made.known.weighted.add(ast.unparse(target.elts[0]))
    body = as_written(made, starts, functions) if rows else by_stand_ins(made)
    batches = call(name("enumerate"), call(name("BATCHES"), name("loader")), *_first_step(made.node.iter))
    step = ast.Tuple([ast.Name("STEP", ast.Store()), ast.Name("BATCH", ast.Store())], ast.Store())
    run: list[ast.stmt] = [ast.For(step, batches, body or [ast.Pass()], [])]
    returned = run_on(made, made.node, run, "RETURNED")
    left = [w.name for w in made.writes if not made.after.kept or "." in w.name]  # what nothing is made of in sight
    for accumulator in dict.fromkeys(left):
        drifts = accumulator in made.known.weighted
        run += made.after.keep(accumulator, name(made.known.tracked[accumulator]), drifts)
    told = run_callers(made, run, returned)
    if outer:  # what an outer loop does not begin anew is gathered over its turns
        run = [ast.For(ast.Name("TURN", ast.Store()), call(name("range"), ast.Constant(2)), run, [])]
    statements = pruned([*functions.values(), assign("VALUES", ast.Dict([], [])), *starts, *run])
    tree = ast.fix_missing_locations(ast.Module(statements, []))
    text = ast.unparse(tree)
    alive = reaching(statements)
    rests = [made.known.resting[n] for n in ast.walk(tree) if n in made.known.resting and n in alive]
    assumed = tuple(dict.fromkeys((*made.known.assumed, *rests)))
    of_numbers = (made.known.numbers[n] for n in ast.walk(tree) if n in made.known.numbers and n in alive)
    numbers = tuple(dict.fromkeys(of_numbers))
    return Evaluated(
        "\n".join([*(f"import {m}" for m in made.known.imports), text]),
        tuple(made.after.kept),
        made.known.stand_ins,
        assumed,
        told,
        numbers,
        tuple(made.known.by_batch_only.items()),
        frozenset(made.after.on_first),
    )


def _first_step(over: ast.expr) -> list[ast.expr]:
    """The number that the first batch is given, where that is not 0."""
    for n in ast.walk(over):
        if isinstance(n, ast.Call) and last_name(n.func) == "enumerate":
            given = [*n.args[1:2], *(k.value for k in n.keywords if k.arg == "start")]
            return [g for g in given if isinstance(g, ast.Constant)]
    return []


def _start(loop: Loop, write: Write) -> Definition:
    """The assignment that an accumulator begins with."""
    target = write.target
    while isinstance(target, ast.Subscript):
        target = target.value
    found = [d for d in loop.module.bindings.reaching(target) if d.node not in loop.inside]
    value = begun_before(loop.module, loop.node, target) if not found else None
    if value is not None:  # set by a method right before the loop, or where its object is made
        return Definition(write.name, loop.module.scope(loop.node), "assign", loop.node, loop.node, value)
    if len(found) != 1 or found[0].kind != "assign" or found[0].value is None:
        raise loop.known.stop(f"what `{write.name}` begins with is not seen", write.statement)
    return found[0]


def _first_value(loop: Loop, write: Write, start: Definition, functions: dict[str, ast.stmt]) -> ast.expr:
    value = start.value
    assert value is not None
    if start.index is not None:
        if not isinstance(value, (ast.Tuple, ast.List)) or not 0 <= start.index < len(value.elts):
            raise loop.known.stop(f"what `{write.name}` begins with is not seen", value)
        value = value.elts[start.index]
    if write.meter is not None:
        loop.known.meters[write.name] = write.meter
        return made_meter(loop, write.name, value, write.meter, functions)
    return loop.outside.value(value)


def _around(loop: Loop, start: Definition) -> bool:
    """Whether a loop stands around the loop over the batches and not around what its accumulator begins with."""
    begun = set(loop.module.around(start.node))
    function = loop.module.scope(loop.node)
    for outer in loop.module.around(loop.node):
        if outer is function:
            return False
        if isinstance(outer, (ast.For, ast.While)) and outer not in begun:
            return True
    return False


__all__ = ["Evaluated", "evaluated"]
