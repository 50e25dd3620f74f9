"""How many requests fit into the server at one time: best throughput x best latency.

So TCP BBR estimates a pipe, and so the system rules of alibaba/Sentinel (1.8.9 line) use it. Plain
arithmetic on moments.
"""

from __future__ import annotations

from ratelimit_middleware.algorithms.base import ceil_div
from ratelimit_middleware.clock import NS_PER_SECOND

__all__ = ["Capacity"]

_BUCKETS = 10
_BUCKET_NS = NS_PER_SECOND // _BUCKETS
_AT_FIRST = 10


class Capacity:
    """The requests that have ended in the last second, in ten pieces.

    The best piece tells the throughput, the quickest request the latency. While nothing has ended, the last
    estimate holds: a server that is stuck has not become larger. Before the first it is ten.
    """

    __slots__ = ("_buckets", "_last")

    def __init__(self) -> None:
        # Of each piece: its number since the epoch, requests that ended in it, the quickest of them.
        self._buckets = [(-1, 0, 0)] * _BUCKETS
        self._last = _AT_FIRST

    def completed(self, now_ns: int, took_ns: int) -> None:
        """A request has ended that took so long."""
        number = now_ns // _BUCKET_NS
        known, count, quickest_ns = self._buckets[number % _BUCKETS]
        if known != number:
            count, quickest_ns = 0, took_ns
        self._buckets[number % _BUCKETS] = (number, count + 1, min(quickest_ns, took_ns))

    def at(self, now_ns: int) -> int:
        """How many requests fit, at least 1."""
        recent = self._recent(now_ns)
        if recent:
            most, quickest_ns = max(count for count, _ in recent), min(ns for _, ns in recent)
            self._last = max(1, ceil_div(most * quickest_ns, _BUCKET_NS))
        return self._last

    def within(self, now_ns: int, span_ns: int) -> int:
        """How many requests end in such a time at the best throughput."""
        return max((count for count, _ in self._recent(now_ns)), default=0) * span_ns // _BUCKET_NS

    def _recent(self, now_ns: int) -> list[tuple[int, int]]:
        oldest = now_ns // _BUCKET_NS - _BUCKETS
        return [(count, quickest_ns) for number, count, quickest_ns in self._buckets if number > oldest]
