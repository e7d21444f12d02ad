"""Rewrite PyTorch training code so that every process reads its own share of the data, and prove it."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shardfix.evaluation import EvaluationError, all_here, in_order, of_all_batches, reduced, unpadded
    from shardfix.sanitizer import DataLoaderSanitizer, ShardingError, sanitize

__version__ = "0.1.0"

__all__ = [
    "DataLoaderSanitizer",
    "EvaluationError",
    "ShardingError",
    "__version__",
    "all_here",
    "in_order",
    "of_all_batches",
    "reduced",
    "sanitize",
    "unpadded",
]


def __getattr__(name: str) -> Any:
    # Loaded when asked for, so that the command line does not pay for what migrated code calls.
    if name in ("DataLoaderSanitizer", "ShardingError", "sanitize"):
        from shardfix import sanitizer

        return getattr(sanitizer, name)
    if name in ("EvaluationError", "all_here", "in_order", "of_all_batches", "reduced", "unpadded"):
        from shardfix import evaluation

        return getattr(evaluation, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
