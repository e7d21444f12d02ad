"""What an expression that the batches do not decide is taken for granted to be, in words: the same in all processes."""

from __future__ import annotations

import ast

from shardfix.analysis.code.names import last_name
from shardfix.analysis.loops.accumulation import root_of
from shardfix.proof.metrics.apart import makes_a_value
from shardfix.proof.metrics.known import Known, is_length
from shardfix.proof.metrics.texts import is_tokenizer
from shardfix.proof.recipes.choices import text_of

_CONTAINERS = frozenset({"list", "dict", "set", "deque", "Counter", "defaultdict"})
_CHANCE = ("random.", "numpy.random.", "torch.rand", "torch.normal", "torch.bernoulli", "torch.multinomial", "uuid.")
_WEIGHTS = frozenset({"state_dict", "parameters", "named_parameters"})  # no value of an evaluation
_NEXT = frozenset({"next", "__next__", "pop", "popleft", "popitem", "send", "readline"})


def unseen(known: Known, node: ast.expr) -> list[str]:
    """What a stand-in for an expression rests on: nothing draws by chance, and nothing changes with the batches."""
    found = _by_chance(known, node)
    for n in ast.walk(node):
        changes = isinstance(n, ast.Attribute) and _may_change(known, n)
        if changes or (isinstance(n, ast.Name) and _may_grow(known, n)):
            found.append(f"the evaluation does not decide `{text_of(n)}`")  # type: ignore[arg-type]
    return found


def is_given_a_length(known: Known, node: ast.Name) -> bool:
    """Whether a caller gives a parameter the length of something."""
    function = known.module.scope(node)
    return any(
        is_length(n) and (parameter := known.module.parameter_for(c, a)) is not None and parameter.arg == node.id
        for c in known.module.callers(function)
        for a in [*c.args, *(k.value for k in c.keywords)]
        for n in ast.walk(a)
    )


def is_of_the_loader(known: Known, node: ast.Attribute) -> bool:
    """Whether an attribute is the loader's or its dataset's own, which may count what is read."""
    datasets = [known.dataset, *(f"{loader}.dataset" for loader in known.loaders)]
    return ast.unparse(node.value) in known.loaders or root_of(node.value) in datasets


def _by_chance(known: Known, node: ast.expr) -> list[str]:
    """What is not the same on all ranks, or for all batches, of an expression that the batches do not decide."""
    module, found = known.module, []
    for n in ast.walk(node):
        if not isinstance(n, ast.Call):
            continue
        if any(q.startswith(_CHANCE) for q in module.callee(n)):
            found.append(f"`{text_of(n)}` gives the same on all ranks")
        elif n in known.repeated and (last_name(n.func) in _NEXT or not makes_a_value(module, n)):
            found.append(f"`{text_of(n)}` gives the same for each batch")
    return found


def _may_grow(known: Known, node: ast.Name) -> bool:
    """Whether a name is that of a list or dict that begins empty: a hook or another function may fill it."""
    values = [d.value for d in known.module.bindings.reaching(node) if d.kind == "assign" and d.index is None]
    return any(
        (isinstance(v, ast.List) and not v.elts)
        or (isinstance(v, ast.Dict) and not v.keys)
        or (isinstance(v, ast.Call) and not v.args and last_name(v.func) in _CONTAINERS)
        for v in values
    )


def _may_change(known: Known, node: ast.Attribute) -> bool:
    """Whether an attribute may go by the batches: of an object that is told of them, or set by their number."""
    if ast.unparse(node.value).removesuffix(".module") in known.told_of:
        outer = known.module.home(node).parents.get(node)
        if node.attr == "module" and isinstance(outer, ast.Attribute):
            return False  # what DistributedDataParallel wraps: it is asked of that
        if isinstance(outer, ast.Call) and outer.func is node and node.attr in _WEIGHTS:
            return False
        return not _is_a_setting(known, node.attr) and not is_tokenizer(known.module, node.value)
    cls = known.module.class_of(node)
    if cls is None or ast.unparse(node.value) != "self":
        return False
    values = [d.value for d in known.module.attribute_values(cls, node.attr)]
    return any(isinstance(n, ast.Call) and last_name(n.func) == "len" for v in values if v for n in ast.walk(v))


def _is_a_setting(known: Known, attribute: str) -> bool:
    """Whether all that sets an attribute of this name in the project is a class where it is made."""
    found = False
    for module in known.module.fellows:
        for n in ast.walk(module.tree):
            if isinstance(n, ast.Attribute) and n.attr == attribute and not isinstance(n.ctx, ast.Load):
                function, outer = module.scope(n), module.parents[n]
                own = isinstance(function, ast.FunctionDef) and function.name == "__init__"
                if not own or not isinstance(outer, (ast.Assign, ast.AnnAssign)):
                    return False
                found = True
            elif isinstance(n, ast.Constant) and n.value == attribute:
                return False  # it may be set by its name
    return found


__all__ = ["is_given_a_length", "is_of_the_loader", "unseen"]
