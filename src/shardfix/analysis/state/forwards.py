"""What a model's own ``forward`` shows: that it keeps something from batch to batch, or mixes a batch's samples."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shardfix.analysis.code.calling import argument_of, instance_classes
from shardfix.analysis.code.module import Module, is_false
from shardfix.analysis.code.names import arguments_of, first_name, last_name
from shardfix.analysis.metrics.losses import near
from shardfix.analysis.state.keeping import adds_up_what_it_reads

_WRAPPERS = frozenset({"DistributedDataParallel", "DDP", "DataParallel", "compile", "convert_sync_batchnorm", "to"})
_WRAPPERS_ON = frozenset({"to", "cuda", "eval", "cpu", "half", "float", "train", "requires_grad_"})
_ALONG = frozenset(
    {"softmax", "log_softmax", "softmin", "normalize", "std", "var", "cumsum", "cumprod", "sort", "argsort", "flip"}
    | {"roll", "logsumexp"}
)
_OF_PARAMETERS = frozenset({"mean", "sum", "max", "min", "amax", "amin", "norm"})
_WHOLE = frozenset({"std", "var"})
# Layers that go by the batch, in evaluation too.
_LAYERS = re.compile(r"(Soft|LogSoft)max\(\s*(dim\s*=\s*)?0\s*\)|track_running_stats\s*=\s*False")
_DEPTH = 4
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def forwards(module: Module, call: ast.Call) -> list[_Function]:
    """The ``forward`` methods of the project that a call of a model runs, as far as they are seen, those of the parts
    of the model included."""
    found: list[_Function] = []
    stack = [(call, 0)]
    while stack:
        one, depth = stack.pop()
        own = module.home(one)
        for cls in _models(own, one.func, 0):
            forward = own.method(cls, "forward")
            if forward is not None and forward not in found:
                found.append(forward)
                if depth < _DEPTH:
                    inner = (n for n in ast.walk(forward) if isinstance(n, ast.Call) and _is_own(n.func))
                    stack += [(n, depth + 1) for n in inner]
    return found


def learns(module: Module, call: ast.Call, depth: int = 0) -> bool:
    """Whether a call computes gradients or takes a step of an optimizer, by itself or in what it runs."""
    if isinstance(call.func, ast.Attribute) and call.func.attr in ("backward", "step") and not call.args:
        return True
    if depth >= _DEPTH - 1:
        return False
    run = [*module.called_functions(call, passed=False), *(forwards(module, call) if depth < 2 else ())]
    calls = ((module.home(f), n) for f in run for n in ast.walk(f) if isinstance(n, ast.Call) and n is not call)
    return any(learns(home, n, depth + 1) for home, n in calls)


def carries(module: Module, forward: _Function) -> bool:
    """Whether a model keeps something of a batch that it reads at the next one: it is read before it is stored."""
    home = module.home(forward)
    own = [n for n in ast.walk(forward) if isinstance(n, ast.Attribute) and _is_own(n)]
    first: dict[str, int] = {}
    for n in own:
        if isinstance(n.ctx, ast.Load):
            first[n.attr] = min(first.get(n.attr, n.lineno), n.lineno)
    for n in own:
        if isinstance(n.ctx, ast.Store) and first.get(n.attr, n.lineno + 1) <= n.lineno:
            around = (o.test for o in home.around(n) if isinstance(o, (ast.If, ast.IfExp)))
            if not any("training" in ast.unparse(t) or " is None" in ast.unparse(t) for t in around):
                return True
    return adds_up_what_it_reads(home, forward)


def mixes(module: Module, call: ast.Call) -> bool:
    """Whether a model of the project is seen to make something of a batch's samples together."""
    layered = any(_has_layer(m) for m in near(module) if _LAYERS.search(m.text))
    return layered or any(_mixes(f) for f in forwards(module, call))


