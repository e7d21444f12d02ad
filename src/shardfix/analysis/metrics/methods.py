"""What the methods and functions of torch, numpy and Python make of a batch's values."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from shardfix.analysis.code.names import arguments_of
from shardfix.analysis.metrics.losses import loss_of
from shardfix.analysis.metrics.quantities import (
    CONSTANT,
    COUNT,
    MEAN,
    OUTPUT,
    ROWS,
    SAMPLES,
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
    | {"type", "type_as", "astype", "clone", "copy", "contiguous", "tolist", "item"}
)
# Of a total these keep the value: a cast to whole numbers or to a short float does so only for whole numbers.
_KEEPING = frozenset(
    {"cuda", "cpu", "detach", "numpy", "float", "double", "clone", "copy", "contiguous", "tolist", "item"}
)
_WHOLE = frozenset({"long", "int"})
_DTYPES = frozenset({"float", "float32", "float64", "double"})
_MADE = frozenset({"tensor", "as_tensor", "array", "asarray", "from_numpy", "LongTensor", "FloatTensor", "Tensor"})
# Each value by itself, with the values of other rows in the same place.
_PER_ELEMENT = frozenset(
    {
        "abs",
        "exp",
        "log",
        "sqrt",
        "round",
        "sigmoid",
        "tanh",
        "relu",
        "clamp",
        "clip",
        "floor",
        "ceil",
        "log1p",
        "expm1",
    }
    | {
        "neg",
        "square",
        "pow",
        "masked_fill",
        "isnan",
        "isinf",
        "isfinite",
        "logical_not",
        "bitwise_not",
        "log2",
        "log10",
    }
    | {"absolute", "sin", "cos", "erf", "sign", "rsqrt", "reciprocal", "gelu", "elu", "selu", "silu", "leaky_relu"}
    | {"softplus", "logsigmoid", "logit", "hardtanh", "nan_to_num", "maximum", "minimum", "where", "fmod", "remainder"}
    | {"trunc", "rint", "clamp_min", "clamp_max", "power", "hypot", "clip_"}
)
_TOLD = frozenset(
    {"dtype", "out", "device", "inplace", "keepdim", "keepdims", "decimals", "dim", "axis", "eps", "approximate"}
)
# Along one dimension, which must not be that of the samples; where it is given, and what it is where it is not.
_WITHIN: dict[str, tuple[int, int | None]] = {
    "softmax": (0, None),
    "log_softmax": (0, None),
    "softmin": (0, None),
    "normalize": (1, 1),
    "cumsum": (0, None),
    "cumprod": (0, None),
    "logsumexp": (0, None),
    "gather": (0, None),
    "take_along_dim": (1, None),
    "flip": (0, None),
    "select": (0, None),
    "narrow": (0, None),
    "cosine_similarity": (1, 1),
    "prod": (0, None),
}
# What a layer of a network makes of one sample it makes of that alone; its other arguments are the same for all.
_LAYERS = frozenset(
    {"interpolate", "upsample", "linear", "one_hot", "conv1d", "conv2d", "conv3d", "avg_pool2d", "max_pool2d"}
    | {"adaptive_avg_pool2d", "adaptive_max_pool2d", "avg_pool1d", "max_pool1d"}
)
_COMPARISONS = frozenset(
    {"eq", "ne", "gt", "lt", "ge", "le", "logical_and", "logical_or", "logical_xor", "isclose"}
    | {"not_equal", "greater", "less", "greater_equal", "less_equal"}
)
_ARITHMETIC: dict[str, ast.operator] = {
    "add": ast.Add(),
    "sub": ast.Sub(),
    "subtract": ast.Sub(),
    "mul": ast.Mult(),
    "multiply": ast.Mult(),
    "div": ast.Div(),
    "divide": ast.Div(),
    "true_divide": ast.Div(),
    "matmul": ast.MatMult(),
    "mm": ast.MatMult(),
    "dot": ast.MatMult(),
}
_PAIRS = frozenset({"max", "min", "topk", "sort", "median", "mode"})
_TESTS = frozenset({"any", "all"})
_LIBRARIES = ("torch.", "numpy.", "torch.nn.functional.")
_LISTS = frozenset({"builtins.list", "builtins.tuple"})
_NUMBERS = frozenset({"builtins.float", "builtins.int", "builtins.abs", "builtins.round", "builtins.bool"})
_JOINS = frozenset({"cat", "concat", "concatenate", "stack", "hstack", "dstack"})


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
    if names & _LISTS and len(call.args) == 1:
        return values.of(call.args[0])
    if names & _NUMBERS and call.args:
        return _number(next(iter(names & _NUMBERS)), values.of(call.args[0]), call)
    if "builtins.len" in names and len(call.args) == 1:
        return _length(values.of(call.args[0]), call)
    if "builtins.sum" in names and call.args:
        added = values.of(call.args[0])
        total = Value("sum", whole=added.whole)
        return {"samples": total, "sample": Value("sample"), "constant": CONSTANT, "elements": total}.get(
            added.kind, unknown(call)
        )
    if names & {"builtins.zip", "builtins.enumerate"} and call.args:
        return either([values.of(a) for a in call.args])
    if any(q.startswith(_LIBRARIES) for q in names) and call.args:
        name = next(iter(names)).rpartition(".")[2]
        return _of_library(values, name, call)
    return None


def _of_library(values: Values, name: str, call: ast.Call) -> Value | None:
    """What a function of torch or numpy gives: unknown where it is not known to leave the samples apart."""
    value = values.of(call.args[0])
    if name in _MADE and value.kind == "items" and {v.kind for v in value.items} <= TOTALS:
        return either(list(value.items))  # sums side by side
    if name[:1].isupper() and name not in _MADE:
        return None  # a module, which is no value of the batch
    if name in ("where", "maximum", "minimum") and len(call.args) > 1:
        return _folded([values.of(a) for a in call.args], call)
    if name == "bincount":
        told = {k.arg for k in call.keywords}
        counted = told <= {"minlength"} and len(call.args) == 1 and value.kind in ("samples", "elements", "output")
        return Value("sum", whole=True) if told and counted else unknown(call)
    if name in _JOINS and value.kind in ("items", "list"):
        along = -1 if name == "dstack" else _dimension(call, call.args[1:], 0)
        rows = {v.kind for v in value.items} <= {"samples", "output"}
        joined = replace(either(list(value.items)), deep=True)
        apart = _apart(along, joined if "stack" in name else either(list(value.items)))
        return joined if rows and apart else unknown(call)
    if name == "stack" and value.kind in ("samples", "examples"):
        return SAMPLES if _dimension(call, call.args[1:], 0) in (None, 0) else unknown(call)
    if value.kind == "constant" and name in _ARITHMETIC and len(call.args) > 1:
        return operated(_ARITHMETIC[name], value, values.of(call.args[1]))
    found = applied(values, name, value, call, call.args[1:])
    if found is not None:
        return found
    given = {values.of(a).kind for a in arguments_of(call)}
    return None if given <= {"constant", "sample", "time"} else unknown(call)


def _number(name: str, value: Value, call: ast.Call) -> Value:
    """A number of Python made of a value: of rows there is none, and a total is cut off or loses its sign."""
    if value.kind in ("constant", "sample", "time", "unknown", "place"):
        return value
    if value.kind in TOTALS | {"mean"}:
        if name == "builtins.float" or (name == "builtins.int" and value.whole):
            return value
    if name in ("builtins.abs", "builtins.round") and value.kind in ROWS:
        return replace(value, whole=False)
    return unknown(call)


def _folded(found: list[Value], call: ast.Call) -> Value:
    """What an operation on each value by itself makes of several rows and constants."""
    result = CONSTANT
    for value in found:
        result = paired(result, value)
    return result if result.kind in ROWS | {"constant", "time"} else unknown(call)


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
        if method.attr == "size":
            return _shaped(values, "size", receiver, call, call.args)
        return SAMPLES if method.attr in ("pop", "get") else applied(values, method.attr, OUTPUT, call, call.args)
    if receiver.kind in ("constant", "sample", "examples", "place", "step"):
        return None
    if receiver.kind == "output" and method.attr == "to_tuple":
        return OUTPUT  # transformers: all that a model gives, one behind the other
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
        return _cast(name, value, call)
    if name in _COMPARISONS and more:
        other = values.of(more[0])
        found = paired(value, other)
        if value.kind == "transposed" and other.kind in ("transposed", "samples", "output"):
            apart = other.kind == "transposed" or not _widened(values, more[0])
            return Value("transposed", whole=True) if apart else unknown(call)
        if found.kind == "output":
            return Value("samples", whole=True, deep=found.deep)
        return replace(found, whole=True) if found.kind in ROWS else found
    if name in _ARITHMETIC and more:
        changed = call.keywords and value.kind in TOTALS | {"mean"}
        return unknown(call) if changed else operated(_ARITHMETIC[name], value, values.of(more[0]))
    if value.kind in TOTALS | {"mean"}:
        return value if name in ("mean", "sum", "squeeze", "view", "reshape") else unknown(call)
    if value.kind not in ROWS:
        return None
    if name in ("zeros_like", "ones_like", "full_like", "empty_like"):
        return Value(value.kind, deep=value.deep)
    if name == "squeeze":
        first = _dimension(call, more, 0) == 0 and value.kind != "sample"
        return unknown(call) if first else replace(value, deep=False)
    if name in _PER_ELEMENT:
        told = [k.value for k in call.keywords if k.arg not in _TOLD]
        return replace(_folded([value, *(values.of(a) for a in (*more, *told))], call), whole=False)
    if name == "unsqueeze":
        along = _dimension(call, more, 0)
        if not isinstance(along, int) and value.kind != "sample":
            return unknown(call)  # it may come before the samples
        before = along == 0 or (isinstance(along, int) and along < -1 and not value.deep)
        return replace(value, deep=True) if not before or value.kind == "sample" else Value("transposed")
    if name in _WITHIN:
        return _within(values, name, value, call, more)
    if name in _LAYERS:
        others = {values.of(a).kind for a in (*more, *(k.value for k in call.keywords))}
        kept = value.kind in ("samples", "output", "sample") and others <= {"constant"}
        return Value(value.kind, deep=value.deep or name == "one_hot") if kept else unknown(call)
    shaped = _shaped(values, name, value, call, more)
    if shaped is not None:
        return shaped
    if name == "count_nonzero" and not more and not call.keywords:
        return Value("sum", whole=True) if value.kind in ("samples", "elements") else unknown(call)
    if name in ("sum", "mean", "nansum"):
        return _total(values, "sum" if name == "nansum" else name, value, call, more)
    if name in ("argmax", "argmin", "argsort", "any", "all", "norm", "std", "var") or name in _PAIRS:
        return _along(values, name, value, call, more)
    return None if value.kind == "sample" else unknown(call)


def _cast(name: str, value: Value, call: ast.Call) -> Value:
    """The same values of another kind; a total may be cut off by that."""
    if value.kind in ROWS and name == "bool":
        return replace(value, whole=True)
    if value.kind not in TOTALS | {"mean"} or name in _KEEPING | _MADE:
        return value
    if name in _WHOLE:
        return value if value.whole else unknown(call)
    words = {
        n.attr if isinstance(n, ast.Attribute) else n.id
        for a in arguments_of(call)
        for n in ast.walk(a)
        if isinstance(n, (ast.Attribute, ast.Name))
    }
    short = {"half", "float16", "bfloat16", "uint8", "int8", "bool", "byte"}
    cut = {"int", "long", "int32", "int64", "short", "int16"}
    if name in ("to", "type", "astype") and not words & (short | (set() if value.whole else cut)):
        return value
    return unknown(call)


def _within(values: Values, name: str, value: Value, call: ast.Call, more: list[ast.expr]) -> Value:
    """What an operation along one dimension gives, which keeps the samples apart unless it is theirs."""
    if value.kind == "sample":
        return value
    position, default = _WITHIN[name]
    along = _dimension(call, more, position)
    if along is None:
        along = default
    if name == "flip":
        dims = next((k.value for k in call.keywords if k.arg in ("dims", "dim", "axis")), None)
        told = [dims] if dims is not None else more
        parts = [e for a in told for e in (a.elts if isinstance(a, (ast.Tuple, ast.List)) else [a])]
        fixed = bool(parts) and all(isinstance(e, ast.Constant) and isinstance(e.value, int) and e.value for e in parts)
        along = 1 if fixed else None
    if not _apart(along, value) or value.kind not in ("samples", "output"):
        return unknown(call)
    others = [a for i, a in enumerate(more) if i != position] if name != "flip" else []
    return _folded([value, *(values.of(a) for a in others)], call)


def _widened(values: Values, node: ast.expr) -> bool:
    """Whether rows were given one more dimension, so that they meet every other sample's."""
    nodes = list(ast.walk(node))
    for name in [n for n in nodes if isinstance(n, ast.Name)]:
        made = (d.value for d in values.module.bindings.reaching(name) if d.value is not None)
        nodes += [n for value in made if value in values.inside for n in ast.walk(value)]
    for n in nodes:
        if isinstance(n, ast.Attribute) and n.attr in ("unsqueeze", "view", "reshape", "newaxis", "expand_dims"):
            return True
        if isinstance(n, ast.Subscript) and any(isinstance(c, ast.Constant) and c.value is None for c in ast.walk(n)):
            return True
    return False


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
    if isinstance(given, (ast.Tuple, ast.List)) and given.elts:
        return 1 if all(isinstance(n, ast.Constant) and n.value for n in given.elts) else "?"
    if isinstance(given, ast.Constant):
        return given.value if isinstance(given.value, int) else None if given.value is None else "?"
    return "?"


