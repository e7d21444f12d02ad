"""Whether what is called is a model, of which one row for each sample of a batch may be taken."""

from __future__ import annotations

import ast
import re

from shardfix.analysis.code.calling import instance_classes
from shardfix.analysis.code.module import Module

_WORDS = re.compile(
    r"model|net|module|encoder|decoder|backbone|head|classif|generator|discriminator|student|teacher|bert|gpt|vit|policy",
    re.IGNORECASE,
)
_OF_MODULES = frozenset({"eval", "train", "state_dict", "load_state_dict", "parameters", "requires_grad_", "half"})
_DECODES = frozenset({"batch_decode"})  # transformers: one text for each row
_SOFTMAX = frozenset({"torch.nn.Softmax", "torch.nn.LogSoftmax", "torch.nn.Softmin"})


def gives_rows(module: Module, call: ast.Call) -> bool:
    """Whether a call that is not read into runs a model (or decodes what one gives), by what is called.

    A model is an object of a class of the project with ``forward``, a layer of torch, what is set to evaluate or told
    by name; a criterion, a metric and a function of another library are none.
    """
    func = call.func
    if isinstance(func, ast.Attribute) and func.attr in _DECODES:
        return True
    own = module.home(call)
    if isinstance(func, ast.Call):
        return any(q.startswith("torch.nn.") for q in own.callee(func)) and _layer(own, func)
    if not isinstance(func, (ast.Name, ast.Attribute)):
        return False
    if any("." in q for q in own.callee(call) if not _of_project(own, q)):
        return False
    if any(_is_no_model(own, d.value) for d in own.bindings.reaching(func) if d.kind == "assign"):
        return False
    made = [d.value for d in own.bindings.reaching(func) if d.kind == "assign" and isinstance(d.value, ast.Call)]
    layers = [m for m in made if any(q.startswith("torch.nn.") for q in own.callee(m))]
    if layers:
        return all(_layer(own, m) for m in layers)
    named = ast.unparse(func)
    if "loss" in named.lower() or "criterion" in named.lower():
        return False
    if any(own.method(cls, "forward") is not None for cls in instance_classes(own, func)):
        return True
    return bool(_WORDS.search(named)) or named == "self" or _is_module(own, func)


def _is_no_model(module: Module, value: ast.expr | None) -> bool:
    """Whether what a name stands for is seen, and is a function or one of several things, whatever the name is."""
    if isinstance(value, ast.IfExp):
        return _is_no_model(module, value.body) or _is_no_model(module, value.orelse)
    if isinstance(value, ast.Call):
        return any(q in ("functools.partial", "torch.vmap", "torch.func.vmap") for q in module.callee(value))
    if isinstance(value, ast.Name):
        return any(d.kind == "function" for d in module.bindings.reaching(value))
    return isinstance(value, (ast.Lambda, ast.Dict, ast.List, ast.Constant))


def _of_project(module: Module, name: str) -> bool:
    return bool(module.named(name))


def _layer(module: Module, made: ast.Call) -> bool:
    names = module.callee(made)
    if names & _SOFTMAX:
        along = [*made.args, *(k.value for k in made.keywords)]
        fixed = [a.operand if isinstance(a, ast.UnaryOp) else a for a in along]
        return bool(fixed) and all(isinstance(a, ast.Constant) and a.value for a in fixed)
    return not any(q.endswith("Loss") for q in names)


def gives_several(module: Module, node: ast.expr) -> bool:
    """Whether a model is seen to give several outputs: by how it is called, by what its ``forward`` returns, by how
    the others are taken."""
    own = module.home(node)
    calls = [node] if isinstance(node, ast.Call) else []
    readers: list[ast.AST] = []
    for d in own.bindings.reaching(node) if isinstance(node, (ast.Name, ast.Attribute)) else ():
        calls += [d.value] if isinstance(d.value, ast.Call) else []
        readers += own.bindings.readers(d)
    for call in calls:
        if isinstance(call.func, ast.Attribute) and call.func.attr == "to_tuple":
            return True
        if call.keywords or any(isinstance(a, ast.Starred) for a in call.args):
            return True  # as the models of transformers are called
        forwards = [f for cls in instance_classes(own, call.func) if (f := own.method(cls, "forward")) is not None]
        returned = [n.value for f in forwards for n in ast.walk(f) if isinstance(n, ast.Return)]
        if returned and all(isinstance(v, (ast.Tuple, ast.Dict)) for v in returned):
            return True
    taken: set[str] = set()
    for reader in readers:
        outer = own.parents.get(reader)
        if isinstance(outer, ast.Assign) and outer.value is reader and isinstance(outer.targets[0], ast.Tuple):
            return True
        if isinstance(outer, ast.Subscript) and isinstance(outer.slice, ast.Constant):
            taken.add(str(outer.slice.value))
        if isinstance(outer, ast.Attribute) and outer.attr in ("loss", "logits", "hidden_states", "keys", "items"):
            return True
        if isinstance(outer, ast.Call) and isinstance(outer.func, ast.Name) and outer.func.id == "isinstance":
            return True  # ``if isinstance(output, tuple): output = output[0]``
    return len(taken) > 1


def along_the_last(module: Module, call: ast.Call) -> bool:
    """Whether a call runs a softmax along the last dimension, which may be that of the samples."""
    own, func = module.home(call), call.func
    made = (
        [func]
        if isinstance(func, ast.Call)
        else [d.value for d in own.bindings.reaching(func) if isinstance(d.value, ast.Call)]
    )
    softmax = [m for m in made if own.callee(m) & _SOFTMAX]
    return any(isinstance(a, ast.UnaryOp) for m in softmax for a in (*m.args, *(k.value for k in m.keywords)))


def _is_module(module: Module, func: ast.expr) -> bool:
    """Whether an object of this name is somewhere told what only models are."""
    name = ast.unparse(func)
    told = (c.func for c in module.home(func).calls if isinstance(c.func, ast.Attribute))
    return any(method.attr in _OF_MODULES and ast.unparse(method.value) == name for method in told)


__all__ = ["along_the_last", "gives_rows", "gives_several"]
