"""What a name says of a loader's role: ``val_loader``, ``trainset``, ``is_train``."""

from __future__ import annotations

import re

from shardfix.analysis.model import Role

_TRAIN = frozenset({"train", "training", "trn", "tr", "trainset", "trainloader", "finetune", "pretrain"})
_EVAL = frozenset(
    {
        "val",
        "valid",
        "validate",
        "validation",
        "dev",
        "eval",
        "evaluate",
        "evaluation",
        "test",
        "testing",
        "testset",
        "testloader",
        "valset",
        "valloader",
        "predict",
        "prediction",
        "infer",
        "inference",
        "query",
        "gallery",
    }
)


def words(name: str) -> set[str]:
    """The lower-case words of an identifier: ``valDataLoader2`` gives ``val``, ``data``, ``loader``."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return {w for w in re.split(r"[^a-z]+", spaced.lower()) if w}


def role_of_name(name: str) -> Role:
    """The role a name says: both or neither is unknown."""
    found = words(name)
    train, evaluation = bool(found & _TRAIN), bool(found & _EVAL)
    if train == evaluation:
        return "unknown"
    return "train" if train else "eval"
