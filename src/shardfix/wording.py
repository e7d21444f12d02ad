"""How counts and lists stand in a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def plural(number: int, thing: str) -> str:
    """A count with its noun: ``1 sample``, ``2 samples``."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def join(words: Sequence[str]) -> str:
    """Words as a list of a sentence, of which there is at least one: ``a, b and c``."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def numbered(lines: Iterable[int]) -> str:
    """Lines of a file in order, of which there is at least one: ``line 3``, ``lines 3, 5 and 7``."""
    numbers = [str(line) for line in sorted(set(lines))]
    return f"line {numbers[0]}" if len(numbers) == 1 else f"lines {join(numbers)}"


__all__ = ["join", "numbered", "plural"]
