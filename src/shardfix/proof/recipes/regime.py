"""What the launch decides, under the names that a recipe knows: ranks, world size, is there a process group."""

from __future__ import annotations

import ast

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.programs.processes import distributed_test, is_main_test, is_rank, is_world_size, name_of
from shardfix.analysis.programs.regimes import is_accelerator
from shardfix.proof.recipes.settings import literal, option

ACCELERATOR_VALUES = frozenset(
    {
        "num_processes",
        "process_index",
        "local_process_index",
        "is_main_process",
        "is_local_main_process",
        "is_last_process",
        "use_distributed",
    }
)
_DIST_CALLS = frozenset({"get_rank", "get_world_size", "is_initialized", "is_available"})
# Horovod starts one process for each rank, as torch does.
_OTHER_CALLS = {
    f"{module}.{function}": value
    for module in ("horovod.torch", "horovod.torch.mpi_ops")
    for function, value in (("size", "WORLD_SIZE"), ("rank", "RANK"), ("local_rank", "LOCAL_RANK"))
}
_LOCAL = ("local", "gpu", "device", "cuda")
_DEVICES = frozenset({"n_gpu", "num_gpus", "ngpus", "ngpu", "ngpus_per_node", "gpus_per_node", "device_count"})
_DEVICES_AS_PROCESSES = frozenset({"device_count", "ngpus_per_node", "gpus_per_node"})


def name(text: str) -> ast.Name:
    """A name that is read."""
    return ast.Name(text, ast.Load())


def dotted(text: str) -> ast.expr:
    """A dotted name that is read: ``torch.utils.data.DataLoader``."""
    head, *rest = text.split(".")
    node: ast.expr = name(head)
    for part in rest:
        node = ast.Attribute(node, part, ast.Load())
    return node


def call(function: ast.expr, *args: ast.expr, **keywords: ast.expr) -> ast.Call:
    """A call."""
    return ast.Call(function, list(args), [ast.keyword(k, v) for k, v in keywords.items()])


def assign(target: str, value: ast.expr) -> ast.Assign:
    """``target = value``."""
    return ast.Assign([ast.Name(target, ast.Store())], value, lineno=0)


def accelerator_value(module: Module, node: ast.expr) -> str:
    """``num_processes`` of ``accelerator.num_processes`` and of ``accelerator.state.num_processes``; else empty."""
    if not isinstance(node, ast.Attribute) or node.attr not in ACCELERATOR_VALUES:
        return ""
    base = node.value
    if isinstance(base, ast.Attribute) and base.attr in ("state", "partial_state"):
        base = base.value
    return node.attr if is_accelerator(module, base) else ""


def _environment(module: Module, node: ast.expr) -> tuple[str, object] | None:
    """The variable and the default of ``os.environ["RANK"]``, ``os.environ.get("RANK", 0)``, ``os.getenv(...)``."""
    key: ast.expr | None = None
    default: object = None
    if isinstance(node, ast.Subscript) and "os.environ" in module.qualify(node.value):
        key = node.slice
    elif (
        isinstance(node, ast.Call) and node.args and not module.callee(node).isdisjoint(("os.environ.get", "os.getenv"))
    ):
        key = node.args[0]
        default = literal(node.args[1]) if len(node.args) > 1 else None
    if isinstance(key, ast.Constant) and isinstance(key.value, str):
        return key.value, default
    return None


def _local_rank(lowest: object) -> ast.expr:
    """The local rank; in one process the program's own value for that: -1, or 0 where its default says so."""
    number = int(lowest) if isinstance(lowest, (int, str)) and str(lowest).lstrip("-").isdigit() else -1
    return call(name("max"), name("LOCAL_RANK"), ast.Constant(0)) if number >= 0 else name("LOCAL_RANK")


def value_of(module: Module, node: ast.expr) -> ast.expr | None:
    """A number or boolean of the launch that an expression stands for; None if it is none.

    ``accelerator.num_processes`` comes back on the name ``accelerator``.
    """
    attribute = accelerator_value(module, node)
    if attribute:
        return ast.Attribute(name("accelerator"), attribute, ast.Load())
    variable = _environment(module, node)
    if variable is not None:
        key, default = variable
        if key in ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"):
            return name("LOCAL_RANK") if str(default) == "-1" else name("RANK")
        if key in ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK"):
            return _local_rank(default)
        return name("WORLD_SIZE") if key in ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE") else None
    if isinstance(node, ast.Call):
        for qualified in module.callee(node):
            if qualified in _OTHER_CALLS:
                value = _OTHER_CALLS[qualified]
                return _local_rank(0) if value == "LOCAL_RANK" else name(value)
            if qualified.startswith("torch.distributed."):
                last = qualified.rsplit(".", 1)[1]
                if last in _DIST_CALLS and not node.args and not node.keywords:
                    return call(ast.Attribute(name("dist"), last, ast.Load()))
                return name("LOCAL_RANK") if last == "get_node_local_rank" else None
        if last_name(node.func) in ("int", "bool") and len(node.args) == 1 and not node.keywords:
            inner = value_of(module, node.args[0])
            return call(name(last_name(node.func)), inner) if inner is not None else None
        if "torch.cuda.device_count" in module.callee(node):
            return name("WORLD_SIZE")
        if node.args or node.keywords:
            return None
    if not isinstance(node, (ast.Name, ast.Attribute, ast.Call)):
        return None
    plain = _lowered(node)
    own = _own_value(module, node)
    if is_world_size(plain):
        if type(own) is int and own > 1:  # 1 is what stands before the launch is asked
            return ast.Constant(own)  # the program's own constant, whatever was launched
        return name("WORLD_SIZE")
    if name_of(plain) in _DEVICES:
        return name("WORLD_SIZE") if name_of(plain) in _DEVICES_AS_PROCESSES else None
    if is_rank(plain):
        if name_of(plain).startswith(_LOCAL):
            default = own if own is not ... else option(module, node)
            return _local_rank(default)
        return name("RANK")
    if is_main_test(plain):
        return ast.Compare(name("RANK"), [ast.Eq()], [ast.Constant(0)])
    if distributed_test(plain) is True:
        return name("DISTRIBUTED")
    return None