def _apart(along: int | str | None, value: Value) -> bool:
    """Whether what goes along a dimension leaves the samples apart: the last one may be theirs."""
    return isinstance(along, int) and (along > 0 or (along == -1 and value.deep))


def _total(values: Values, name: str, value: Value, call: ast.Call, more: list[ast.expr]) -> Value:
    along = _dimension(call, more, 0)
    if value.kind == "sample":
        return value
    if along is None:
        if value.kind == "output":
            return unknown(call)  # it may be a mean already
        total = Value("sum", whole=value.whole)
        return total if name == "sum" else MEAN if value.kind == "samples" else unknown(call)
    if along == 0 and value.kind in ("samples", "elements"):
        return Value("sum", whole=value.whole) if name == "sum" else MEAN if value.kind == "samples" else unknown(call)
    if _apart(along, value) and value.kind in ("samples", "output"):
        return replace(value, deep=False)
    return unknown(call)


def _along(values: Values, name: str, value: Value, call: ast.Call, more: list[ast.expr]) -> Value:
    """What is taken along a dimension of each row: the largest value, its place."""
    along = _dimension(call, more, 1 if name in ("topk", "norm") else 0)
    if value.kind == "sample":
        return value
    if name == "topk" and along is None:
        along = -1
    if not _apart(along, value) or value.kind not in ("samples", "output"):
        return unknown(call)
    row: Kind = "samples"
    several = name in ("topk", "sort", "argsort")
    if name in _PAIRS:
        return Value("list", (Value(row, deep=several),))
    return Value(row, whole=name.startswith("arg") or name in _TESTS, deep=several)


