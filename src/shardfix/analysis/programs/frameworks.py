"""The calls and hooks by which a loader is handed to a framework that shards it, each known by the object it is of."""

from __future__ import annotations

import ast

from shardfix.analysis.code.instances import Kind, Made, is_a, knows, made_as
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.loaders.libraries import RUNNERS
from shardfix.analysis.model import Owner
from shardfix.analysis.programs.regimes import is_lightning

_LIGHTNING_PACKAGES = frozenset({"lightning", "lightning_fabric", "pytorch_lightning"})
FABRICS = Kind(
    frozenset(
        f"{package}.{name}"
        for package, names in {
            "lightning": ("Fabric",),
            "lightning.fabric": ("Fabric", "fabric.Fabric"),
            "lightning_fabric": ("Fabric", "fabric.Fabric"),
            "lightning.lite": ("LightningLite", "lite.LightningLite"),
            "pytorch_lightning.lite": ("LightningLite", "lite.LightningLite"),
        }.items()
        for name in names
    ),
    "fabric",
    _LIGHTNING_PACKAGES,
)
LIGHTNING_TRAINERS = Kind(
    frozenset(
        f"{package}.{name}"
        for package in ("lightning", "lightning.pytorch", "pytorch_lightning")
        for name in ("Trainer", "trainer.Trainer", "trainer.trainer.Trainer")
    ),
    "trainer",
    _LIGHTNING_PACKAGES,
)
COMPOSER_TRAINERS = Kind(
    frozenset({"composer.Trainer", "composer.trainer.Trainer", "composer.trainer.trainer.Trainer"}),
    "trainer",
    frozenset({"composer"}),
)
# ignite's own ways to make an Engine; one iterates what it is given to run over, and shards nothing.
ENGINES = Kind(
    frozenset(
        f"{package}.{name}"
        for package in ("ignite.engine", "ignite.engine.engine")
        for name in ("Engine", "create_supervised_trainer", "create_supervised_evaluator")
    ),
    "engine",
    frozenset({"ignite"}),
)
# sentence-transformers' models, by the file of theirs that trains with transformers' Trainer: older ones have none.
_FIT_MIXINS = {
    f"sentence_transformers.{package}fit_mixin": Kind(
        frozenset(f"sentence_transformers.{package}{name}" for name in names) | {f"sentence_transformers.{names[0]}"},
        "model",
        frozenset({"sentence_transformers"}),
    )
    for package, names in {
        "": ("SentenceTransformer", "SentenceTransformer.SentenceTransformer"),
        "cross_encoder.": ("CrossEncoder", "CrossEncoder.CrossEncoder"),
    }.items()
}
_COMPOSER_EVALUATORS = frozenset({"composer.Evaluator", "composer.core.Evaluator", "composer.core.evaluator.Evaluator"})
_LIGHTNING_HOOKS = ("train_dataloader", "val_dataloader", "test_dataloader", "predict_dataloader")
_FIT = ("fit", "validate", "test", "predict")
_COMPOSER_FIT = ("fit", "eval", "predict")
_UNSHARDED = ("use_distributed_sampler", "replace_sampler_ddp")
# Calls whose name says what they would do with a loader.
_TELLING = ("prepare", "prepare_data_loader", "setup", "setup_dataloaders")


def takes(module: Module, call: ast.Call) -> Owner | None:
    """The framework to which a call hands the loader among its arguments; None if it is not seen to be one."""
    callee = module.callee(call)
    name = last_name(call.func)
    if "ray.train.torch.prepare_data_loader" in callee:
        return "ray"
    if any(q.startswith("torch_xla.") for q in callee) and name.endswith("Loader"):
        return "xla"
    if not callee.isdisjoint(COMPOSER_TRAINERS.classes | _COMPOSER_EVALUATORS):
        return "composer"
    if not callee.isdisjoint(RUNNERS.classes):
        return "mmengine"
    if isinstance(call.func, ast.Attribute):
        receiver = call.func.value
        if name == "setup_dataloaders" and is_a(module, receiver, FABRICS):
            return "fabric"
        if name in _FIT and is_a(module, receiver, LIGHTNING_TRAINERS):
            return "lightning"
        if name in _COMPOSER_FIT and is_a(module, receiver, COMPOSER_TRAINERS):
            return "composer"
        if name == "attach_data" and is_a(module, _owner_of(receiver), LIGHTNING_TRAINERS):
            return "lightning"  # what fit() itself does with it
    return None


