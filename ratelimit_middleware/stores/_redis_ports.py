"""What Python and the script say to each other about an algorithm: its numbers and its states.

The script counts whole microseconds. What depends only on the limit and the cost is worked out here,
on unbounded integers, so that the script adds and compares and never rounds. Numbers beyond 2^51, with
which it could not count exactly, are refused by name.
"""

from __future__ import annotations

from typing import Any

from ratelimit_middleware.algorithms.base import Algorithm
from ratelimit_middleware.algorithms.concurrency import Concurrency
from ratelimit_middleware.algorithms.fixed_window import FixedWindow
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.leaky_bucket import LeakyBucket
from ratelimit_middleware.algorithms.pacing import Pacing
from ratelimit_middleware.algorithms.penalty import Penalty, Strike
from ratelimit_middleware.algorithms.qps_window import QpsWindow
from ratelimit_middleware.algorithms.related import Related, RelatedCharge
from ratelimit_middleware.algorithms.sliding_counter import SlidingCounter
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.algorithms.smooth_bursty import SmoothBursty
from ratelimit_middleware.algorithms.smooth_warming_up import SmoothWarmingUp
from ratelimit_middleware.algorithms.token_bucket import TokenBucket
from ratelimit_middleware.algorithms.warm_up import WarmUp
from ratelimit_middleware.algorithms.warm_up_pacing import WarmUpPacing
from ratelimit_middleware.algorithms.warm_up_window import WarmUpWindow
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.stores._redis_bucket_ports import (
    GCRAPort,
    GreedyTokenBucketPort,
    LeakyBucketPort,
    TokenBucketPort,
)
from ratelimit_middleware.stores._redis_penalty_port import PenaltyPort, StrikePort
from ratelimit_middleware.stores._redis_port import Port
from ratelimit_middleware.stores._redis_related_port import RelatedPort
from ratelimit_middleware.stores._redis_sentinel_ports import (
    PacingPort,
    QpsWindowPort,
    WarmUpPacingPort,
    WarmUpPort,
)
from ratelimit_middleware.stores._redis_smooth_port import SmoothPort
from ratelimit_middleware.stores._redis_window_ports import (
    ConcurrencyPort,
    FixedWindowPort,
    SlidingCounterPort,
    SlidingWindowPort,
    WarmUpWindowPort,
)

__all__ = ["port_of"]

_GREEDY = GreedyTokenBucketPort()
_PORTS: dict[type[Any], Port] = {
    Concurrency: ConcurrencyPort(),
    FixedWindow: FixedWindowPort(),
    GCRA: GCRAPort(),
    LeakyBucket: LeakyBucketPort(),
    Pacing: PacingPort(),
    Penalty: PenaltyPort(),
    QpsWindow: QpsWindowPort(),
    SlidingCounter: SlidingCounterPort(),
    SlidingWindow: SlidingWindowPort(),
    SmoothBursty: SmoothPort(),
    SmoothWarmingUp: SmoothPort(),
    Strike: StrikePort(),
    TokenBucket: TokenBucketPort(),
    WarmUp: WarmUpPort(),
    WarmUpPacing: WarmUpPacingPort(),
    WarmUpWindow: WarmUpWindowPort(),
}


def port_of(algorithm: Algorithm) -> Port:
    """The port of an algorithm.

    Raises:
        StoreError: the script has none.
    """
    if isinstance(algorithm, (Related, RelatedCharge)):
        return _related(algorithm)
    port = _PORTS.get(type(algorithm))
    if port is None:
        known = ", ".join(sorted(kind.__name__ for kind in _PORTS))
        raise StoreError(f"{algorithm!r} cannot be counted in Redis: there is a script for {known}")
    if isinstance(algorithm, TokenBucket) and algorithm.refill == "greedy":
        return _GREEDY
    return port


def _related(algorithm: Related | RelatedCharge) -> Port:
    steps = "related" if isinstance(algorithm, Related) else "related_charge"
    return RelatedPort(port_of(algorithm.limit), steps)
