"""What may be run of torch, numpy and Python as it is written: functions, methods of values, losses and types."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.calling import arguments_given
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.proof.metrics.known import Known
from shardfix.proof.recipes.regime import call, dotted

BUILTINS = frozenset(
    {
        *("len", "sum", "max", "min", "round", "int", "float", "abs", "bool", "range", "sorted", "enumerate", "list"),
        *("tuple", "zip", "set", "dict", "str", "any", "all", "reversed", "pow", "divmod"),
    }
)
# Functions that make values of values: of torch, torch.nn.functional and numpy.
FUNCTIONS = frozenset(
    {
        *(
            "abs",
            "add",
            "all",
            "allclose",
            "any",
            "append",
            "arange",
            "argmax",
            "argmin",
            "argsort",
            "array",
            "array_equal",
        ),
        *("as_tensor", "asarray", "atleast_1d", "bincount", "bitwise_and", "bitwise_or", "cat", "cdist", "ceil"),
        *(
            "clamp",
            "clip",
            "concat",
            "concatenate",
            "corrcoef",
            "cos",
            "cosine_similarity",
            "cumsum",
            "diag",
            "diagonal",
        ),
        *("div", "divide", "dot", "einsum", "empty_like", "eq", "equal", "exp", "eye", "flatten", "flip", "floor"),
        *("from_numpy", "full", "full_like", "gather", "ge", "greater", "gt", "hstack", "index_select", "isclose"),
        *("isfinite", "isnan", "le", "less", "linspace", "log", "log10", "log1p", "log2", "log_softmax", "logical_and"),
        *("logical_not", "logical_or", "logical_xor", "lt", "masked_select", "matmul", "max", "maximum", "mean"),
        *(
            "median",
            "min",
            "minimum",
            "mm",
            "bmm",
            "mul",
            "multiply",
            "nan_to_num",
            "ne",
            "nonzero",
            "norm",
            "normalize",
        ),
        *("not_equal", "one_hot", "ones", "ones_like", "outer", "permute", "pow", "prod", "quantile", "ravel", "relu"),
        *(
            "repeat",
            "reshape",
            "roll",
            "round",
            "scatter",
            "sigmoid",
            "sign",
            "sin",
            "softmax",
            "sort",
            "split",
            "sqrt",
        ),
        *("square", "squeeze", "stack", "std", "sub", "subtract", "sum", "take", "tanh", "tensor", "tile", "topk"),
        *("transpose", "triu", "tril", "unique", "unsqueeze", "var", "vstack", "where", "zeros", "zeros_like", "amax"),
        *("amin", "nanmean", "nansum", "expand_dims", "float32", "float64", "int64", "int32", "Tensor", "LongTensor"),
        *("FloatTensor", "binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "nll_loss"),
        *("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "softplus", "logsigmoid", "elu", "gelu"),
        *("pairwise_distance", "gaussian_nll_loss", "poisson_nll_loss", "hinge_embedding_loss"),
        *("margin_ranking_loss", "triplet_margin_loss", "soft_margin_loss", "multilabel_soft_margin_loss"),
        *("cosine_embedding_loss", "fabs", "histogram", "bitwise_not", "logsumexp", "interpolate", "count_nonzero"),
    }
)
MATH = frozenset({"exp", "sqrt", "log", "log10", "log2", "isnan", "floor", "ceil", "fabs", "pow"})
MODULES = frozenset(
    {
        *("CrossEntropyLoss", "NLLLoss", "MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "BCELoss", "KLDivLoss"),
        *("BCEWithLogitsLoss", "Softmax", "LogSoftmax", "Sigmoid", "CosineSimilarity", "PairwiseDistance", "Tanh"),
        *("MultiLabelSoftMarginLoss", "SoftMarginLoss", "ReLU", "PoissonNLLLoss", "MultiMarginLoss"),
    }
)
METHODS = FUNCTIONS - {"from_numpy", "tensor", "array", "asarray"} | frozenset(
    {
        *("add_", "append", "astype", "bool", "byte", "clear", "clone", "copy", "count", "data_ptr", "detach", "dim"),
        *("div_", "double", "endswith", "expand", "expand_as", "extend", "fill_", "float", "flip", "format", "get"),
        *("index", "index_add_", "insert", "int", "item", "items", "join", "keys", "long", "lower", "masked_fill"),
        *("masked_fill_", "mul_", "narrow", "new_zeros", "numel", "numpy", "nelement", "pop", "replace", "reverse"),
        *("reshape_as", "scatter_", "scatter_add_", "setdefault", "size", "sort", "split", "squeeze_", "startswith"),
        *("strip", "sub_", "sum_to_size", "swapaxes", "t", "tolist", "type_as", "unbind", "unsqueeze_", "update"),
        *("upper", "values", "view", "view_as", "zero_", "chunk", "half", "requires_grad_", "floor_divide", "add"),
        *(
            "discard",
            "remove",
            "cumsum",
            "true_divide",
            "type",
            "contiguous",
            "to",
            "cpu",
            "cuda",
            "rot90",
            "ndimension",
        ),
    }
)
MOVES = frozenset({"to", "cuda", "cpu", "type", "contiguous", "half", "npu", "xpu"})
# What a loss is made with, and goes by when it is called.
_OF_LOSSES = frozenset({"reduction", "ignore_index", "pos_weight", "label_smoothing", "size_average"})
_PASSED = 4  # functions that a loss is handed through
DTYPES = frozenset(
    {
        *("float", "float16", "float32", "float64", "double", "half", "bfloat16", "int", "int8", "int16", "int32"),
        *("int64", "long", "short", "bool", "uint8", "bool_", "float_", "nan", "inf", "pi", "newaxis", "e"),
    }
)
DROPPED_KEYWORDS = frozenset({"device", "non_blocking", "pin_memory"})


def library(known: Known, node: ast.expr, allowed: frozenset[str]) -> ast.expr | None:
    """A name of torch, its functional module, numpy or math, by its full path; None for any other."""
    for q in sorted(known.module.qualify(node)):
        head, _, last = q.rpartition(".")
        if head in ("torch", "torch.nn.functional", "numpy", "torch.special") and last in allowed:
            known.importing(head)
            return dotted(q)
        if (
            head == "collections"
            and last in ("deque", "Counter", "defaultdict", "OrderedDict")
            and allowed is FUNCTIONS
        ):
            known.importing("collections")
            return dotted(q)
        if head == "math" and last in MATH and allowed is not DTYPES:
            known.importing("math")
            return dotted(q)
    return None


def torch_module(known: Known, function: ast.expr) -> ast.expr | None:
    """``nn.CrossEntropyLoss()``, directly or by the name it was given; with literal settings only."""
    made = _made(known.module, function, 0)
    if not isinstance(made, ast.Call) or last_name(made.func) not in MODULES:
        return None
    home = known.module.home(made)
    if not any(q.startswith("torch.nn.") for q in home.callee(made)):
        return None
    if any(_changes_a_loss(n) for other in known.module.fellows for n in ast.walk(other.tree)):
        return None
    given = [*made.args, *(k.value for k in made.keywords)]
    if not all(is_literal(g) for g in given) or any(k.arg is None for k in made.keywords):
        return None
    known.importing("torch.nn")
    return call(dotted(f"torch.nn.{last_name(made.func)}"), *made.args, **{k.arg or "": k.value for k in made.keywords})


def _made(module: Module, function: ast.expr, depth: int) -> ast.expr | None:
    """The construction that a name, an attribute of ``self`` or a parameter stands for, where it is one alone."""
    while isinstance(function, ast.Call) and isinstance(function.func, ast.Attribute) and function.func.attr in MOVES:
        function = function.func.value
    if isinstance(function, ast.Call) or depth > _PASSED:
        return function
    found: Sequence[Definition] = ()
    if isinstance(function, ast.Name):
        found = list(module.bindings.reaching(function))
    elif isinstance(function, ast.Attribute) and ast.unparse(function.value) == "self":
        cls = module.class_of(function)
        found = module.attribute_values(cls, function.attr) if cls is not None else []
    if len(found) != 1 or found[0].index is not None:
        return None
    (d,) = found
    if d.kind == "assign" and d.value is not None:
        return _made(module.home(d.value), d.value, depth + 1)
    if d.kind != "parameter":
        return None
    given = [value for _, value in arguments_given(module, d)]
    values = [_made(module.home(v), v, depth + 1) if v is not None else None for v in given]
    texts = {ast.unparse(v) if v is not None else "" for v in values}
    return values[0] if len(texts) == 1 and values else None


def _changes_a_loss(n: ast.AST) -> bool:
    """``criterion.reduction = "sum"``: what is called is no longer as it was made."""
    if not isinstance(n, ast.Attribute) or not isinstance(n.ctx, ast.Store) or ast.unparse(n.value) == "self":
        return False
    named = any(word in last_name(n.value).lower() for word in ("loss", "crit"))
    return n.attr in _OF_LOSSES or (n.attr == "weight" and named)


def is_literal(node: ast.expr) -> bool:
    """Whether an expression is made of literals only."""
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True