def _shaped(values: Values, name: str, value: Value, call: ast.Call, more: list[ast.expr]) -> Value | None:
    """What becomes of rows in another shape."""
    if name == "size":
        if value.kind == "sample":
            return value
        first = len(more) == 1 and isinstance(more[0], ast.Constant) and more[0].value == 0
        # a batch that is asked for its size is one tensor
        return COUNT if first and value.kind in ("samples", "batch") else unknown(call)
    if name in ("numel", "nelement"):
        if value.kind in ("samples", "elements"):
            return Value("sum", whole=True)
        return value if value.kind == "sample" else unknown(call)
    if value.kind == "sample":
        return value if name in ("view", "reshape", "flatten", "t", "transpose", "permute", "expand_as") else None
    if name in ("t", "transpose", "permute", "swapaxes"):
        if name == "permute" and more and isinstance(more[0], ast.Constant) and more[0].value == 0:
            return replace(value, deep=True)
        kept = name == "transpose" and len(more) == 2 and all(isinstance(a, ast.Constant) and a.value for a in more)
        return (
            replace(value, deep=True)
            if kept
            else Value("transposed")
            if value.kind in ("samples", "output")
            else UNKNOWN
        )
    if name in ("view_as", "expand_as", "reshape_as"):
        return replace(value, deep=bool(more) and values.of(more[0]).deep)
    if name in ("view", "reshape"):
        if more and value.kind in ("samples", "output"):
            own = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
            length = ast.unparse(more[0]) in (f"{own}.shape[0]", f"{own}.size(0)", f"len({own})")
            if values.of(more[0]).kind == "count" or length:
                return replace(value, deep=len(more) > 1)
        if len(more) == 2 and isinstance(more[0], ast.Constant) and more[0].value == 1:
            return Value("transposed", whole=value.whole) if value.kind == "samples" else unknown(call)
        return Value("elements", whole=value.whole)
    if name in ("flatten", "ravel"):
        from_first = more and isinstance(more[0], ast.Constant) and more[0].value == 1
        later = any(k.arg == "start_dim" and ast.unparse(k.value) != "0" for k in call.keywords)
        return replace(value, deep=True) if from_first or later else Value("elements", whole=value.whole)
    if name in ("expand", "repeat"):
        times = more[0] if more else None
        number = times.value if isinstance(times, ast.Constant) else None
        minus = isinstance(times, ast.UnaryOp) and ast.unparse(times) == "-1"
        kept = value.kind in ("samples", "output") and (minus or (name == "repeat" and number == 1))
        return replace(value, deep=len(more) > 1) if kept else None
    if name in ("chunk", "split", "unbind"):
        along = _dimension(call, more, 0 if name == "unbind" else 1)
        apart = _apart(along, value) and value.kind in ("samples", "output")
        return Value("list", (Value(value.kind, deep=name != "unbind"),)) if apart else unknown(call)
    if name == "index_select":
        along = _dimension(call, more, 0)
        fixed = len(more) == 2 and values.of(more[1]).kind == "constant"
        return replace(value, whole=False) if _apart(along, value) and fixed else unknown(call)
    return None


__all__ = ["CLOCKS", "applied", "function_value", "method_value"]
