"""Deadline: the moment until which a thread waits for a store, whatever it has to wait for."""

from __future__ import annotations

from ratelimit_middleware.clock import NS_PER_SECOND, SystemClock

__all__ = ["Deadline"]


class Deadline:
    """One bound on everything that a call waits for: connections, replies, and what is asked again.

    Args:
        timeout_s: how long from now.
    """

    __slots__ = ("_end_ns", "_now_ns")

    def __init__(self, timeout_s: float) -> None:
        self._now_ns = SystemClock(offset_ns=0).now_ns
        self._end_ns = self._now_ns() + timeout_s * NS_PER_SECOND

    def left_s(self) -> float:
        """How long is left; at least 0."""
        return max(0.0, (self._end_ns - self._now_ns()) / NS_PER_SECOND)
