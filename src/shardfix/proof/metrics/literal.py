"""The body of an evaluation loop as it is written, to be run on rows that stand for a model's output and for a batch.

Only literals, operators, listed functions of torch, numpy and Python, and listed methods of their values are kept;
functions of the project's own are translated by the same rules, and are not called where that is not possible.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from shardfix.analysis.code.bindings import parameters
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.proof.recipes.choices import text_of
from shardfix.proof.recipes.regime import call, name
from shardfix.proof.stop import Stop

_BUILTINS = frozenset(
    {
        *("len", "sum", "max", "min", "round", "int", "float", "abs", "bool", "range", "sorted", "enumerate", "list"),
        *("tuple", "zip", "set", "dict", "str", "any", "all", "reversed", "pow", "divmod"),
    }
)
# Functions that make values of values: of torch, torch.nn.functional and numpy.
_FUNCTIONS = frozenset(
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
_MATH = frozenset({"exp", "sqrt", "log", "log10", "log2", "isnan", "floor", "ceil", "fabs", "pow"})
_MODULES = frozenset(
    {
        *("CrossEntropyLoss", "NLLLoss", "MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "BCELoss", "KLDivLoss"),
        *("BCEWithLogitsLoss", "Softmax", "LogSoftmax", "Sigmoid", "CosineSimilarity", "PairwiseDistance", "Tanh"),
        *("MultiLabelSoftMarginLoss", "SoftMarginLoss", "ReLU", "PoissonNLLLoss", "MultiMarginLoss"),
    }
)
_METHODS = _FUNCTIONS - {"from_numpy", "tensor", "array", "asarray"} | frozenset(
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
_MOVES = frozenset({"to", "cuda", "cpu", "type", "contiguous", "half", "npu", "xpu"})
_DTYPES = frozenset(
    {
        *("float", "float16", "float32", "float64", "double", "half", "bfloat16", "int", "int8", "int16", "int32"),
        *("int64", "long", "short", "bool", "uint8", "bool_", "float_", "nan", "inf", "pi", "newaxis", "e"),
    }
)
_DROPPED_KEYWORDS = frozenset({"device", "non_blocking", "pin_memory"})
_REBUILT = (
    *(ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Tuple, ast.List, ast.Set, ast.Dict, ast.Slice),
    *(ast.JoinedStr, ast.FormattedValue, ast.Starred),
)
_COMPREHENSIONS = (ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)
_NESTED = 3  # functions in functions that are read


Kept = Callable[[ast.expr, ast.Call], ast.expr]


@dataclass
class Literal:
    """Translates statements and expressions of one scope.

    Args:
        tracked: the variables of what follows from a batch, by how they are written.
        outside: what to make of an expression that does not follow from a batch.
        kind: what the analysis takes an expression for.
        own: a statement that is known another way (a meter's update), translated; None for all others.
        untracked: what to make of a call that nobody takes the result of and whose receiver is not tracked.
        stand_ins: the expressions that were replaced, and by what; added to. ``assumed``: what is not shown; added to.
        functions: the functions of the project that were translated, by their names here; added to.
    """

    module: Module
    tracked: dict[str, str]
    outside: Callable[[ast.expr], ast.expr]
    kind: Callable[[ast.expr], str]
    own: Callable[[ast.stmt, Literal], list[ast.stmt] | None]
    untracked: Callable[[ast.Call], None]
    stand_ins: dict[str, str]
    assumed: list[str]
    functions: dict[str, ast.stmt] = field(default_factory=dict)
    imports: set[str] = field(default_factory=set)
    local: list[str] = field(default_factory=list)
    outputs: set[str] = field(default_factory=set)
    depth: int = 0

    # -- statements ------------------------------------------------------------------------------------------

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Statements, one after the other.

        Raises:
            Stop: one of them can't be run as it is.
        """
        return [made for s in body for made in self.statement(s)]

    def statement(self, s: ast.stmt) -> list[ast.stmt]:
        """One statement."""
        own = self.own(s, self)
        if own is not None:
            return own
        if isinstance(s, (ast.Assign, ast.AnnAssign)):
            if s.value is None:
                return []
            targets = s.targets if isinstance(s, ast.Assign) else [s.target]
            value = self.value(s.value)
            for target in targets:
                if isinstance(target, (ast.Tuple, ast.List)):
                    self._whole(s.value)
                    value = call(name("PARTS"), value, ast.Constant(len(target.elts)))
                elif self._is_output(s.value):
                    self.outputs.add(ast.unparse(target))
                else:
                    self.outputs.discard(ast.unparse(target))
            return [ast.Assign([self.target(t) for t in targets], value, lineno=0)]
        if isinstance(s, ast.AugAssign):
            return [ast.AugAssign(self.target(s.target), s.op, self.value(s.value))]  # type: ignore[arg-type]
        if isinstance(s, ast.Expr):
            return self._called(s.value)
        if isinstance(s, ast.If):
            body, orelse = self.block(s.body), self.block(s.orelse)
            if not body and not orelse:
                return []
            return [ast.If(self.value(s.test), body or [ast.Pass()], orelse)]
        if isinstance(s, ast.For):
            return [ast.For(self.target(s.target), self.value(s.iter), self.block(s.body) or [ast.Pass()], [])]
        if isinstance(s, ast.With):
            return self.block(s.body)  # no_grad, autocast: nothing here has a gradient
        if isinstance(s, ast.Return) and self.depth:
            return [ast.Return(self.value(s.value) if s.value is not None else None)]
        if isinstance(s, (ast.Continue, ast.Break, ast.Pass)):
            return [s]
        if isinstance(s, (ast.Assert, ast.Delete, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal)):
            return []
        raise self.stop("a statement can't be run as it is", s)

    def target(self, node: ast.expr) -> ast.expr:
        """What is written to."""
        text = ast.unparse(node)
        if text in self.tracked:
            return ast.Name(self.tracked[text], ast.Store())
        if isinstance(node, (ast.Tuple, ast.List)):
            return type(node)([self.target(e) for e in node.elts], ast.Store())
        if isinstance(node, ast.Starred):
            return ast.Starred(self.target(node.value), ast.Store())
        if isinstance(node, ast.Subscript) and self.follows(node.value):
            return ast.Subscript(self.value(node.value), self.value(node.slice), ast.Store())
        raise self.stop(f"`{text_of(node)}` is written to, which is not followed", node)

    def _called(self, node: ast.expr) -> list[ast.stmt]:
        if isinstance(node, ast.Constant) or not isinstance(node, ast.Call):
            return []
        receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
        if receiver is not None and self.follows(receiver) and ast.unparse(receiver) not in self.tracked:
            if not isinstance(receiver, (ast.Subscript, ast.Call)):
                raise self.stop(f"`{text_of(node)}` is not followed", node)
            return [ast.Expr(self.value(node))]
        if receiver is not None and ast.unparse(receiver) in self.tracked:
            return [ast.Expr(self.value(node))]
        self.untracked(node)
        return []

    # -- expressions -----------------------------------------------------------------------------------------

    def follows(self, node: ast.AST) -> bool:
        """Whether something of an expression follows from a batch."""
        return any(
            isinstance(n, (ast.Name, ast.Attribute))
            and (ast.unparse(n) in self.tracked or (isinstance(n, ast.Name) and n.id in self.local))
            for n in ast.walk(node)
        )

    def value(self, node: ast.expr) -> ast.expr:
        """An expression as it is, but for what is not to be run.

        Raises:
            Stop: it can't be run as it is.
        """
        text = ast.unparse(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""
        if isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id in self.local):
            return node
        if text in self.tracked:
            return name(self.tracked[text])
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, _COMPREHENSIONS):
            return self._comprehension(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        if not self.follows(node) and isinstance(node, (ast.Name, ast.Subscript)):
            return self.outside(node)
        if isinstance(node, ast.Subscript):
            if not self.follows(node.value):  # a table of the program's, by what is looked up in it
                self.stand_ins[text_of(node.value)] = "what is looked up decides what it gives"
                return call(name("LOOKUP"), ast.Constant(text_of(node.value)), self.value(node.slice))
            if self._is_output(node.value):
                self._whole(node.value, node.slice)
            return ast.Subscript(self.value(node.value), self.value(node.slice), ast.Load())
        if isinstance(node, _REBUILT):
            return self._rebuilt(node)
        raise self.stop(f"`{text_of(node)}` can't be run as it is", node)

    def _rebuilt(self, node: ast.expr) -> ast.expr:
        fields: dict[str, Any] = {}
        for key, old in ast.iter_fields(node):
            if isinstance(old, ast.expr):
                fields[key] = self.value(old)
            elif isinstance(old, list) and all(isinstance(item, ast.expr) or item is None for item in old):
                fields[key] = [None if item is None else self.value(item) for item in old]
            else:
                fields[key] = old
        made: ast.expr = type(node)(**fields)
        return made

    def _comprehension(self, node: ast.expr) -> ast.expr:
        bound = len(self.local)
        generators = []
        for g in getattr(node, "generators", []):
            turn = self.value(g.iter)
            self.local += [n.id for n in ast.walk(g.target) if isinstance(n, ast.Name)]
            generators.append(ast.comprehension(g.target, turn, [self.value(c) for c in g.ifs], 0))
        fields: dict[str, Any] = {"generators": generators}
        fields |= {key: self.value(old) for key, old in ast.iter_fields(node) if isinstance(old, ast.expr)}
        del self.local[bound:]
        made: ast.expr = type(node)(**fields)
        return made

    def _attribute(self, node: ast.Attribute) -> ast.expr:
        library = self._library(node, _DTYPES)
        if library is not None:
            return library
        if self.follows(node.value):
            return call(name("FIELD"), self.value(node.value), ast.Constant(node.attr))
        return self.outside(node)

    def _library(self, node: ast.expr, allowed: frozenset[str]) -> ast.expr | None:
        """A name of torch, its functional module or numpy, by its full path; None for any other."""
        for q in sorted(self.module.qualify(node)):
            head, _, last = q.rpartition(".")
            if head in ("torch", "torch.nn.functional", "numpy", "torch.special") and last in allowed:
                self.imports.add(f"import {head}")
                return _path(q)
            if head == "math" and last in _MATH and allowed is not _DTYPES:
                self.imports.add("import math")
                return _path(q)
        return None

    def _call(self, node: ast.Call) -> ast.expr:
        function = last_name(node.func)
        callee = self.module.callee(node)
        receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
        if function in ("reduced", "in_order", "unpadded"):
            raise self.stop("ranks are put together within the loop", node)
        if isinstance(node.func, ast.Name) and function in _BUILTINS and f"builtins.{function}" in callee:
            if not self.follows(node):
                return self.outside(node)
            return self._kept(name(function), node)
        library = self._library(node.func, _FUNCTIONS)
        if library is not None:
            return self._kept(library, node)
        module = self._torch_module(node.func)
        if module is not None:
            return self._kept(module, node)
        if receiver is not None and self.follows(receiver):
            if function in _MOVES:
                types = [a for a in node.args if self._library(a, _DTYPES) is not None]
                kept = self.value(receiver)
                return call(ast.Attribute(kept, "to", ast.Load()), self.value(types[0])) if types else kept
            if function not in _METHODS:
                raise self.stop(f"`.{function}()` can't be run as it is", node)
            return self._kept(ast.Attribute(self.value(receiver), function, ast.Load()), node)
        if isinstance(receiver, ast.Constant) and function in ("join", "format"):
            return self._kept(ast.Attribute(receiver, function, ast.Load()), node)
        if not self.follows(node):
            return self.outside(node)
        return self.inlined(node) or self._stand_in(node)

    def _kept(self, function: ast.expr, node: ast.Call) -> ast.expr:
        args = [self.value(a) for a in node.args]
        if any(k.arg is None for k in node.keywords):
            raise self.stop("keywords are not seen", node)
        keywords = {k.arg: self.value(k.value) for k in node.keywords if k.arg and k.arg not in _DROPPED_KEYWORDS}
        return call(function, *args, **keywords)

    def _torch_module(self, function: ast.expr) -> ast.expr | None:
        """``nn.CrossEntropyLoss()``, directly or by the name it was given; with literal settings only."""
        made: ast.expr | None = function
        if isinstance(function, ast.Name):
            found = list(self.module.bindings.reaching(function))
            one = found[0] if len(found) == 1 else None
            made = one.value if one is not None and one.kind == "assign" and one.index is None else None
        elif isinstance(function, ast.Attribute) and ast.unparse(function.value) == "self":
            cls = self.module.class_of(function)
            values = self.module.attribute_values(cls, function.attr) if cls is not None else []
            made = values[0].value if len(values) == 1 else None
        while isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) and made.func.attr in _MOVES:
            made = made.func.value
        if not isinstance(made, ast.Call) or last_name(made.func) not in _MODULES:
            return None
        if not any(q.startswith("torch.nn.") for q in self.module.callee(made)):
            return None
        given = [*made.args, *(k.value for k in made.keywords)]
        if not all(_is_literal(g) for g in given) or any(k.arg is None for k in made.keywords):
            raise self.stop(f"`{text_of(made)}` is not seen whole", made)
        self.imports.add("import torch.nn")
        return call(
            _path(f"torch.nn.{last_name(made.func)}"), *made.args, **{k.arg or "": k.value for k in made.keywords}
        )

    def inlined(self, node: ast.Call, kept: Kept | None = None) -> ast.expr | None:
        """A call of a function of the project's own, which is translated too; None where that can't be.

        Args:
            kept: makes the call of what it is given and the original one; translates its arguments as here without.
        """
        kept = kept or self._kept
        lambda_ = self._lambda(node.func)
        if lambda_ is not None:
            bound = len(self.local)
            self.local += [a.arg for a in parameters(lambda_)]
            try:
                made_of: ast.expr = ast.Lambda(lambda_.args, self.value(lambda_.body))
            except Stop:
                return None
            finally:
                del self.local[bound:]
            return kept(made_of, node)
        found = self.module.called_functions(node)
        if len(found) != 1 or self.depth >= _NESTED or not isinstance(found[0], ast.FunctionDef):
            return None
        function = found[0]
        plain = all(
            ast.unparse(d) in ("torch.no_grad()", "staticmethod", "torch.inference_mode()")
            for d in function.decorator_list
        )
        home = self.module.home(function)
        if not plain or (
            home.class_of(function) is not None and "staticmethod" not in map(ast.unparse, function.decorator_list)
        ):
            return None
        arguments = function.args
        defaults = [*arguments.defaults, *(d for d in arguments.kw_defaults if d is not None)]
        if arguments.kwarg or arguments.vararg or not all(_is_literal(d) for d in defaults):
            return None
        label = f"F_{function.name}"
        if label not in self.functions:
            stored = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            names = stored | {a.arg for a in parameters(function)}
            inner = Literal(
                *(home, {n: n for n in names}, self.outside, lambda _: "", lambda *_: None, self._refused),
                *(self.stand_ins, self.assumed, self.functions, self.imports),
                depth=self.depth + 1,
            )
            before = len(self.assumed)
            try:
                body = inner.block([s for s in function.body if not _is_docstring(s)])
            except Stop:
                del self.assumed[before:]
                return None
            made = ast.parse(f"def {label}(): pass").body[0]
            assert isinstance(made, ast.FunctionDef)
            made.args, made.body = _bare(arguments), body or [ast.Pass()]
            self.functions[label] = made
        return kept(name(label), node)

    def _refused(self, node: ast.Call) -> None:
        if last_name(node.func) != "print":
            raise self.stop(f"what `{text_of(node)}` does is not followed", node)

    def _lambda(self, function: ast.expr) -> ast.Lambda | None:
        if not isinstance(function, ast.Name):
            return None
        found = list(self.module.bindings.reaching(function))
        value = found[0].value if len(found) == 1 and found[0].kind == "assign" else None
        return value if isinstance(value, ast.Lambda) else None

    # -- stand-ins -------------------------------------------------------------------------------------------

    def _stand_in(self, node: ast.Call) -> ast.expr:
        """A call that is not run, of rows: a model, or a function that is taken for what the analysis takes it for."""
        words = text_of(node.func)
        kind = self.kind(node)
        if not kind:
            kind = "mean" if "loss" in words.lower() or "criterion" in words.lower() else "output"
        is_loss = any(w in words.lower() for w in ("loss", "criterion", "crit"))
        known = self.module.called_functions(node)
        library = any("." in q for q in self.module.callee(node)) and not self.module.instances(node.func)
        model = bool(self.module.instances(node.func)) or not known
        if (known and not (model and kind == "output")) or library:
            self.assumed.append(f"`{text_of(node)}` gives {_TAKEN.get(kind, _TAKEN['output'])}")
        given = [self.value(a) for a in node.args]
        keywords = [ast.keyword(k.arg, self.value(k.value)) for k in node.keywords]
        stand_in = {"mean": "MEAN_OF", "sum": "SUM_OF", "output": "MODEL", "samples": "MODEL"}.get(kind)
        if stand_in is None and is_loss:
            stand_in, kind = "MEAN_OF", "mean"
        if stand_in is None:
            raise self.stop(f"what `{text_of(node)}` gives is not known", node)
        self.stand_ins[text_of(node)] = _TAKEN[kind]
        return ast.Call(name(stand_in), [ast.Constant(words), *given], keywords)

    def _is_output(self, node: ast.expr) -> bool:
        """Whether an expression is what a model gives, as a whole."""
        if ast.unparse(node) in self.outputs:
            return True
        if not isinstance(node, ast.Call) or not self.follows(node):
            return False
        receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
        unknown = not (receiver is not None and self.follows(receiver)) and not self.module.callee(node)
        return unknown and self._library(node.func, _FUNCTIONS) is None and self.kind(node) in ("", "output")

    def _whole(self, node: ast.expr, key: ast.expr | None = None) -> None:
        """A model may give several things: which of them is meant is not known.

        Raises:
            Stop: one of them is taken.
        """
        first = (
            key is None
            or isinstance(key, (ast.Constant, ast.UnaryOp))
            or (isinstance(key, ast.Slice) and not (key.lower is None and key.upper is None))
        )
        if first and self._is_output(node):
            raise self.stop(f"which part of `{text_of(node)}` is taken is not known", node)

    def stop(self, reason: str, node: ast.AST) -> Stop:
        return Stop(reason, self.module.home(node).location(node))


_TAKEN = {
    "mean": "a mean over the samples",
    "sum": "a sum over the samples",
    "output": "a row for each sample, by that sample alone",
    "samples": "a row for each sample, by that sample alone",
}


def _path(qualified: str) -> ast.expr:
    node = ast.parse(qualified, mode="eval").body
    assert isinstance(node, ast.expr)
    return node


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True


def _is_docstring(s: ast.stmt) -> bool:
    return isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant)


def _bare(arguments: ast.arguments) -> ast.arguments:
    """Parameters without their annotations."""
    plain = [[ast.arg(a.arg) for a in group] for group in (arguments.posonlyargs, arguments.args, arguments.kwonlyargs)]
    return ast.arguments(plain[0], plain[1], None, plain[2], arguments.kw_defaults, None, arguments.defaults)


__all__ = ["Literal"]