def _has_layer(module: Module) -> bool:
    """Whether a layer that goes by the batch is part of a model: an argument of another, or an attribute of one."""
    for call in module.calls:
        if any(k.arg == "track_running_stats" and is_false(k.value) for k in call.keywords):
            return True
        along = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "dim")]
        if last_name(call.func) in ("Softmax", "LogSoftmax") and any(_is_first(a) for a in along):
            outer = module.parents.get(call)
            own = isinstance(outer, ast.Assign) and isinstance(outer.targets[0], ast.Attribute)
            if own or isinstance(outer, (ast.Call, ast.List, ast.keyword)):
                return True
    return False


def _mixes(forward: _Function) -> bool:
    stacked = {
        t.id
        for n in ast.walk(forward)
        if isinstance(n, ast.Assign) and isinstance(n.value, ast.Call) and last_name(n.value.func) in ("stack", "cat")
        for t in n.targets
        if isinstance(t, ast.Name)
    }
    given = {a.arg for a in (*forward.args.posonlyargs, *forward.args.args)} - {"self"}
    for n in ast.walk(forward):
        if isinstance(n, ast.BinOp) and isinstance(n.op, ast.MatMult) and _each_with_each(n.left, n.right):
            return True
        if not isinstance(n, ast.Call):
            continue
        name = last_name(n.func)
        receiver = n.func.value if isinstance(n.func, ast.Attribute) else None
        if name in ("matmul", "mm") and len(arguments_of(n)) >= 1:
            sides = n.args if len(n.args) == 2 else [receiver, *n.args]
            if len(sides) == 2 and sides[0] is not None and _each_with_each(sides[0], sides[1]):
                return True
        first = any(_is_first(a) for a in (*n.args, *(k.value for k in n.keywords if k.arg in ("dim", "axis", "dims"))))
        roots = {r for a in ([receiver] if receiver is not None else []) + n.args[:1] for r in [first_name(a)]}
        if first and (name in _ALONG or (name in _OF_PARAMETERS and roots & given)):
            return True
        if first and name in _OF_PARAMETERS and receiver is not None and isinstance(receiver, ast.Name):
            if receiver.id not in stacked:
                return True
        if name in _WHOLE and receiver is not None and not arguments_of(n) and roots & given:
            return True
    return False


def _each_with_each(left: ast.expr, right: ast.expr | None) -> bool:
    """``a @ b.t()``, where neither is a parameter of the model."""
    turned = isinstance(right, ast.Attribute) and right.attr == "T"
    if isinstance(right, ast.Call) and isinstance(right.func, ast.Attribute):
        turned = right.func.attr == "t"
    return turned and right is not None and "self" not in (first_name(left), first_name(right))


def _is_first(node: ast.expr) -> bool:
    if isinstance(node, (ast.Tuple, ast.List)):
        return any(_is_first(e) for e in node.elts)
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value == 0


def _is_own(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def _models(module: Module, node: ast.expr, depth: int) -> Iterator[ast.ClassDef]:
    """The classes of a model, also of one that is wrapped to be trained on several ranks."""
    own = module.home(node)
    classes = instance_classes(own, node)
    yield from classes
    if classes or depth > _DEPTH:
        return
    if isinstance(node, ast.Call):
        name = last_name(node.func)
        if isinstance(node.func, ast.Attribute) and name in _WRAPPERS_ON:
            yield from _models(own, node.func.value, depth + 1)
        elif name in _WRAPPERS and node.args:
            yield from _models(own, node.args[0], depth + 1)
        return
    for d in own.bindings.reaching(node) if isinstance(node, (ast.Name, ast.Attribute)) else ():
        if d.kind == "assign" and d.value is not None and d.index is None:
            yield from _models(own, d.value, depth + 1)
        elif d.kind == "parameter" and isinstance(d.scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for call in own.callers(d.scope):
                given = argument_of(own, d.scope, call, d.key)
                if given is not None:
                    yield from _models(own, given, depth + 1)


__all__ = ["carries", "forwards", "learns", "mixes"]
