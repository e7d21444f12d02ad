"""Whether two values that came out of an evaluation are one, and how a value is shown; pure."""

from __future__ import annotations

import math
from typing import Any

_CLOSE = 1e-5  # sums of floats in another order; a sample counted twice or a wrong denominator is far off


def same(value: Any, expected: Any) -> bool:
    """Equal, fractions but for rounding; a whole number is none of the fractions."""
    if isinstance(value, bool) or isinstance(expected, bool) or type(value) is not type(expected):
        return type(value) is type(expected) and bool(value == expected)
    if isinstance(value, float):
        both_nan = math.isnan(value) and math.isnan(expected)
        return both_nan or math.isclose(value, expected, rel_tol=_CLOSE, abs_tol=_CLOSE)
    if isinstance(value, list):
        return len(value) == len(expected) and all(map(same, value, expected))
    if isinstance(value, dict):
        return value.keys() == expected.keys() and all(same(item, expected[key]) for key, item in value.items())
    return bool(value == expected)


def is_number(value: Any) -> bool:
    """Whether a value is one number, also in a tensor or an array."""
    if isinstance(value, list) and len(value) == 2 and isinstance(value[0], str):
        value = value[1]  # a tensor or an array, with its type
    return isinstance(value, (int, float))


def shown(value: Any) -> str:
    """A value in a few characters."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict) and "called" in value:
        rows = [len(given) for given in value.get("given", ()) if isinstance(given, list) and given[:1] != ["called"]]
        words = value["called"] if len(value["called"]) <= 40 else f"{value['called'][:37]}..."
        return f"{words}({rows[0]} rows)" if rows else f"{words}(..)"
    if (
        isinstance(value, list)
        and len(value) == 2
        and isinstance(value[0], str)
        and value[0].endswith(("tensor", "array"))
    ):
        return shown(value[1])
    text = f"[{', '.join(map(shown, value))}]" if isinstance(value, list) else str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
