"""What a loss of torch gives for a batch: the mean over its samples, their sum, or one value for each."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.calling import argument_of
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.metrics.quantities import MEAN, SAMPLES, SUM, Value

# The losses whose mean, their default (torch 2.13), weighs every sample of a batch alike if all are of one shape.
_MODULES = frozenset(
    f"torch.nn.{name}Loss"
    for name in (
        "CrossEntropy",
        "NLL",
        "MSE",
        "L1",
        "SmoothL1",
        "Huber",
        "BCE",
        "BCEWithLogits",
        "SoftMargin",
        "MultiLabelMargin",
        "MultiLabelSoftMargin",
        "MultiMargin",
        "MarginRanking",
        "HingeEmbedding",
        "TripletMargin",
        "CosineEmbedding",
        "PoissonNLL",
        "GaussianNLL",
    )
)
_FUNCTIONS = frozenset(
    f"torch.nn.functional.{name}"
    for name in (
        "cross_entropy",
        "nll_loss",
        "mse_loss",
        "l1_loss",
        "smooth_l1_loss",
        "huber_loss",
        "binary_cross_entropy",
        "binary_cross_entropy_with_logits",
    )
)
_BY_CLASS = ("CrossEntropyLoss", "NLLLoss", "cross_entropy", "nll_loss")
_SETTINGS = ("reduction", "ignore_index", "size_average", "reduce", "weight", "pos_weight")
# What shows that some labels are left out of a cross entropy, which by default are those of -100.
_LEFT_OUT = re.compile(r"-\s*100\b|ignore_index")
_DEPTH = 6  # names and parameters that a criterion is followed back through


def loss_of(module: Module, call: ast.Call) -> Value | None:
    """What a call of a loss of torch gives; None if it is not seen to be one, or its mean is not over samples."""
    own = module.home(call)
    if own.callee(call) & _FUNCTIONS:
        made = [call]
        found = {_reduction(own, call)}
    else:
        made = _made(own, call.func, 0)
        found = {_reduction(own, m) if own.home(m).callee(m) & _MODULES else None for m in made}
        if any(_set_later(m, call.func) for m in {own, *(own.home(m) for m in made)}):
            return None
    if len(found) != 1:
        return None
    value = found.pop()
    by_class = any(last_name(m.func).endswith(_BY_CLASS) for m in made)
    if value is not None and value.kind == "mean" and by_class and any(_LEFT_OUT.search(m.text) for m in near(own)):
        return None  # a mean over the labels that are not left out
    return value


def _set_later(module: Module, criterion: ast.expr) -> bool:
    """Whether a loss is told otherwise after it is made: ``criterion.reduction = "sum"``, by ``setattr`` too."""
    named = last_name(criterion)
    for d in module.bindings.definitions:
        base, _, attribute = d.key.rpartition(".")
        if base and attribute in _SETTINGS and (base.rpartition(".")[2] == named or attribute == "reduction"):
            return True
    calls = (c for c in module.calls if last_name(c.func) in ("setattr", "__setattr__", "register_buffer"))
    return any(last_name(a) == named for c in calls for a in (*c.args[:1], c.func))


def near(module: Module) -> Iterator[Module]:
    """A file, and the files of the project that it imports or that import it."""
    yield module
    mine = {d.module for d in module.bindings.definitions if d.kind == "import"}
    for m in module.fellows:
        theirs = (d.module for d in m.bindings.definitions if d.kind == "import")
        if m is not module and (_imports(mine, m) or _imports(theirs, module)):
            yield m


def _imports(names: Iterable[str], module: Module) -> bool:
    return any(name == module.name or name.startswith(module.name + ".") for name in names)


def made_by(module: Module, node: ast.expr) -> list[ast.Call]:
    """The calls that make what an expression stands for; empty where they are not all seen."""
    return _made(module, node, 0)


def _made(module: Module, node: ast.expr, depth: int) -> list[ast.Call]:
    """The calls that make what an expression stands for; a call that is not followed stands for itself."""
    if isinstance(node, ast.Call):
        receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("to", "cuda", "cpu", "half", "float"):
            return _made(module, receiver, depth) if receiver is not None else []
        return _returned(module, node, depth) or [node]
    if isinstance(node, ast.IfExp):
        return [*_made(module, node.body, depth), *_made(module, node.orelse, depth)]
    own = module.home(node)
    definitions: list[Definition] = list(own.bindings.reaching(node))
    cls = own.class_of(node)
    if not definitions and isinstance(node, ast.Attribute) and cls is not None:
        if isinstance(node.value, ast.Name) and node.value.id == "self":
            definitions = own.attribute_values(cls, node.attr)
    if not definitions or depth > _DEPTH:
        return []
    found: list[ast.Call] = []
    for d in definitions:
        given: list[ast.expr | None] = [d.value] if d.kind == "assign" and d.index is None else []
        if d.kind == "parameter" and isinstance(d.scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
            given = [argument_of(own, d.scope, call, d.key) for call in own.callers(d.scope)]
        if not given:
            return []
        for value in given:
            made = _made(own.home(value), value, depth + 1) if value is not None else []
            if not made:
                return []
            found += made
    return found


def _returned(module: Module, call: ast.Call, depth: int) -> list[ast.Call]:
    """The calls that make what a factory of the project returns."""
    functions = module.called_functions(call)
    if len(functions) != 1 or functions[0].name == "__init__" or depth > _DEPTH:
        return []
    home = module.home(functions[0])
    found: list[ast.Call] = []
    for n in ast.walk(functions[0]):
        if isinstance(n, ast.Return) and home.function(n) is functions[0]:
            made = _made(home, n.value, depth + 1) if n.value is not None else []
            if not made:
                return []
            found += made
    return found


def _reduction(module: Module, call: ast.Call) -> Value | None:
    told = {k.arg: k.value for k in call.keywords}
    if None in told or "size_average" in told or "reduce" in told:
        return None
    reduction = told.get("reduction")
    word = "mean" if reduction is None else reduction.value if isinstance(reduction, ast.Constant) else ""
    if word == "sum":
        return SUM
    if word == "none":
        return SAMPLES
    if word != "mean":
        return None
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name.endswith(_BY_CLASS) and ("weight" in told or "ignore_index" in told):
        return None  # a mean over weights, or over the samples that are not left out
    if name[:1].isupper() and call.args:
        return None
    if not name[:1].isupper() and len(call.args) > 2:
        return None
    return MEAN


__all__ = ["loss_of", "made_by", "near"]
