"""The values of the keys of a limit's long form, one function each, for the models of `limit_spec`.

Raises:
    GrammarError: from every function here, when a value is not what its key takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ratelimit_middleware.algorithms.fixed_window import FixedWindow
from ratelimit_middleware.errors import InvalidLimitError
from ratelimit_middleware.rules.algorithms import ALGORITHMS, NOT_YET
from ratelimit_middleware.rules.grammar import parse_number, parse_period
from ratelimit_middleware.rules.words import GrammarError, choose, shown

__all__ = [
    "read_algorithm",
    "read_count",
    "read_flag",
    "read_per",
    "read_refill",
    "read_seconds",
    "read_timezone",
]


def read_count(what: str) -> Callable[[Any], int]:
    """A number of permits: a function that calls it `what`."""

    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            raise GrammarError(f"{what} {shown(value)} is not a whole number above 0")
        return parse_number(value if isinstance(value, str) else shown(value).strip("`"), what)

    return check


def read_flag(what: str) -> Callable[[Any], bool]:
    """True or false: a function that calls it `what`."""

    def check(value: Any) -> bool:
        if not isinstance(value, bool):
            raise GrammarError(f"{what} {shown(value)} is neither `true` nor `false`")
        return value

    return check


def read_per(value: Any) -> tuple[int, str]:
    """The period of a limit: how many of which unit."""
    if not isinstance(value, str):
        raise GrammarError(f"{shown(value)} is not the period of a limit: write `minute`, `15m` or `month`")
    return parse_period(value)


def read_algorithm(value: Any) -> str:
    """The name of an algorithm."""
    if value == "concurrency":
        raise GrammarError(
            "`concurrency` is a key of the rule, not an algorithm: write `concurrency: 4 per user`"
        )
    return choose("algorithm", value, ALGORITHMS, NOT_YET)


def read_refill(value: Any) -> str:
    """How a token bucket is filled."""
    return choose("refill", value, ("interval", "greedy"))


def read_seconds(value: Any) -> float:
    """The seconds of idle time that are stored."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1e8:
        raise GrammarError(f"max_burst_seconds {shown(value)} is not a number of seconds from 0 to 10^8")
    return float(value)


def read_timezone(value: Any) -> str:
    """The name of a time zone."""
    try:
        return str(FixedWindow(1, "day", value).timezone)
    except InvalidLimitError as error:
        raise GrammarError(f"the time zone {shown(value)} is not known: expected {error.expected}") from None