def is_combined_loader(module: Module, call: ast.Call) -> bool:
    """Whether a call makes Lightning's loader of loaders, which goes where one of them would."""
    known = any(q.startswith(("lightning.", "pytorch_lightning.")) for q in module.callee(call))
    return known and last_name(call.func) == "CombinedLoader"


def trains(module: Module, call: ast.Call) -> bool:
    """Whether a call is ``fit()`` of a model of sentence-transformers in that project itself, where it makes a dataset
    of what the loader gives and trains with transformers' Trainer."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "fit":
        return False
    names = {m.name for m in module.fellows}
    return any(name in names and is_a(module, call.func.value, kind) for name, kind in _FIT_MIXINS.items())


def _owner_of(node: ast.expr) -> ast.expr:
    """The object of which something is a part: ``trainer`` of ``trainer._data_connector``."""
    return node.value if isinstance(node, ast.Attribute) else node


def only_iterates(module: Module, call: ast.Call) -> bool:
    """Whether a call runs an Engine of ignite over the loader, which is the same as a loop over it."""
    return isinstance(call.func, ast.Attribute) and call.func.attr == "run" and is_a(module, call.func.value, ENGINES)


def may_take(module: Module, call: ast.Call) -> bool:
    """Whether a call is named as those that shard a loader and too little is seen of the object it is of: a method of
    a class of this project has been followed, and a class that is seen to be another is none."""
    name = last_name(call.func)
    if name in _TELLING:
        return True
    if name not in (*_FIT, *_COMPOSER_FIT) or not isinstance(call.func, ast.Attribute):
        return False
    for kind in (LIGHTNING_TRAINERS, COMPOSER_TRAINERS):
        made: Made = made_as(module, call.func.value, kind)
        if made in ("maybe", "open") and knows(module, call, kind):
            return True
    return False


def is_lightning_hook(module: Module, function: ast.AST | None) -> bool:
    """Whether a method is one by which a LightningModule or LightningDataModule gives its loaders."""
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) or function.name not in _LIGHTNING_HOOKS:
        return False
    cls = module.class_of(function)
    return cls is not None and is_lightning(module, cls)


def is_set_as_hook(module: Module, function: ast.Lambda) -> bool:
    """Whether a function is put in the place of a hook: ``model.train_dataloader = lambda: loader``."""
    statement = module.parents[function]
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    hooks = [t for t in targets if isinstance(t, ast.Attribute) and t.attr in _LIGHTNING_HOOKS]
    return bool(hooks) and knows(module, function, LIGHTNING_TRAINERS)


def may_be_lightning_hook(module: Module, function: ast.AST | None) -> bool:
    """Whether a method is named as Lightning's hooks, in a file that knows Lightning, while of a base of its class
    nothing is seen."""
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) or function.name not in _LIGHTNING_HOOKS:
        return False
    cls = module.class_of(function)
    if cls is None or is_lightning(module, cls) or not knows(module, function, LIGHTNING_TRAINERS):
        return False
    classes, unseen = [cls], False
    seen = set(classes)
    while classes:
        for base in classes.pop().bases:
            own = [c for c in module.project_classes(base) if c not in seen]
            seen.update(own)
            classes += own
            known = any(q.startswith(("torch.", "abc.", "builtins.", "typing.")) for q in module.qualify(base))
            unseen = unseen or not (own or known)
    return unseen


def makes_trainer(module: Module, node: ast.AST) -> bool:
    """Whether a node constructs a Lightning Trainer."""
    return isinstance(node, ast.Call) and made_as(module, node, LIGHTNING_TRAINERS) == "yes"


def leaves_sampler(call: ast.Call) -> bool:
    """Whether a call tells Lightning to leave samplers alone: ``use_distributed_sampler=False``."""
    return any(
        k.arg in _UNSHARDED and isinstance(k.value, ast.Constant) and k.value.value is False for k in call.keywords
    )
