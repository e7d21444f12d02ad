"""What a program that shards its evaluation already may do to combine the ranks' parts where it is not seen: sent from
rank to rank, written to a file for each, handed to a library or to another process, divided by the ranks' number."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of, last_name
from shardfix.analysis.metrics.model import Obstacle
from shardfix.analysis.programs.processes import is_rank, is_world_size, main_process_guard
from shardfix.analysis.state.unread import ALONE, is_read

_DISTRIBUTED = "torch.distributed."
# What of torch.distributed neither combines nor sends anything.
_HARMLESS = frozenset(
    {"barrier", "monitored_barrier", "init_process_group", "destroy_process_group", "is_available", "ReduceOp"}
    | {"is_initialized", "is_torchelastic_launched", "new_group"}
)
_COMBINES = re.compile(r"reduce|gather|scatter|broadcast|^i?send$|^i?recv$|all_to_all")
_APPLY = frozenset({"map", "starmap", "imap", "filter", "reduce", "tree_map", "apply", "partial", "submit"})
_TO_OTHERS = frozenset({"put", "put_nowait", "send", "send_bytes", "isend", "rpc_sync", "rpc_async"})
_SHOWS = re.compile(r"print|log|info|debug|warning|error|write|scalar|display|describe|postfix|format|^str$|update")
_RANKS = re.compile(r"^(n|num|number_of)_?(gpus?|procs?|processes|replicas|devices|ranks)$|^device_count$", re.I)
_OF_TRAINING = re.compile(r"train|batch|(^|_)lr|learning|worker|thread|warm|accum|epoch", re.IGNORECASE)
_Functions = (ast.FunctionDef, ast.AsyncFunctionDef)

Holds = Callable[[ast.AST], bool]
Collective = Callable[[ast.AST], bool]


def handed_out(module: Module, nodes: Iterable[ast.AST], holds: Holds, collective: Collective) -> Obstacle | None:
    """The first of these nodes that hands on what a rank gathered to where it may be combined out of sight.

    Args:
        nodes: those behind the loop, of one function.
        holds: whether an expression holds something of what was gathered.
        collective: whether a function of the project combines values across ranks.
    """
    for n in nodes:
        why = ""
        if isinstance(n, ast.Call):
            why = _call(module, n, holds, collective)
        elif isinstance(n, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and n.value is not None and holds(n.value):
            targets = n.targets if isinstance(n, ast.Assign) else [n.target]
            why = next((w for t in targets if (w := _stored(module, t, collective))), "")
        elif isinstance(n, (ast.With, ast.AsyncWith)):
            opened = [i.context_expr for i in n.items if _named_by_rank(module, i.context_expr)]
            why = _APART.format(ast.unparse(opened[0])) if opened else ""
        if why:
            return Obstacle(n, why)
    return None


_APART = "`{}` keeps each rank's results apart, and they may be put together elsewhere"


def _call(module: Module, call: ast.Call, holds: Holds, collective: Collective) -> str:
    given = arguments_of(call)
    told = any(holds(a) for a in given)
    receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
    name = last_name(call.func)
    shown = bool(_SHOWS.search(name)) or (receiver is not None and bool(_SHOWS.search(ast.unparse(receiver).lower())))
    modes = [a.value for a in given[1:] if isinstance(a, ast.Constant)]
    if name == "open" and any(isinstance(m, str) and "a" in m for m in modes):
        if main_process_guard(module, call) is None:
            return f"`{ast.unparse(call)}` adds each rank's results to a file, and they may be put together elsewhere"
    if any(_named_by_rank(module, a) for a in given) and not shown and name not in ("device", "to", "cuda"):
        return _APART.format(ast.unparse(call))
    if not told:
        return ""
    named = module.callee(call)
    if any(q.startswith(_DISTRIBUTED) and q.rpartition(".")[2] not in _HARMLESS for q in named):
        return "" if name.startswith(("get_", "is_")) else f"`{name}(..)` sends the ranks' values to one another"
    if not isinstance(call.func, (ast.Name, ast.Attribute)):
        return f"what `{ast.unparse(call.func)}` makes of the ranks' values is not seen"
    if any(collective(f) for a in given for f in _functions(module, a)):
        return f"`{name}(..)` is given a function that combines the ranks' values"
    unread = [a for a in given[:1] if name in _APPLY and not is_read(module, a, collective)]
    if unread:
        return f"what `{ast.unparse(unread[0])}` makes of the ranks' values is not seen"
    if receiver is not None and name in _TO_OTHERS:
        return f"`{ast.unparse(call.func)}(..)` hands the values to another process"
    foreign = [q for q in named if _is_foreign(module, q)]
    if receiver is not None and not module.called_functions(call):
        foreign += [q for made in _made(module, receiver) for q in module.callee(made) if _is_foreign(module, q)]
    if foreign and not shown:
        return f"what `{ast.unparse(call.func)}` of a library makes of the ranks' values is not seen"
    if not shown and not is_read(module, call.func, collective):
        return f"what `{ast.unparse(call.func)}` makes of the ranks' values is not seen"
    return ""


def _stored(module: Module, target: ast.expr, collective: Collective) -> str:
    """Why what is stored may be combined: by each rank under its own number, or in an object that combines."""
    if isinstance(target, ast.Subscript):
        if any(isinstance(n, ast.expr) and is_rank(n) for n in ast.walk(target.slice)):
            return _APART.format(ast.unparse(target))
        kept = module.instances(target.value)
        if any(collective(f) for cls in kept for f in cls.body if isinstance(f, _Functions)):
            return f"`{ast.unparse(target.value)}` may combine the ranks' values"
    return ""


def _functions(module: Module, node: ast.expr) -> Iterator[ast.AST]:
    """The functions of the project that an argument stands for."""
    if isinstance(node, ast.Name):
        yield from (d.node for d in module.bindings.reaching(node) if d.kind == "function")
        for name in module.qualify(node):
            yield from (d.node for d in module.named(name) if d.kind == "function")
    elif isinstance(node, ast.Lambda):
        yield node


def _made(module: Module, node: ast.expr) -> Iterator[ast.Call]:
    if isinstance(node, ast.Call):
        yield node
    elif isinstance(node, (ast.Name, ast.Attribute)):
        yield from (d.value for d in module.bindings.reaching(node) if isinstance(d.value, ast.Call))


def _is_foreign(module: Module, name: str) -> bool:
    """Whether a name is one of a library that may ask other ranks."""
    if name.startswith(_DISTRIBUTED) and not name.rpartition(".")[2].startswith(("get_rank", "get_world")):
        return name.rpartition(".")[2] not in _HARMLESS
    root = name.partition(".")[0]
    return "." in name and root not in ALONE and not module.named(name) and not _of_project(module, root)


def _of_project(module: Module, root: str) -> bool:
    return module.project is not None and any(m.name.partition(".")[0] == root for m in module.fellows)


def _named_by_rank(module: Module, node: ast.AST, depth: int = 0) -> bool:
    """Whether a text that goes by the rank is in an expression: a path, mostly."""
    for n in ast.walk(node):
        text = isinstance(n, ast.JoinedStr) or (isinstance(n, ast.BinOp) and isinstance(n.op, (ast.Add, ast.Mod)))
        call = isinstance(n, ast.Call) and last_name(n.func) in ("format", "join", "str", "zfill", "with_name")
        if (text and "'" in ast.unparse(n)) or call:
            if any(isinstance(i, ast.expr) and is_rank(i) for i in ast.walk(n)):
                return not re.search(r"cuda|device|npu|xpu|hpu|gpu", ast.unparse(n))
        if isinstance(n, ast.Name) and depth < 3:
            made = (d.value for d in module.bindings.reaching(n) if d.kind == "assign" and d.value is not None)
            if any(_named_by_rank(module, value, depth + 1) for value in made if not isinstance(value, ast.IfExp)):
                return True
    return False


def reckoned(nodes: Iterable[ast.AST], holds: Holds) -> Obstacle | None:
    """Where a value of the evaluation, or a length, is divided or multiplied by the number of processes."""
    for n in nodes:
        if isinstance(n, ast.BinOp) and isinstance(n.op, (ast.Div, ast.FloorDiv, ast.Mult, ast.Mod)):
            sides = (n.left, n.right)
        elif isinstance(n, ast.AugAssign) and isinstance(n.op, (ast.Div, ast.FloorDiv, ast.Mult)):
            sides = (n.target, n.value)
        else:
            continue
        for one, other in (sides, sides[::-1]):
            if not any(isinstance(i, ast.expr) and (is_world_size(i) or _counts_ranks(i)) for i in ast.walk(one)):
                continue
            length = any(isinstance(i, ast.Call) and last_name(i.func) == "len" for i in ast.walk(other))
            if holds(other) or (length and not _OF_TRAINING.search(ast.unparse(other))):
                return Obstacle(n, "it reckons with the number of processes already")
    return None


def _counts_ranks(node: ast.expr) -> bool:
    """Whether an expression is the number of processes, or of their devices, by another name."""
    name = last_name(node.func if isinstance(node, ast.Call) else node)
    return bool(_RANKS.search(name))


def as_a_value(module: Module) -> Obstacle | None:
    """A collective of torch that is not called but kept: what calls it is not seen."""
    for n in ast.walk(module.tree):
        outer = module.parents.get(n)
        if isinstance(outer, ast.Call) and outer.func is n:
            continue
        if isinstance(n, ast.Attribute) and _COMBINES.search(n.attr) and not isinstance(outer, ast.Attribute):
            if any(q.startswith(_DISTRIBUTED) for q in module.qualify(n)):
                return Obstacle(n, f"`{ast.unparse(n)}` is kept under another name, and what calls it is not seen")
        elif isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "getattr" and n.args:
            if "torch.distributed" in module.qualify(n.args[0]):
                return Obstacle(n, f"`{ast.unparse(n)}` may combine the ranks' values")
    return None


__all__ = ["as_a_value", "handed_out", "reckoned"]
