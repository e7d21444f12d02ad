"""What a loop or a comprehension over a batch's values takes in one turn: the samples one by one, or something else."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.names import last_name
from shardfix.analysis.loops.epochs import is_enumerated
from shardfix.analysis.metrics.growing import squeezed
from shardfix.analysis.metrics.networks import gives_several
from shardfix.analysis.metrics.quantities import (
    BATCH,
    CONSTANT,
    SAMPLE,
    SAMPLES,
    UNKNOWN,
    Value,
    either,
    unknown,
)

if TYPE_CHECKING:
    from shardfix.analysis.metrics.values import Values

_LOOPS = (ast.For, ast.AsyncFor)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)


def bound(values: Values, d: Definition) -> Value:
    """What the target of a loop stands for: the batch, or one sample's part of what is gone through."""
    loop, iterable = d.statement, d.value
    if iterable is None:
        return UNKNOWN
    if loop is values.loop:
        if values.single:
            return Value("step") if is_enumerated(values.module, iterable) and d.index == 0 else SAMPLE
        whole = Value("examples") if values.examples else BATCH
        if is_enumerated(values.module, iterable):
            return Value("step") if d.index == 0 else whole if d.index == 1 else SAMPLES
        return whole if d.index is None else SAMPLES
    found = _part(values, iterable, d.index)
    # One of the things that a model gives: whether there is one for each sample, who gathers them has to ask.
    return SAMPLE if found.kind in ("output", "elements") else found


def _part(values: Values, iterable: ast.expr, index: int | None) -> Value:
    """What a loop over an expression binds: its target, or the item of a position in that."""
    if isinstance(iterable, ast.Call) and not isinstance(iterable.func, ast.Attribute):
        name = last_name(iterable.func)
        if name == "enumerate" and iterable.args:
            inner = iterated(values, iterable.args[0])
            starts = [*iterable.args[1:], *(k.value for k in iterable.keywords)]
            per_sample = inner.kind in ("sample", "output") and all(is_zero(s) for s in starts)
            if index == 0:
                return Value("place") if per_sample else CONSTANT if inner.kind == "constant" else UNKNOWN
            return inner
        if name == "zip" and index is not None and 0 <= index < len(iterable.args):
            place = _part(values, iterable.args[index], None)
            if place.kind == "place":
                return place
            whole = iterated(values, iterable)
            return whole if whole.kind in ("sample", "unknown") else iterated(values, iterable.args[index])
        if name == "range" and iterated(values, iterable).kind == "sample" and not _of_sample(values, iterable):
            return Value("place")
        if name in ("tqdm", "list", "tuple", "sorted", "reversed") and iterable.args:
            return _part(values, iterable.args[0], index)
    if isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Attribute):
        if iterable.func.attr in ("items", "values", "keys") and values.of(iterable.func.value).kind == "batch":
            key = iterable.func.attr == "keys" or (iterable.func.attr == "items" and index == 0)
            return CONSTANT if key else SAMPLES
    return iterated(values, iterable)


def is_zero(node: ast.expr) -> bool:
    """Whether a number is a plain nothing."""
    return isinstance(node, ast.Constant) and node.value == 0


def iterated(values: Values, iterable: ast.expr) -> Value:
    """One turn of a loop over an expression: ``sample`` if it takes the batch's samples one by one, ``output`` if
    it takes what a model gives one by one."""
    if isinstance(iterable, ast.Call) and not isinstance(iterable.func, ast.Attribute):
        name = last_name(iterable.func)
        if name == "zip" and iterable.args:
            through = [_through_batch(values, a) for a in iterable.args]
            if any(through) and not all(through):
                return unknown(iterable)  # the rows of each batch meet the first of something else, or the next ones
            parts = [iterated(values, a) for a in iterable.args]
            if any(p.kind == "sample" for p in parts) and all(p.kind in ("sample", "output") for p in parts):
                return SAMPLE
            if all(p.kind == "elements" for p in parts):
                return parts[0]
            return either(parts)
        if name in ("enumerate", "tqdm", "list", "tuple", "reversed") and iterable.args:
            return iterated(values, iterable.args[0])
        if name == "range":
            if len(iterable.args) == 1 and values.of(iterable.args[0]).kind == "count":
                return unknown(iterable) if _again(values, iterable) else Value("sample")
            return values.together(iterable.args)
    value = values.of(iterable)
    if value.kind in ("samples", "examples", "output", "elements") and _again(values, iterable):
        return unknown(iterable)
    flat = squeezed(values.module, iterable, values.inside) if value.kind in ("samples", "output") else None
    if flat is not None:
        return unknown(flat)
    if value.kind in ("samples", "examples"):
        return SAMPLE
    if value.kind in ("list", "items"):
        return either(list(value.items))
    if value.kind == "elements" and _flattened(iterable):
        return value  # all of the batch's values, of which each is one sample's
    if value.kind in ("output", "constant", "sample"):
        return value
    return unknown(iterable)


def _flattened(iterable: ast.expr) -> bool:
    """``y.view(-1).tolist()``: all the values of rows, in their order, so that those of two go together."""
    while isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Attribute):
        if iterable.func.attr in ("view", "reshape", "flatten", "ravel"):
            return True
        if iterable.func.attr not in ("tolist", "cpu", "numpy", "detach", "long", "int"):
            return False
        iterable = iterable.func.value
    return False


