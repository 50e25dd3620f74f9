"""The numbers that algorithms are built with: each function reads one, or says what would be right.

All raise `InvalidLimitError` for anything else, booleans included.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TypeGuard

from ratelimit_middleware.clock import to_ns
from ratelimit_middleware.errors import InvalidLimitError

__all__ = [
    "factor_above_zero",
    "is_number",
    "number",
    "permits_per_second",
    "positive_ns",
    "seconds",
    "whole_from_zero",
]


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether it is an int or a float."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def number(what: str, value: object, low: float, high: float) -> float:
    """`value` as a float from `low` to `high`."""
    if not (is_number(value) and low <= value <= high):
        raise InvalidLimitError(what, value, f"a number from {low:g} to {high:g}")
    return float(value)


def permits_per_second(what: str, value: object) -> float:
    """`value` as a float: 0, or a rate from one permit in thirty years to one a nanosecond."""
    if not (is_number(value) and (value == 0 or 1e-9 <= value <= 1e9)):
        raise InvalidLimitError(what, value, "a number of permits a second from 10^-9 to 10^9, or 0")
    return float(value)


def whole_from_zero(what: str, value: object, maximum: int, or_else: str = "") -> int:
    """`value` as an int from 0 to `maximum`; `or_else` tells what else would be right."""
    if not (is_number(value) and 0 <= value <= maximum and value == int(value)):
        raise InvalidLimitError(what, value, f"a whole number from 0 to {maximum}{or_else}")
    return int(value)


def factor_above_zero(factor: float) -> float:
    """What amounts are multiplied by."""
    if not 0 < factor < 1e9:
        raise InvalidLimitError("factor", factor, "a finite number above 0")
    return factor


def positive_ns(what: str, value: float | timedelta) -> int:
    """A duration above 0, in whole nanoseconds."""
    duration_ns = to_ns(value, what)
    if not duration_ns:
        raise InvalidLimitError(what, value, "a number of seconds above 0")
    return duration_ns


def seconds(value: float | timedelta) -> float:
    """A duration as seconds."""
    return value.total_seconds() if isinstance(value, timedelta) else value
