"""Rewrite PyTorch training code so that every process reads its own share of the data, and prove it."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shardfix.sanitizer import DataLoaderSanitizer, ShardingError, sanitize

__version__ = "0.1.0"

__all__ = ["DataLoaderSanitizer", "ShardingError", "__version__", "sanitize"]


def __getattr__(name: str) -> Any:
    # Loaded when asked for, so that the command line does not pay for the run-time check.
    if name in ("DataLoaderSanitizer", "ShardingError", "sanitize"):
        from shardfix import sanitizer

        return getattr(sanitizer, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
