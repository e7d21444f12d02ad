"""Which objects are an ``accelerate.Accelerator``, and which calls hand a loader to one."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import replace

from shardfix.analysis.code.instances import Kind, is_a
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.named_calls import is_named_call
from shardfix.analysis.code.names import ACCELERATOR

TRAINER_HOOKS = ("get_train_dataloader", "get_eval_dataloader", "get_test_dataloader")


def is_accelerator(module: Module, node: ast.expr) -> bool:
    """Whether an expression is an ``accelerate.Accelerator``: made so or annotated so.

    Its usual name counts only where nothing is seen of its value and the file shows that it knows accelerate.
    """
    return is_a(module, node, ACCELERATORS)


def is_prepare(module: Module, call: ast.Call, prepare_functions: Iterable[str] = ()) -> bool:
    """Whether a call hands its arguments to Accelerate: ``accelerator.prepare``, ``prepare_data_loader``, or a
    project function that the user named."""
    callee = module.callee(call)
    if "accelerate.data_loader.prepare_data_loader" in callee:
        return True
    if prepare_functions and is_named_call(module, call, prepare_functions):
        return True
    func = call.func
    return isinstance(func, ast.Attribute) and func.attr in _PREPARING.methods and is_a(module, func.value, _PREPARING)


def is_hf_trainer(module: Module, cls: ast.ClassDef) -> bool:
    """Whether a class derives from ``transformers.Trainer``."""
    for base in module.bases(cls):
        root, _, last = base.rpartition(".")
        if root.split(".")[0] in ("transformers", "trl", "sentence_transformers") and last.endswith("Trainer"):
            return True
    return False


def is_trainer_hook(module: Module, function: ast.AST | None) -> bool:
    """Whether a method is one by which a ``transformers.Trainer`` gets its loaders."""
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) or function.name not in TRAINER_HOOKS:
        return False
    cls = module.class_of(function)
    return cls is not None and is_hf_trainer(module, cls)


ACCELERATORS = Kind(frozenset({ACCELERATOR}), "accelerator", frozenset({"accelerate"}), held_by=is_hf_trainer)
_PREPARING = replace(ACCELERATORS, methods=frozenset({"prepare", "prepare_data_loader"}))
