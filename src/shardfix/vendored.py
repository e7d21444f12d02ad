"""The files that are put beside a user's program, so that migrated code needs no installed shardfix."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Vendored:
    """The contents of the files.

    Args:
        sanitizer: of ``shardfix_sanitizer.py``.
        evaluation: of ``shardfix_evaluation.py``.
    """

    sanitizer: str = ""
    evaluation: str = ""


def read_vendored() -> Vendored:
    """The files as this shardfix has them."""
    from importlib import resources

    package = resources.files("shardfix")
    texts = ((package / f"{name}.py").read_text(encoding="utf-8") for name in ("sanitizer", "evaluation"))
    return Vendored(*texts)


def is_vendored(content: bytes) -> bool:
    """Whether a file is such a copy, of whatever release: each says in its docstring that it is one."""
    return b"`shardfix migrate` copies this one file" in content[:1000]
