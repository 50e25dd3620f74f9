"""The algorithms that the long form of a limit may name, and the numbers that each of them takes.

An algorithm that gets its code is one entry of `ALGORITHMS`, and leaves `NOT_YET`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from ratelimit_middleware.algorithms.base import Algorithm, ceil_div
from ratelimit_middleware.algorithms.fixed_window import CalendarUnit, FixedWindow
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.leaky_bucket import LeakyBucket
from ratelimit_middleware.algorithms.pacing import Pacing
from ratelimit_middleware.algorithms.qps_window import QpsWindow
from ratelimit_middleware.algorithms.sliding_counter import SlidingCounter
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.algorithms.smooth_bursty import SmoothBursty
from ratelimit_middleware.algorithms.smooth_warming_up import SmoothWarmingUp
from ratelimit_middleware.algorithms.token_bucket import TokenBucket
from ratelimit_middleware.algorithms.warm_up import WarmUp
from ratelimit_middleware.algorithms.warm_up_pacing import WarmUpPacing
from ratelimit_middleware.algorithms.warm_up_window import WarmUpWindow
from ratelimit_middleware.clock import NS_PER_SECOND
from ratelimit_middleware.errors import InvalidLimitError
from ratelimit_middleware.rules.grammar import LimitText

__all__ = ["ALGORITHMS", "CALENDAR_UNITS", "NOT_YET", "Numbers", "Recipe", "algorithm_of"]

CALENDAR_UNITS: tuple[CalendarUnit, ...] = ("minute", "hour", "day", "week", "month", "year")

NOT_YET: frozenset[str] = frozenset()


class Numbers(NamedTuple):
    """All that the file may say about a limit.

    Attributes:
        limit: how many in what time, and the burst.
        algorithm: its name in the file; None = what the other numbers ask for.
        timezone: of a window of the calendar; None = UTC.
        warm_up_s: seconds; None = no warm-up.
        cold_factor: how much slower a cold limit is.
        more: the numbers that only one algorithm has, by their key; never changed.
        behavior: what happens over the limit; `warm_up` and `warm_up_queue` are algorithms of their own.
        max_wait_ns: how long a request may be delayed.
    """

    limit: LimitText
    algorithm: str | None = None
    timezone: str | None = None
    warm_up_s: int | None = None
    cold_factor: float = 3
    more: Mapping[str, Any] = MappingProxyType({})
    behavior: str = "reject"
    max_wait_ns: int = 0

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


def _warm_up_queue(numbers: Numbers) -> Algorithm:
    warm_up_s, max_wait_s = numbers.warm_up_s or 0, numbers.max_wait_ns / NS_PER_SECOND
    whole_ms = numbers.more.get("whole_ms", False)
    return WarmUpPacing(numbers.per_second, warm_up_s, numbers.cold_factor, max_wait_s, whole_ms)


def _pacing(numbers: Numbers) -> Algorithm:
    return Pacing(numbers.per_second, numbers.max_wait_ns / NS_PER_SECOND)


def _fixed_window(numbers: Numbers) -> Algorithm:
    limit, unit = numbers.limit, numbers.calendar_unit
    return FixedWindow(limit.count, unit or limit.period_s, numbers.timezone if unit else None)


def _token_bucket(numbers: Numbers) -> Algorithm:
    """`count` tokens per period, `quantum` at a time; fewer of them make the interval shorter."""
    limit, more = numbers.limit, numbers.more
    refill: Literal["interval", "greedy"] = more.get("refill", "interval")
    quantum, capacity = more.get("quantum", limit.count), more.get("capacity", limit.count)
    if refill == "greedy" and "quantum" in more:
        raise InvalidLimitError("quantum", quantum, "no quantum: with `refill: greedy` tokens come evenly")
    if refill == "interval" and capacity < quantum:
        expected = f"at least the {quantum} tokens that come at once (the others would be lost)"
        raise InvalidLimitError("capacity", capacity, f"{expected}, or a smaller `quantum`")
    interval_ns = ceil_div(limit.period_s * NS_PER_SECOND * quantum, limit.count)
    return TokenBucket.of_ns(capacity, interval_ns, quantum, refill)


def _leaky_bucket(numbers: Numbers) -> Algorithm:
    # Where nobody waits, all of the burst goes at once.
    delay: Literal[0, "nodelay"] = 0 if numbers.max_wait_ns else "nodelay"
    return LeakyBucket(numbers.per_second, numbers.limit.burst or 0, delay)


def _smooth_bursty(numbers: Numbers) -> Algorithm:
    return SmoothBursty(numbers.per_second, numbers.more.get("max_burst_seconds", 1.0))


def _smooth_warming_up(numbers: Numbers) -> Algorithm:
    return SmoothWarmingUp(numbers.per_second, numbers.warm_up_s or 0, numbers.cold_factor)


def _sliding_counter(numbers: Numbers) -> Algorithm:
    return SlidingCounter(numbers.limit.count, numbers.limit.period_s)


def _sentinel_qps(numbers: Numbers) -> Algorithm:
    if numbers.per_second < 1:
        expected = "at least one a second: this algorithm drops fractions, as the original does"
        raise InvalidLimitError("count", numbers.limit.count, expected)
    return QpsWindow(numbers.per_second)


def _sentinel_warm_up(numbers: Numbers) -> Algorithm:
    return WarmUp(numbers.per_second, numbers.warm_up_s or 0, numbers.cold_factor)


_BURST, _WARM_UP, _QUEUE = frozenset({"burst"}), frozenset({"warm_up"}), frozenset({"queue"})

ALGORITHMS: dict[str, Recipe] = {
    "sliding_window": Recipe(_sliding_window),
    "fixed_window": Recipe(_fixed_window, takes=frozenset({"timezone"})),
    "gcra": Recipe(_gcra, takes=_BURST, needs=_BURST),
    "token_bucket": Recipe(_token_bucket, takes=frozenset({"capacity", "quantum", "refill"})),
    "leaky_bucket": Recipe(_leaky_bucket, takes=_BURST, needs=_BURST),
    "smooth_bursty": Recipe(_smooth_bursty, takes=frozenset({"max_burst_seconds"})),
    "smooth_warming_up": Recipe(_smooth_warming_up, takes=_WARM_UP, needs=_WARM_UP),
    "sliding_counter": Recipe(_sliding_counter),
    "sentinel_qps": Recipe(_sentinel_qps),
    "sentinel_warm_up": Recipe(_sentinel_warm_up, takes=_WARM_UP, needs=_WARM_UP),
    "sentinel_pacing": Recipe(_pacing, takes=_QUEUE),
    "sentinel_warm_up_pacing": Recipe(_warm_up_queue, takes=_WARM_UP | _QUEUE | {"whole_ms"}, needs=_WARM_UP),
}
"""By the word that the file has for it."""


def algorithm_of(numbers: Numbers) -> Algorithm:
    """The arithmetic that keeps a limit: the one named, else what the numbers ask for.

    Raises:
        InvalidLimitError: the algorithm refuses a number.
    """
    if numbers.behavior == "warm_up":
        return _warm_up_window(numbers)
    if numbers.behavior == "warm_up_queue":
        return _warm_up_queue(numbers)
    if numbers.algorithm is not None:
        return ALGORITHMS[numbers.algorithm].build(numbers)
    if numbers.limit.by_calendar:
        return _fixed_window(numbers)
    # A queue without a burst is one that lets nobody through before its time.
    plain = numbers.limit.burst is None and numbers.behavior != "queue"
    return _sliding_window(numbers) if plain else _gcra(numbers)
