"""The loaders that other libraries build: which call makes one, and whose it is."""

from __future__ import annotations

import ast

from shardfix.analysis.code.instances import Kind, is_a
from shardfix.analysis.code.module import Module
from shardfix.analysis.model import Owner

# The packages of loader classes; a class there is a loader if its name ends in Loader.
_PACKAGES: tuple[tuple[str, Owner], ...] = (
    ("torch_geometric.loader.", "pyg"),
    ("torch_geometric.data.", "pyg"),
    ("torch_geometric.distributed.", "pyg"),
    ("torch_geometric.nn.kge.", "pyg"),
    ("torchdata.", "torchdata"),
    ("webdataset.", "webdataset"),
    ("dgl.", "dgl"),
    ("nvidia.dali.", "dali"),
    ("graphlearn_torch.", "other"),
    ("monai.data.", "other"),
    ("ffcv.", "other"),
    ("paddle.io.", "other"),
    ("mindspore.", "other"),
    ("nncore.", "other"),
)
# Loader classes of other names, by the package that has them, and names in Loader that only wrap a loader.
_ALSO: tuple[tuple[str, frozenset[str]], ...] = (
    (
        "torch_geometric.",
        frozenset(
            {
                "NeighborSampler",
                "ShaDowKHopSampler",
                "GraphSAINTSampler",
                "GraphSAINTNodeSampler",
                "GraphSAINTEdgeSampler",
                "GraphSAINTRandomWalkSampler",
            }
        ),
    ),
    ("nvidia.dali.", frozenset({"DALIGenericIterator", "DALIClassificationIterator", "DALIRaggedIterator"})),
    ("torchdata.", frozenset({"DataLoader2"})),
)
_WRAPPERS = ("CachedLoader", "PrefetchLoader", "LazyLoader")

# Owners that are libraries of loaders: what they build is theirs, whether or not it reads a rank's share.
LIBRARIES: frozenset[Owner] = frozenset({*(owner for _, owner in _PACKAGES), "mmengine"})

RUNNERS = Kind(
    frozenset({"mmengine.runner.Runner", "mmengine.runner.runner.Runner", "mmengine.Runner"}),
    "runner",
    frozenset({"mmengine"}),
)
ENGINES = Kind(
    frozenset({"deepspeed.DeepSpeedEngine", "deepspeed.runtime.engine.DeepSpeedEngine"}),
    "engine",
    frozenset({"deepspeed"}),
    first_of=frozenset({"deepspeed.initialize"}),
)
_RUNNER_LOADERS = ("train_dataloader", "val_dataloader", "test_dataloader")
_OPENMMLAB = frozenset({"mmengine", "mmcv", "mmdet", "mmdet3d", "mmcls", "mmpretrain", "mmseg", "mmpose", "mmaction"})


def library_of(module: Module, call: ast.Call) -> Owner | None:
    """Whose loader a call builds: that of a library with loader classes of its own, or a framework's that makes one
    from a dataset or from its configuration; None if it builds none of these."""
    callee = module.callee(call)
    for name in callee:
        owner = library_class(name)
        if owner is not None and (not module.named(name) or name.startswith("torch_geometric.")):
            return owner
        if name in ("ignite.distributed.auto_dataloader", "ignite.distributed.auto.auto_dataloader"):
            return "ignite"
        if name == "deepspeed.initialize" and _given(call, "training_data", 4) is not None:
            return "deepspeed"
        root, _, last = name.rpartition(".")
        if last == "build_dataloader" and root.split(".")[0] in _OPENMMLAB and not module.named(name):
            return "mmengine"
    if not callee.isdisjoint(RUNNERS.classes) and _configured(module, call):
        return "mmengine"
    func = call.func
    if isinstance(func, ast.Attribute):
        if func.attr == "deepspeed_io" and is_a(module, func.value, ENGINES):
            return "deepspeed"
        if func.attr == "build_dataloader" and is_a(module, func.value, RUNNERS):
            return "mmengine"
        if func.attr == "iter_torch_batches" and _of_ray(module, func.value):
            return "ray"
    elif isinstance(func, ast.Name) and func.id == "dict" and _is_config(module, call):
        return "mmengine"
    for cls in module.project_classes(func):
        owners = {library_class(base) for base in module.bases(cls)} - {None}
        if owners:
            return owners.pop()
    return None


def library_class(qualified: str) -> Owner | None:
    """The library whose loader class a qualified name is."""
    last = qualified.rpartition(".")[2]
    also = any(last in names and qualified.startswith(package) for package, names in _ALSO)
    if also or (last.endswith("Loader") and last not in _WRAPPERS):
        return next((owner for package, owner in _PACKAGES if qualified.startswith(package)), None)
    return None


def _given(call: ast.Call, name: str, position: int) -> ast.expr | None:
    """The argument of a call, unless it is None."""
    value = next((k.value for k in call.keywords if k.arg == name), None)
    if value is None and len(call.args) > position and not any(isinstance(a, ast.Starred) for a in call.args):
        value = call.args[position]
    return None if isinstance(value, ast.Constant) and value.value is None else value


def _configured(module: Module, call: ast.Call) -> bool:
    """Whether a Runner makes its loaders from dicts: ``Runner(train_dataloader=dict(batch_size=8, ...))``."""
    given = [k.value for k in call.keywords if k.arg in _RUNNER_LOADERS]
    return any(module.dict_items(value) is not None for value in given)


def _is_config(module: Module, call: ast.Call) -> bool:
    """Whether a dict is MMEngine's description of a loader: at the top level of a file, named as the Runner's loaders
    are, with a dataset that is named by its type."""
    statement = module.parents[call]
    if not isinstance(statement, ast.Assign) or module.parents[statement] is not module.tree:
        return False
    if not any(isinstance(t, ast.Name) and t.id in _RUNNER_LOADERS for t in statement.targets):
        return False
    dataset = next((k.value for k in call.keywords if k.arg == "dataset"), None)
    items = module.dict_items(dataset) if dataset is not None else None
    return items is not None and "type" in items


def _of_ray(module: Module, node: ast.expr, depth: int = 0) -> bool:
    """Whether a value is a dataset of Ray: what one of its functions gives, or a method of such a value."""
    if depth > 4:
        return False
    if isinstance(node, ast.Call):
        if any(name.startswith("ray.") for name in module.callee(node)):
            return True
        return isinstance(node.func, ast.Attribute) and _of_ray(module, node.func.value, depth + 1)
    return any(
        d.value is not None and d.index is None and _of_ray(module, d.value, depth + 1)
        for d in module.bindings.reaching(node)
    )
