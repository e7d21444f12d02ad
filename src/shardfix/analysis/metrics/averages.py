"""What an averaging object is told of each batch, and whether its sum is one over samples."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from shardfix.analysis.code.names import arguments_of
from shardfix.analysis.metrics.meters import Meter, meter_of
from shardfix.analysis.metrics.quantities import short
from shardfix.analysis.metrics.values import Values


@dataclass(frozen=True, eq=False, slots=True)
class Averaged:
    """An ``update`` of an averaging object, or of one that holds some.

    Args:
        owner: the object that is made before the loop.
        why: why its sum is not one over samples, empty if it is; None where it only takes times.
    """

    owner: ast.expr
    meter: Meter
    why: str | None


def averaged(values: Values, receiver: ast.expr, call: ast.Call) -> Averaged | None:
    """``top1.update(acc1.item(), images.size(0))``, ``logger.update(loss=loss.item())``,
    ``logger.meters["acc1"].update(acc1.item(), n=batch_size)``; None for anything else."""
    held = receiver.value if isinstance(receiver, ast.Subscript) else None
    owner = held.value if isinstance(held, ast.Attribute) else receiver
    meter = _made(values, owner)
    given = {k.arg: k.value for k in call.keywords}
    if meter is None or None in given:
        return None
    if meter.held_in and owner is receiver:
        if call.args:
            return None
        found = [_weighed(values, value, None, call) for value in given.values()]
        told = [why for why in found if why is not None]
        return Averaged(owner, meter, next((why for why in told if why), "") if told else None)
    if isinstance(held, ast.Attribute) and held.attr != meter.held_in:
        return None
    value_name, weight_name = ("value", "n") if isinstance(held, ast.Attribute) else (meter.value, meter.weight)
    value = call.args[0] if call.args else given.get(value_name)
    weight = call.args[1] if len(call.args) > 1 else given.get(weight_name)
    if value is None or not set(given) <= {value_name, weight_name} or len(arguments_of(call)) > 2:
        return None
    return Averaged(owner, meter, _weighed(values, value, weight, call))


def _made(values: Values, owner: ast.expr) -> Meter | None:
    """The class of an object that one call makes before the loop."""
    definitions = [d for d in values.module.bindings.reaching(owner) if d.node not in values.inside]
    made = [d.value for d in definitions if d.kind == "assign" and d.index is None]
    one = made[0] if len(made) == 1 and len(definitions) == 1 else None
    return meter_of(values.module, one) if isinstance(one, ast.Call) else None


def _weighed(values: Values, value: ast.expr, weight: ast.expr | None, call: ast.Call) -> str | None:
    """Why a value times its weight is no sum over samples; empty if it is, None for times."""
    found, weighed = values.of(value), values.of(weight) if weight is not None else None
    if found.kind == "time":
        return None
    if weighed is not None and weighed.kind == "count":
        if found.kind in ("mean", "constant"):
            return ""
        shown = found.what if found.what is not None else value
        return f"`{short(shown)}` is not seen to be a mean over the batch's samples"
    if weighed is None and found.kind == "mean":
        return f"`{short(value)}` is a mean over the batch"
    return f"`{short(call)}` weighs what is not seen to be a mean by what is not seen to be the batch's size"


__all__ = ["Averaged", "averaged"]
