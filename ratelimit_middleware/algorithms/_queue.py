"""What Pacing and WarmUpPacing share: requests start one after the other and wait for a bounded time."""

from __future__ import annotations

import math

from ratelimit_middleware.algorithms.base import refused
from ratelimit_middleware.clock import NS_PER_SECOND
from ratelimit_middleware.decision import Decision

__all__ = ["ANY_COST", "KEPT_NS", "never", "patience_ns", "room", "round_half_up"]

ANY_COST = 10**9
"""The largest cost that a rule may have where every cost is admitted in the end."""

KEPT_NS = 60 * NS_PER_SECOND
"""A key never seen counts as idle for so long, so an idle one may be forgotten after that."""


def patience_ns(max_queueing_ns: int, max_wait_ns: int | None, until_start_ns: int = 0) -> int:
    """How long a request waits at most: what it says, and the queue from the start it asks for."""
    queueing_ns = until_start_ns + max_queueing_ns
    return queueing_ns if max_wait_ns is None else min(queueing_ns, max_wait_ns)


def room(free_ns: int, interval_ns: int, waits_ns: int) -> int:
    """How many requests one interval apart start within `waits_ns` if the first may start in `free_ns`."""
    return max(0, (waits_ns - max(0, free_ns)) // interval_ns + 1)


def never(now_ns: int, window_ns: int) -> Decision:
    """The refusal of a limit of 0."""
    return refused(now_ns, None, 0, 0, window_ns)


def round_half_up(value: float) -> int:
    """The nearest whole number, halves up (`round` would take the even one)."""
    below = math.floor(value)
    return below + (value - below >= 0.5)
