"""What the methods and functions of torch, numpy and Python make of a batch's values."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from shardfix.analysis.metrics.losses import loss_of
from shardfix.analysis.metrics.quantities import (
    CONSTANT,
    COUNT,
    MEAN,
    OUTPUT,
    ROWS,
    SAMPLES,
    SUM,
    TOTALS,
    UNKNOWN,
    Kind,
    Value,
    either,
    operated,
    paired,
    unknown,
)

if TYPE_CHECKING:
    from shardfix.analysis.metrics.values import Values

CLOCKS = frozenset(
    {"time.time", "time.perf_counter", "time.monotonic", "time.process_time", "timeit.default_timer"}
    | {"datetime.datetime.now"}
)
_CASTS = frozenset(
    {"to", "cuda", "cpu", "detach", "numpy", "float", "double", "half", "bfloat16", "long", "int", "bool", "byte"}
    | {"type", "type_as", "astype", "clone", "copy", "contiguous", "tolist", "squeeze", "item"}
)
_MADE = frozenset({"tensor", "as_tensor", "array", "asarray", "from_numpy", "LongTensor", "FloatTensor", "Tensor"})
_PER_ELEMENT = frozenset(
    {"abs", "exp", "log", "sqrt", "round", "sigmoid", "tanh", "relu", "clamp", "clip", "floor", "ceil", "softmax"}
    | {"log_softmax", "neg", "square", "pow", "unsqueeze", "masked_fill", "isnan", "normalize", "logical_not"}
)
_COMPARISONS = frozenset({"eq", "ne", "gt", "lt", "ge", "le", "logical_and", "logical_or", "logical_xor", "isclose"})
_ARITHMETIC: dict[str, ast.operator] = {
    "add": ast.Add(),
    "sub": ast.Sub(),
    "mul": ast.Mult(),
    "multiply": ast.Mult(),
    "div": ast.Div(),
    "divide": ast.Div(),
}
_PAIRS = frozenset({"max", "min", "topk", "sort", "median", "mode"})
_LIBRARIES = ("torch.", "numpy.", "torch.nn.functional.")
_KEPT = frozenset({"builtins.float", "builtins.int", "builtins.abs", "builtins.list", "builtins.tuple"})


def function_value(values: Values, call: ast.Call, names: frozenset[str]) -> Value | None:
    """What a call of Python, torch or numpy gives; None for any other."""
    loss = loss_of(values.module, call)
    if loss is not None:
        given = {values.of(a).kind for a in call.args}
        turned = loss.kind == "mean" and any(_turned(values, a) for a in call.args)
        if not turned and given <= {"samples", "output", "constant"} and given & {"samples", "output"}:
            return loss
        flat = given <= {"samples", "output", "constant", "elements", "transposed"}
        return loss if flat and loss.kind == "sum" else unknown(call)
    if any(isinstance(a, ast.Starred) for a in call.args):
        return None
    if names & _KEPT and len(call.args) == 1:
        return values.of(call.args[0])
    if "builtins.len" in names and len(call.args) == 1:
        return _length(values.of(call.args[0]), call)
    if "builtins.sum" in names and call.args:
        return {"samples": SUM, "sample": Value("sample"), "constant": CONSTANT, "elements": SUM}.get(
            values.of(call.args[0]).kind, unknown(call)
        )
    if names & {"builtins.zip", "builtins.enumerate"} and call.args:
        return either([values.of(a) for a in call.args])
    if any(q.startswith(_LIBRARIES) for q in names) and call.args:
        name = next(iter(names)).rpartition(".")[2]
        return applied(values, name, values.of(call.args[0]), call, call.args[1:])
    return None


def _turned(values: Values, node: ast.expr) -> bool:
    """Whether a dimension was moved: of tokens, say, of which samples have more or fewer, so that a mean over all of
    them is none over samples."""
    nodes = list(ast.walk(node))
    for name in [n for n in nodes if isinstance(n, ast.Name)]:
        made = (d.value for d in values.module.bindings.reaching(name) if d.value is not None)
        nodes += [n for value in made if value in values.inside for n in ast.walk(value)]
    moved = ("transpose", "permute", "swapaxes", "swapdims", "movedim")
    return any(isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr in moved for n in nodes)


def method_value(values: Values, call: ast.Call, method: ast.Attribute) -> Value | None:
    """What a method of a batch's value gives; None where the object is none."""
    receiver = values.of(method.value)
    if receiver.kind == "batch":
        if method.attr in ("to", "cuda", "cpu"):
            return receiver
        if method.attr in ("items", "keys", "values", "update"):
            return None
        return SAMPLES if method.attr in ("pop", "get") else applied(values, method.attr, OUTPUT, call, call.args)
    if receiver.kind in ("constant", "sample", "examples", "place", "step"):
        return None
    return applied(values, method.attr, receiver, call, call.args)