def goes_through_batch(values: Values, iterable: ast.expr) -> bool:
    """Whether a loop over an expression goes through the batch's samples, or what a model gives for them; not through
    the parts of one."""
    if isinstance(iterable, ast.Call) and last_name(iterable.func) == "zip":
        return any(_through_batch(values, a) for a in iterable.args)
    return _through_batch(values, iterable)


def _through_batch(values: Values, iterable: ast.expr) -> bool:
    """Whether what is gone through is the batch, sample by sample."""
    while isinstance(iterable, ast.Call) and not isinstance(iterable.func, ast.Attribute) and iterable.args:
        if last_name(iterable.func) == "range":
            return any(values.of(a).kind == "count" for a in iterable.args)
        if last_name(iterable.func) not in ("enumerate", "tqdm", "list", "tuple", "reversed"):
            break
        iterable = iterable.args[0]
    return values.of(iterable).kind in ("samples", "examples", "output", "elements")


def _of_sample(values: Values, counted: ast.Call) -> bool:
    """Whether a range is one of a single sample."""
    return all(values.of(a).kind in ("sample", "constant") for a in counted.args)


def _again(values: Values, iterable: ast.expr) -> bool:
    """Whether the batch is gone over for each of its samples, so that these are compared with one another."""
    previous: ast.AST = iterable
    for outer in values.module.around(iterable):
        if outer is values.loop or outer not in values.inside:
            return False
        heads: list[ast.expr] = []
        if isinstance(outer, _LOOPS) and previous is not outer.iter:
            heads = [outer.iter]
        elif isinstance(outer, _COMPREHENSIONS):
            own = [g.iter for g in outer.generators]
            place = next((i for i, g in enumerate(outer.generators) if g is previous), len(own))
            heads = own[:place]
        if any(iterated(values, h).kind in ("sample", "output", "elements", "unknown") for h in heads):
            return True
        previous = outer
    return False


def comprehended(values: Values, node: ast.AST) -> Value:
    """What a comprehension makes."""
    generators: list[ast.comprehension] = getattr(node, "generators", [])
    generator = generators[0]
    turn = iterated(values, generator.iter)
    if isinstance(node, ast.DictComp):
        if _moves(values, generator, node.value):
            return BATCH
        return values.together(
            [node.key, node.value, *(g.iter for g in generators), *(i for g in generators for i in g.ifs)]
        )
    if isinstance(node, ast.SetComp):
        return values.together([node.elt, *(g.iter for g in generators), *(i for g in generators for i in g.ifs)])
    element: ast.expr = getattr(node, "elt", generator.iter)
    over = values.of(generator.iter).kind
    if over == "batch" and len(generators) == 1:
        return BATCH if _moves(values, generator, element) else unknown(node)
    if over == "output" and len(generators) == 1 and not generator.ifs and _rows_of_one(values, generator, element):
        return SAMPLE
    if turn.kind == "sample" and over != "sample":
        value = values.of(element)
        chosen = [values.of(i).kind for g in generators for i in g.ifs]
        turns = [iterated(values, g.iter).kind for g in generators]
        if not {*chosen, *turns} <= {"sample", "constant"}:
            return unknown(node)
        if len(generators) > 1 or generator.ifs:
            return Value("elements") if value.kind in ("sample", "constant") else unknown(node)
        return SAMPLES if value.kind in ("sample", "constant") else unknown(node)
    if turn.kind == "output" and len(generators) == 1 and not generator.ifs:
        return Value("output")
    value = values.of(element)
    if turn.kind in ("constant", "sample") and value.kind in ("constant", "sample", "time"):
        return values.together([element, *(g.iter for g in generators)])
    if turn.kind == "constant":
        return Value("list", (value,))
    return Value("list", (value,)) if over in ("list", "items") else unknown(node)


def _rows_of_one(values: Values, generator: ast.comprehension, element: ast.expr) -> bool:
    """``[o[i].tolist() for o in outputs]``, where a loop counts the batch's samples by ``i``: one sample's row of each
    of the things that a model gives."""
    whole = generator.iter
    if isinstance(whole, ast.Call) and isinstance(whole.func, ast.Attribute) and whole.func.attr == "to_tuple":
        whole = whole.func.value
    names = {n.id for n in ast.walk(generator.target) if isinstance(n, ast.Name)}
    uses = [n for n in ast.walk(element) if isinstance(n, ast.Name) and n.id in names]
    rows = [values.module.parents[n] for n in uses]
    of_one = all(isinstance(r, ast.Subscript) and r.value is n for n, r in zip(uses, rows, strict=True))
    placed = [r for r in rows if isinstance(r, ast.Subscript) and values.of(r.slice).kind == "place"]
    return bool(uses) and of_one and len(placed) == len(rows) and gives_several(values.module, whole)


def _moves(values: Values, generator: ast.comprehension, element: ast.expr) -> bool:
    """``(t.to(device) for t in batch)``, ``{k: v.cuda() for k, v in batch.items()}``: the batch, elsewhere."""
    names = {n.id for n in ast.walk(generator.target) if isinstance(n, ast.Name)}
    over = generator.iter
    if isinstance(over, ast.Call) and isinstance(over.func, ast.Attribute) and over.func.attr == "items":
        over = over.func.value
    while isinstance(element, ast.IfExp):
        element = element.body
    while isinstance(element, ast.Call) and isinstance(element.func, ast.Attribute):
        if element.func.attr not in ("to", "cuda", "cpu", "long", "float", "detach"):
            return False
        element = element.func.value
    return isinstance(element, ast.Name) and element.id in names and values.of(over).kind == "batch"


__all__ = ["bound", "comprehended", "goes_through_batch", "iterated"]
