"""Every kind of algorithm: which ones are drawn, how they are driven, and which bound each promises."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from hypothesis import strategies as st

from ratelimit_middleware.algorithms.base import ceil_div
from ratelimit_middleware.algorithms.fixed_window import FixedWindow
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
from tests.properties import bounds
from tests.properties.bounds import HALF_NS, Guava, Mine, Paced
from tests.properties.laws import Hit

__all__ = ["KINDS", "Kind"]


def _cost_above_the_quota(algorithm: Mine) -> int:
    return int(algorithm.quota) + 1


def _window(algorithm: Mine) -> int:
    return int(algorithm.window_ns)


def _as_it_is(algorithm: Mine, cost: int) -> int:
    return cost


class Kind(NamedTuple):
    """A kind of algorithm.

    Attributes:
        algorithms: those that are drawn.
        keeps: checks the bound: the admissions in order of booking, and whether any might wait.
        largest_cost: of those that are drawn.
        scale_ns: the time around which calls are drawn.
        gaps: distances at which something happens.
        dearest: what a request's cost may come to in permits as `used` counts them.
        dearest_debt: what a charge may come to (None: no more than a request of that cost).
        dropped: permits that a charge may fall short by.
        one_a_moment: whether of several bookings for one moment only the last can be undone.
        slack: permits that `used` may be off, where it is worked out in doubles.
        warms: whether it is stricter after idle time, so that what passed changes what passes later.
        beat_ns: how often it is asked under full load, which warms it.
        load: what it is asked for then, by what remains.
    """

    algorithms: st.SearchStrategy[Any]
    keeps: Callable[[Mine, Sequence[Hit], bool], None]
    largest_cost: Callable[[Mine], int] = _cost_above_the_quota
    scale_ns: Callable[[Mine], int] = _window
    gaps: Callable[[Mine], list[int]] = lambda algorithm: [algorithm.window_ns]
    dearest: Callable[[Mine, int], int] = _as_it_is
    dearest_debt: Callable[[Mine, int], int] | None = None
    dropped: Callable[[Mine], int] = lambda algorithm: 0
    one_a_moment: bool = False
    slack: int = 0
    warms: bool = False
    beat_ns: Callable[[Mine], int] = lambda algorithm: int(algorithm.window_ns) // 8 + 1
    load: Callable[[Mine, int], int] = lambda algorithm, remaining: max(1, remaining)


# --- what is drawn

periods_s = st.one_of(
    st.sampled_from([1e-6, 0.001, 1, 60, 3600, 86_400 * 30]), st.integers(1, 10**7).map(lambda us: us / 1e6)
)
few = st.integers(1, 60)
intervals_s = st.one_of(
    st.sampled_from([1e-9, 7e-9, 1e-6, 0.001, 1, 60, 86_400]), st.integers(1, 10**7).map(lambda us: us / 1e6)
)
quanta = st.one_of(st.just(1), few)
leaks = st.one_of(
    st.sampled_from([0.5, 1.5, 5, 10, 1000, 10**7]), st.integers(1, 10**6).map(lambda n: n / 1000)
)
delays = st.one_of(st.just("nodelay"), st.just(0), st.integers(0, 60))
units = st.sampled_from(["minute", "hour", "day", "week", "month", "year"])
zones = st.sampled_from(
    [None, "Europe/Berlin", "America/St_Johns", "Africa/Cairo", "Asia/Kolkata", "Pacific/Apia"]
)
guava_rates = st.one_of(
    st.sampled_from([0.01, 0.3, 1, 2, 3, 7, 10, 100, 3e5, 1e6]),
    st.floats(1e-3, 1e3),
    st.floats(1e3, 3e5),
    st.floats(3e5, 1e6),
)
guava_stored = st.one_of(st.sampled_from([0.0, 0.5, 1.0, 5.0]), st.floats(0, 60))
guava_factors = st.one_of(st.sampled_from([1, 1.5, 3, 10]), st.floats(1, 20))
factors = st.one_of(st.sampled_from([1.5, 2, 3, 10]), st.integers(1001, 8000).map(lambda n: n / 1000))
counts = st.one_of(
    st.sampled_from([0.3, 0.4, 1, 1.4, 3, 10, 12.3, 80, 400, 1000, 1500, 2500, 1e6]),
    st.floats(0.01, 100),
    st.floats(100, 1e6),
)
queueing = st.one_of(st.sampled_from([0.0, 0.5, 3.0]), st.floats(0, 20))
warm_ups = st.one_of(st.integers(1, 20), st.floats(0.01, 20))


@st.composite
def bursty(draw: st.DrawFn) -> SmoothBursty:
    rate = draw(guava_rates)
    return SmoothBursty(rate, draw(guava_stored) / rate)


@st.composite
def warming_up(draw: st.DrawFn) -> SmoothWarmingUp:
    rate = draw(guava_rates)
    return SmoothWarmingUp(rate, draw(guava_stored) / rate, draw(guava_factors))


@st.composite
def warm_up_windows(draw: st.DrawFn) -> WarmUpWindow:
    period_us = draw(st.one_of(st.sampled_from([1000, 10**6, 60 * 10**6]), st.integers(1, 10**7)))
    periods = draw(st.one_of(st.integers(2, 20), st.floats(2, 20)))
    return WarmUpWindow(
        draw(st.integers(1, 120)), period_us / 1e6, (period_us + 1) * periods / 1e6, draw(factors)
    )


# --- what needs other words


def _guava_dearest(algorithm: Guava, cost: int) -> int:
    """In permits at the stable price."""
    return cost if isinstance(algorithm, SmoothBursty) else math.ceil(cost * algorithm.cold_factor)


def _guava_dropped(algorithm: Guava) -> int:
    """Near a million a second a permit costs hardly more than one of the fractions that are dropped."""
    return math.ceil(bounds.parts(algorithm) / algorithm.stable_us)


def _coldest_ns(algorithm: Paced, cost: int) -> int:
    """Of a bucket without a token above the line the price may round to less on the line than below."""
    if isinstance(algorithm, Pacing):
        return algorithm.price_ns(cost)
    return max(algorithm.price_ns(0, cost), algorithm.price_ns(algorithm.max_token, cost))


def _paced_dearest(algorithm: Paced, cost: int) -> int:
    """A cold permit takes the time of several warm ones, and `used` counts warm ones."""
    return ceil_div(_coldest_ns(algorithm, cost), algorithm.interval_ns)


def _paced_debt(algorithm: Paced, cost: int) -> int:
    """Single permits are charged: in whole milliseconds each price is rounded, not that of all together."""
    return ceil_div(cost * _coldest_ns(algorithm, 1), algorithm.interval_ns)


def _paced_cost(algorithm: Paced) -> int:
    return min(100, max(2, algorithm.quota))


def _paced_scale_ns(algorithm: Paced) -> int:
    slowest = isinstance(algorithm, WarmUpPacing) and algorithm.price_ns(algorithm.max_token, 1)
    return slowest or algorithm.interval_ns


def _guava_cost(algorithm: Guava) -> int:
    return 2 * int(algorithm.max_permits) + 4


def _guava_scale_ns(algorithm: Guava) -> int:
    return int(algorithm.stable_us * 1000)


def _guava_gaps(algorithm: Guava) -> list[int]:
    return [
        1000,
        3000,
        int(algorithm.stable_us) * 1000,
        int(algorithm.max_permits * algorithm.stable_us) * 1000,
    ]


def _halves(algorithm: Mine) -> list[int]:
    return [HALF_NS, algorithm.window_ns]


_guava = Kind(
    bursty(),
    bounds.all_but_the_last,
    _guava_cost,
    _guava_scale_ns,
    _guava_gaps,
    _guava_dearest,
    dropped=_guava_dropped,
    one_a_moment=True,
    slack=1,
)
_paced = Kind(
    st.builds(Pacing, counts, queueing),
    bounds.a_price_apart,
    _paced_cost,
    _paced_scale_ns,
    _halves,
    _paced_dearest,
    _paced_debt,
)

KINDS: dict[str, Kind] = {
    "SlidingWindow": Kind(
        st.builds(SlidingWindow, st.integers(1, 200), periods_s), bounds.window_holds_its_limit
    ),
    "GCRA": Kind(st.builds(GCRA, st.integers(1, 200), periods_s, st.integers(1, 200)), bounds.gcra),
    "FixedWindow": Kind(
        st.one_of(
            st.builds(FixedWindow, few, st.sampled_from([1e-6, 0.001, 1, 60, 86_400])),
            st.builds(FixedWindow, few, units, zones),
        ),
        bounds.each_window_of_the_grid,
    ),
    "SlidingCounter": Kind(st.builds(SlidingCounter, few, periods_s), bounds.counter),
    "TokenBucket": Kind(
        st.builds(TokenBucket, few, intervals_s, quanta),
        bounds.tokens,
        lambda bucket: int(bucket.quota) + 5,
        gaps=lambda bucket: [bucket.fill_interval_ns],
    ),
    "TokenBucket, greedy": Kind(
        st.builds(TokenBucket, few, intervals_s, quanta, st.just("greedy")),
        bounds.tokens,
        lambda bucket: int(bucket.quota) + 5,
        gaps=lambda bucket: [bucket.fill_interval_ns],
    ),
    "LeakyBucket": Kind(st.builds(LeakyBucket, leaks, st.integers(0, 60), delays), bounds.leaky),
    "SmoothBursty": _guava,
    "SmoothWarmingUp": _guava._replace(algorithms=warming_up()),
    "QpsWindow": Kind(
        st.builds(QpsWindow, st.one_of(few, st.floats(1, 60))), bounds.half_seconds, gaps=_halves
    ),
    "Pacing": _paced,
    "WarmUpPacing": _paced._replace(
        algorithms=st.builds(WarmUpPacing, counts, warm_ups, factors, queueing, st.booleans()),
        warms=True,
        beat_ns=lambda pacing: HALF_NS // 2 + 1,
        load=lambda pacing, remaining: _paced_cost(pacing) // 2,
    ),
    "WarmUp": Kind(
        st.builds(WarmUp, st.one_of(st.integers(1, 120), st.floats(0.05, 60)), warm_ups, factors),
        bounds.window_holds_its_limit,
        gaps=_halves,
        warms=True,
    ),
    "WarmUpWindow": Kind(warm_up_windows(), bounds.window_holds_its_limit, warms=True),
}
