"""The bounds that the algorithms promise, as the classes' docstrings state them.

Each is asked with the admissions in order of booking, and whether any might wait.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeAlias

from ratelimit_middleware.algorithms.fixed_window import FixedWindow
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.leaky_bucket import LeakyBucket
from ratelimit_middleware.algorithms.pacing import Pacing
from ratelimit_middleware.algorithms.qps_window import QpsWindow
from ratelimit_middleware.algorithms.sliding_counter import SlidingCounter
from ratelimit_middleware.algorithms.smooth_bursty import SmoothBursty
from ratelimit_middleware.algorithms.smooth_warming_up import SmoothWarmingUp
from ratelimit_middleware.algorithms.token_bucket import TokenBucket
from ratelimit_middleware.algorithms.warm_up_pacing import WarmUpPacing
from tests.properties.laws import Hit, check_at_most, check_burst_and_rate, check_envelope

__all__ = [
    "HALF_NS",
    "Guava",
    "Mine",
    "Paced",
    "a_price_apart",
    "all_but_the_last",
    "counter",
    "each_window_of_the_grid",
    "gcra",
    "half_seconds",
    "leaky",
    "parts",
    "tokens",
    "window_holds_its_limit",
]

HALF_NS = 500_000_000

# An algorithm of the kind at hand: each function knows which.
Mine: TypeAlias = Any
Paced: TypeAlias = Pacing | WarmUpPacing
Guava: TypeAlias = SmoothBursty | SmoothWarmingUp


def window_holds_its_limit(window: Mine, hits: Sequence[Hit], waited: bool) -> None:
    check_at_most(hits, window.window_ns, window.quota)


def each_window_of_the_grid(window: FixedWindow, hits: Sequence[Hit], waited: bool) -> None:
    taken: Counter[int] = Counter()
    for hit in hits:
        taken[window.start(hit.at_ns)[0]] += hit.cost
    assert max(taken.values(), default=0) <= window.limit


def counter(window: SlidingCounter, hits: Sequence[Hit], waited: bool) -> None:
    for index in {hit.at_ns // window.period_ns for hit in hits}:
        assert sum(hit.cost for hit in hits if hit.at_ns // window.period_ns == index) <= window.limit
    check_at_most(hits, window.period_ns, 2 * window.limit - 1)


def half_seconds(window: QpsWindow, hits: Sequence[Hit], waited: bool) -> None:
    for half in {hit.at_ns // HALF_NS for hit in hits}:
        assert sum(hit.cost for hit in hits if half - 1 <= hit.at_ns // HALF_NS <= half) <= window.count
    check_at_most(hits, 2 * HALF_NS, 2 * window.quota)


def gcra(bucket: GCRA, hits: Sequence[Hit], waited: bool) -> None:
    check_burst_and_rate(hits, bucket.burst, bucket.limit, bucket.period_ns, int(waited))


def _largest(hits: Sequence[Hit], waited: bool) -> int:
    return max((hit.cost for hit in hits), default=1) if waited else 1


def leaky(bucket: LeakyBucket, hits: Sequence[Hit], waited: bool) -> None:
    at_once = 1 + (bucket.burst if bucket.delay == "nodelay" else min(bucket.burst, bucket.delay))
    check_burst_and_rate(hits, max(at_once, _largest(hits, waited)), bucket.rate_milli, 10**12, int(waited))


def tokens(bucket: TokenBucket, hits: Sequence[Hit], waited: bool) -> None:
    quantum, interval_ns, largest = bucket.quantum, bucket.fill_interval_ns, _largest(hits, waited)
    if bucket.refill == "greedy":
        check_burst_and_rate(hits, max(bucket.capacity, largest), quantum, interval_ns, int(waited))
        return
    burst = max(bucket.capacity, quantum - 1 + largest) if waited else bucket.capacity
    check_envelope(hits, lambda t_ns: burst + quantum * -(-t_ns // interval_ns))


def parts(algorithm: Guava) -> int:
    """Of the price of a request: the original drops the fraction of a microsecond of each."""
    return 1 if isinstance(algorithm, SmoothBursty) else 3


def all_but_the_last(algorithm: Guava, hits: Sequence[Hit], waited: bool) -> None:
    """Any size is granted when the one before has been paid for; so the last one is left out.

    Bookings lie in whole microseconds: a request that starts between two counts from the one before. The
    last is the one booked last; one booked for a start between two microseconds may start after it.
    """
    free = algorithm.max_permits if isinstance(algorithm, SmoothBursty) else 0.0
    for first, start in enumerate(hits):
        total = 0
        for requests, hit in enumerate(hits[first:]):
            assert hit.at_ns > start.at_ns - 1000
            t_us = (hit.at_ns - start.at_ns) / 1000 + 1 + parts(algorithm) * requests
            allowed = free + t_us / algorithm.stable_us
            assert total <= allowed * (1 + 1e-12) + 1e-9, (start, hit, total)
            total += hit.cost


def a_price_apart(algorithm: Paced, hits: Sequence[Hit], waited: bool) -> None:
    """The first one has been paid for by idle time."""
    least = algorithm.price_ns if isinstance(algorithm, Pacing) else algorithm.least_price_ns
    for early, late in pairwise(hits):
        assert late.at_ns - early.at_ns >= least(late.cost)