def _lowered(node: ast.expr) -> ast.expr:
    """The same name in its plain form: ``WORLD_SIZE`` and ``distributed_world_size`` are as good as ``world_size``."""
    if isinstance(node, ast.Name):
        return name(_plain(node.id))
    if isinstance(node, ast.Attribute):
        return ast.Attribute(node.value, _plain(node.attr), ast.Load())
    return node


def _plain(text: str) -> str:
    text = text.lower().lstrip("_")
    for prefix in ("distributed_", "dist_", "ddp_"):
        if text in (f"{prefix}world_size", f"{prefix}rank", f"{prefix}local_rank"):
            return text[len(prefix) :]
    return text


def _own_value(module: Module, node: ast.expr) -> object:
    """The literal, or the default of the environment variable, that a name's only assignment gives it."""
    definitions = module.bindings.reaching(node)
    if len(definitions) != 1:
        return ...
    (definition,) = definitions
    if definition.kind != "assign" or definition.value is None or definition.index is not None:
        return ...
    value: ast.expr = definition.value
    if isinstance(value, ast.Call) and last_name(value.func) == "int" and len(value.args) == 1:
        value = value.args[0]
    variable = _environment(module, value)
    return (variable[1] if variable[1] is not None else ...) if variable is not None else literal(value)


def comparison(module: Module, node: ast.Compare) -> ast.expr | None:
    """A comparison that tells the regime, with the launched values; None if it is none.

    ``rank == -1`` and ``rank >= 0`` ask for the convention in which -1 means one process: that is ``LOCAL_RANK``.
    """
    if len(node.ops) != 1:
        return None
    left, op, right = node.left, node.ops[0], node.comparators[0]
    if isinstance(op, (ast.In, ast.NotIn)) and literal(left) is not ... and "os.environ" in module.qualify(right):
        if literal(left) in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "SLURM_PROCID", "MASTER_ADDR"):
            return name("DISTRIBUTED") if isinstance(op, ast.In) else ast.UnaryOp(ast.Not(), name("DISTRIBUTED"))
        return None
    ranks = [side for side in (left, right) if is_rank(_lowered(side)) and value_of(module, side) is not None]
    if len(ranks) == 1:
        other = right if ranks[0] is left else left
        sentinel = literal(other) == -1 or (
            literal(other) == 0 and ranks[0] is left and isinstance(op, (ast.GtE, ast.Lt))
        )
        listed = isinstance(other, (ast.List, ast.Tuple, ast.Set)) and all(literal(e) is not ... for e in other.elts)
        if listed and isinstance(other, (ast.List, ast.Tuple, ast.Set)):
            sentinel = any(literal(e) == -1 for e in other.elts)
        if sentinel or listed:
            value = name("LOCAL_RANK") if sentinel else value_of(module, ranks[0])
            assert value is not None
            rest = _listed(other) if listed else ast.Constant(literal(other))  # type: ignore[arg-type]
            return ast.Compare(value, node.ops, [rest]) if ranks[0] is left else ast.Compare(rest, node.ops, [value])
    sides = [value_of(module, side) for side in (left, right)]
    if any(s is not None for s in sides):
        whole = [
            s if s is not None else ast.Constant(literal(raw))  # type: ignore[arg-type]
            for s, raw in zip(sides, (left, right), strict=False)
            if s is not None or literal(raw) is not ...
        ]
        if len(whole) == 2 and not any(isinstance(w, ast.Constant) and isinstance(w.value, str) for w in whole):
            return ast.Compare(whole[0], node.ops, [whole[1]])
    outcome = distributed_test(node)
    if outcome is None:
        return None
    return name("DISTRIBUTED") if outcome else ast.UnaryOp(ast.Not(), name("DISTRIBUTED"))


def _listed(node: ast.expr) -> ast.expr:
    assert isinstance(node, (ast.List, ast.Tuple, ast.Set))
    return ast.List([ast.Constant(literal(e)) for e in node.elts], ast.Load())  # type: ignore[arg-type]


def tells_regime(node: ast.expr) -> bool:
    """Whether a recipe's own expression depends on the launch."""
    launched = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "DISTRIBUTED", "dist", "accelerator"}
    return any(isinstance(n, ast.Name) and n.id in launched for n in ast.walk(node))