def applied(values: Values, name: str, value: Value, call: ast.Call, more: list[ast.expr]) -> Value | None:
    """What an operation gives, be it a method or a function: by its name, its first value and its other arguments."""
    name = name.rstrip("_")
    if value.kind == "unknown":
        return value
    if value.kind == "constant":
        return None
    if name == "item":
        return unknown(call) if value.kind in ROWS - {"sample"} else value
    if name in _CASTS or name in _MADE:
        return value
    if name in _COMPARISONS and more:
        found = paired(value, values.of(more[0]))
        if value.kind == "transposed" and values.of(more[0]).kind in ("transposed", "samples", "output"):
            return Value("transposed")
        return SAMPLES if found.kind == "output" else found
    if name in _ARITHMETIC and more:
        return operated(_ARITHMETIC[name], value, values.of(more[0]))
    if value.kind in TOTALS | {"mean"}:
        return value if name in ("mean", "sum", "squeeze", "view", "reshape") else unknown(call)
    if value.kind not in ROWS:
        return None
    if name in _PER_ELEMENT:
        return value
    shaped = _shaped(values, name, value, call, more)
    if shaped is not None:
        return shaped
    if name in ("sum", "mean", "nansum"):
        return _total(values, "sum" if name == "nansum" else name, value, call, more)
    if name in ("argmax", "argmin", "argsort", "any", "all", "cumsum", "norm") or name in _PAIRS:
        return _along(values, name, value, call, more)
    return None if value.kind in ("output", "sample") else unknown(call)


def _length(value: Value, call: ast.Call) -> Value:
    if value.kind in ("samples", "examples"):
        return COUNT
    return value if value.kind in ("constant", "sample") else unknown(call)


def _dimension(call: ast.Call, more: list[ast.expr], position: int) -> int | str | None:
    """The dimension that an operation goes along: its number, None if none is given, ``?`` if it is not seen."""
    given = next((k.value for k in call.keywords if k.arg in ("dim", "axis")), None)
    if given is None and len(more) > position:
        given = more[position]
    if given is None:
        return None
    if isinstance(given, ast.UnaryOp) and isinstance(given.op, ast.USub) and isinstance(given.operand, ast.Constant):
        number = given.operand.value
        return -number if isinstance(number, int) else "?"
    if isinstance(given, ast.Constant):
        return given.value if isinstance(given.value, int) else None if given.value is None else "?"
    return "?"


def _total(values: Values, name: str, value: Value, call: ast.Call, more: list[ast.expr]) -> Value:
    along = _dimension(call, more, 0)
    if value.kind == "sample":
        return value
    if along is None:
        if value.kind == "output":
            return unknown(call)  # it may be a mean already
        return SUM if name == "sum" else MEAN if value.kind == "samples" else unknown(call)
    if along == 0 and value.kind in ("samples", "elements"):
        return SUM if name == "sum" else MEAN if value.kind == "samples" else unknown(call)
    if along != 0 and along != "?" and value.kind in ("samples", "output"):
        return value
    return unknown(call)


def _along(values: Values, name: str, value: Value, call: ast.Call, more: list[ast.expr]) -> Value:
    """What is taken along a dimension of each row: the largest value, its place."""
    along = _dimension(call, more, 1 if name in ("topk", "norm") else 0)
    if value.kind == "sample":
        return value
    if name == "topk" and along is None:
        along = -1
    if along in (None, 0, "?") or value.kind not in ("samples", "output"):
        return unknown(call)
    row: Kind = "samples"
    return Value("list", (Value(row),)) if name in _PAIRS else Value(row)


def _shaped(values: Values, name: str, value: Value, call: ast.Call, more: list[ast.expr]) -> Value | None:
    """What becomes of rows in another shape."""
    if name == "size":
        if value.kind == "sample":
            return value
        first = len(more) == 1 and isinstance(more[0], ast.Constant) and more[0].value == 0
        return COUNT if first and value.kind == "samples" else unknown(call)
    if name in ("numel", "nelement"):
        return value if value.kind == "sample" else unknown(call)
    if value.kind == "sample":
        return value if name in ("view", "reshape", "flatten", "t", "transpose", "permute", "expand_as") else None
    if name in ("t", "transpose", "permute", "swapaxes"):
        if name == "permute" and more and isinstance(more[0], ast.Constant) and more[0].value == 0:
            return value
        kept = name == "transpose" and len(more) == 2 and all(isinstance(a, ast.Constant) and a.value for a in more)
        return value if kept else Value("transposed") if value.kind in ("samples", "output") else UNKNOWN
    if name in ("view_as", "expand_as", "reshape_as"):
        return value
    if name in ("view", "reshape"):
        if more and value.kind in ("samples", "output"):
            own = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
            length = ast.unparse(more[0]) in (f"{own}.shape[0]", f"{own}.size(0)", f"len({own})")
            if values.of(more[0]).kind == "count" or length:
                return value
        if len(more) == 2 and isinstance(more[0], ast.Constant) and more[0].value == 1:
            return Value("transposed") if value.kind == "samples" else unknown(call)
        return Value("elements")
    if name in ("flatten", "ravel"):
        from_first = more and isinstance(more[0], ast.Constant) and more[0].value == 1
        given = any(k.arg == "start_dim" for k in call.keywords)
        return value if from_first or given else Value("elements")
    return None


__all__ = ["CLOCKS", "applied", "function_value", "method_value"]
