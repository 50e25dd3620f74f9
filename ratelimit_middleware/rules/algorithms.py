"""The algorithms that the long form of a limit may name, and the numbers that each of them takes.

An algorithm that gets its code is one entry of `ALGORITHMS`, and leaves `NOT_YET`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from ratelimit_middleware.algorithms.base import Algorithm
from ratelimit_middleware.algorithms.fixed_window import CalendarUnit, FixedWindow
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.leaky_bucket import LeakyBucket
from ratelimit_middleware.algorithms.qps_window import QpsWindow
from ratelimit_middleware.algorithms.sliding_counter import SlidingCounter
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.algorithms.smooth_bursty import SmoothBursty
from ratelimit_middleware.algorithms.smooth_warming_up import SmoothWarmingUp
from ratelimit_middleware.algorithms.token_bucket import TokenBucket
from ratelimit_middleware.algorithms.warm_up import WarmUp
from ratelimit_middleware.algorithms.warm_up_window import WarmUpWindow
from ratelimit_middleware.rules.grammar import LimitText

__all__ = ["ALGORITHMS", "CALENDAR_UNITS", "NOT_YET", "Numbers", "Recipe", "algorithm_of"]

CALENDAR_UNITS: tuple[CalendarUnit, ...] = ("minute", "hour", "day", "week", "month", "year")

NOT_YET = frozenset({"concurrency", "sentinel_pacing", "sentinel_warm_up_pacing"})


class Numbers(NamedTuple):
    """All that the file may say about a limit.

    Attributes:
        limit: how many in what time, and the burst.
        algorithm: its name in the file; None = what the other numbers ask for.
        timezone: of a window of the calendar; None = UTC.
        warm_up_s: seconds; None = no warm-up.
        cold_factor: how much slower a cold limit is.
        more: the numbers that only one algorithm has, by their key; never changed.
    """

    limit: LimitText
    algorithm: str | None = None
    timezone: str | None = None
    warm_up_s: int | None = None
    cold_factor: float = 3
    more: Mapping[str, Any] = MappingProxyType({})

    @property
    def per_second(self) -> float:
        """The rate."""
        return self.limit.count / self.limit.period_s

    @property
    def calendar_unit(self) -> CalendarUnit | None:
        """The unit of the calendar that the period is, if it is a single one."""
        return next((u for u in CALENDAR_UNITS if (1, u) == (self.limit.amount, self.limit.unit)), None)


class Recipe(NamedTuple):
    """How an algorithm is made of the file's numbers.

    Attributes:
        build: makes it.
        takes: the keys it knows besides `count`, `per`, `key` and `algorithm`.
        needs: those of them that must be there.
    """

    build: Callable[[Numbers], Algorithm]
    takes: frozenset[str] = frozenset()
    needs: frozenset[str] = frozenset()


def _sliding_window(numbers: Numbers) -> Algorithm:
    return SlidingWindow(numbers.limit.count, numbers.limit.period_s)


def _warm_up_window(numbers: Numbers) -> Algorithm:
    limit = numbers.limit
    return WarmUpWindow(limit.count, limit.period_s, numbers.warm_up_s or 0, numbers.cold_factor)


def _gcra(numbers: Numbers) -> Algorithm:
    limit = numbers.limit
    return GCRA(limit.count, limit.period_s, 1 if limit.burst is None else limit.burst)


def _fixed_window(numbers: Numbers) -> Algorithm:
    limit, unit = numbers.limit, numbers.calendar_unit
    return FixedWindow(limit.count, unit or limit.period_s, numbers.timezone if unit else None)


def _token_bucket(numbers: Numbers) -> Algorithm:
    limit = numbers.limit
    refill: Literal["interval", "greedy"] = numbers.more.get("refill", "interval")
    return TokenBucket(numbers.more.get("capacity", limit.count), limit.period_s, limit.count, refill)


def _leaky_bucket(numbers: Numbers) -> Algorithm:
    # A request that would have to wait for its turn is refused, so all of the burst goes at once.
    return LeakyBucket(numbers.per_second, numbers.limit.burst or 0, "nodelay")


def _smooth_bursty(numbers: Numbers) -> Algorithm:
    return SmoothBursty(numbers.per_second, numbers.more.get("max_burst_seconds", 1.0))


def _smooth_warming_up(numbers: Numbers) -> Algorithm:
    return SmoothWarmingUp(numbers.per_second, numbers.warm_up_s or 0, numbers.cold_factor)


def _sliding_counter(numbers: Numbers) -> Algorithm:
    return SlidingCounter(numbers.limit.count, numbers.limit.period_s)


def _sentinel_qps(numbers: Numbers) -> Algorithm:
    return QpsWindow(numbers.per_second)


def _sentinel_warm_up(numbers: Numbers) -> Algorithm:
    return WarmUp(numbers.per_second, numbers.warm_up_s or 0, numbers.cold_factor)


_BURST, _WARM_UP = frozenset({"burst"}), frozenset({"warm_up"})

ALGORITHMS: dict[str, Recipe] = {
    "sliding_window": Recipe(_sliding_window),
    "fixed_window": Recipe(_fixed_window, takes=frozenset({"timezone"})),
    "gcra": Recipe(_gcra, takes=_BURST, needs=_BURST),
    "token_bucket": Recipe(_token_bucket, takes=frozenset({"capacity", "refill"})),
    "leaky_bucket": Recipe(_leaky_bucket, takes=_BURST, needs=_BURST),
    "smooth_bursty": Recipe(_smooth_bursty, takes=frozenset({"max_burst_seconds"})),
    "smooth_warming_up": Recipe(_smooth_warming_up, takes=_WARM_UP, needs=_WARM_UP),
    "sliding_counter": Recipe(_sliding_counter),
    "sentinel_qps": Recipe(_sentinel_qps),
    "sentinel_warm_up": Recipe(_sentinel_warm_up, takes=_WARM_UP, needs=_WARM_UP),
}
"""By the word that the file has for it."""


def algorithm_of(numbers: Numbers) -> Algorithm:
    """The arithmetic that keeps a limit: the one named, else what the numbers ask for.

    Raises:
        InvalidLimitError: the algorithm refuses a number.
    """
    if numbers.algorithm is not None:
        return ALGORITHMS[numbers.algorithm].build(numbers)
    if numbers.warm_up_s is not None:
        return _warm_up_window(numbers)
    if numbers.limit.by_calendar:
        return _fixed_window(numbers)
    return _sliding_window(numbers) if numbers.limit.burst is None else _gcra(numbers)
