"""What a recipe may contain: literals, operators, torch.utils.data and accelerate, nothing of the user's own code."""

from __future__ import annotations

import ast

from shardfix.proof.recipes.regime import ACCELERATOR_VALUES

LOADER = "torch.utils.data.DataLoader"
API = frozenset(
    {
        LOADER,
        "torch.utils.data.distributed.DistributedSampler",
        "torch.utils.data.SequentialSampler",
        "torch.utils.data.RandomSampler",
        "torch.utils.data.WeightedRandomSampler",
        "torch.utils.data.SubsetRandomSampler",
        "torch.utils.data.BatchSampler",
        "torch.utils.data.Subset",
        "torch.utils.data.random_split",
        "torch.utils.data.IterableDataset",
        "torch.Generator",
        "torch.manual_seed",
        "torch.randperm",
        "dist.get_rank",
        "dist.get_world_size",
        "dist.is_initialized",
        "dist.is_available",
        "accelerate.utils.DataLoaderConfiguration",
        "accelerate.data_loader.prepare_data_loader",
        "accelerator.prepare",
        "accelerator.prepare_data_loader",
        "accelerator.free_memory",
        *(f"accelerator.{value}" for value in ACCELERATOR_VALUES),
    }
)
FUNCTIONS = frozenset(
    {
        *("range", "len", "list", "int", "float", "bool", "min", "max", "sorted", "tuple", "sum", "abs", "round"),
        *("isinstance", "hasattr", "DATASET", "SHUFFLED", "Accelerator", "unpadded"),
    }
)
GIVEN = frozenset(
    {"torch", "dist", "accelerate", "RANK", "WORLD_SIZE", "LOCAL_RANK", "DISTRIBUTED", "UNKNOWN", "epoch"}
)
_MEMBERS = frozenset({"sampler", "batch_sampler", "set_epoch", "manual_seed", "tolist"})
_NODES = (
    *(ast.Module, ast.Assign, ast.Expr, ast.If, ast.Pass, ast.Name, ast.Attribute, ast.Call, ast.Constant, ast.IfExp),
    *(ast.BoolOp, ast.UnaryOp, ast.Compare, ast.BinOp, ast.List, ast.Tuple, ast.Subscript, ast.Slice, ast.keyword),
    *(ast.Load, ast.Store, ast.boolop, ast.cmpop, ast.Not, ast.USub, ast.UAdd),
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod),
)
_LARGEST = 4096
_PRODUCTS = 4  # multiplications in one program: what it builds stays small


def dotted_name(node: ast.AST) -> str:
    """``a.b.c`` of an attribute chain on a name; empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([node.id, *reversed(parts)])


def violation(source: str) -> str:
    """What in a recipe's code is more than a recipe may do; empty if nothing is."""
    tree = ast.parse(source)
    bound = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    reserved = sorted((bound & (GIVEN | FUNCTIONS)) | {n for n in bound if n.startswith("__")})
    if reserved:
        return f"a name of the recipe is bound anew: {reserved[0]}"
    readable = GIVEN | FUNCTIONS | bound
    seeds: set[int] = set()  # the only numbers that may be of any size
    for n in ast.walk(tree):
        if isinstance(n, ast.Call):
            held = [k.value for k in n.keywords if k.arg == "seed"]
            if isinstance(n.func, ast.Attribute) and n.func.attr == "manual_seed":
                held += n.args
            seeds |= {id(inner) for value in held for inner in ast.walk(value)}
    products = 0
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        if not isinstance(node, _NODES):
            return f"{type(node).__name__} in {ast.unparse(node) if isinstance(node, ast.expr) else source!r}"
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in readable:
            return f"the name {node.id}"
        if isinstance(node, ast.Attribute):
            chain = dotted_name(node)
            known = any(api == chain or api.startswith(chain + ".") for api in API)
            if not known and not (node.attr in _MEMBERS and isinstance(node.ctx, ast.Load)):
                return f"the attribute {ast.unparse(node)}"
        if isinstance(node, ast.Call):
            chain = dotted_name(node.func)
            method = isinstance(node.func, ast.Attribute) and node.func.attr in ("set_epoch", "manual_seed", "tolist")
            if not (method or chain in API or chain in FUNCTIONS):
                return f"the call {ast.unparse(node)}"
            if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
                return f"the call {ast.unparse(node)}"
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            products += 1
            if products > _PRODUCTS:
                return "more multiplications than a recipe needs"
        number = node.value if isinstance(node, ast.Constant) and id(node) not in seeds else 0
        if isinstance(number, (int, float)) and not -_LARGEST <= number <= _LARGEST:
            return f"the number {number!r}"
        stack.extend(ast.iter_child_nodes(node))
    return ""
