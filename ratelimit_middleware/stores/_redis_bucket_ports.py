"""Ports of the buckets: GCRA, LeakyBucket, TokenBucket.

Their times are fractions of a microsecond. They go over as whole microseconds and so many parts of one,
the parts chosen so that nothing is left over.
"""

from __future__ import annotations

from ratelimit_middleware.algorithms.base import State, ceil_div
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.leaky_bucket import LeakyBucket
from ratelimit_middleware.algorithms.token_bucket import TokenBucket
from ratelimit_middleware.stores._redis_port import LAST_US, US_NS, Port, doubles, read_doubles, whole_us

__all__ = ["GCRAPort", "GreedyTokenBucketPort", "LeakyBucketPort", "TokenBucketPort"]

_PERMIT_US = 10**9  # nginx's permit: thousandths of a permit per second, times microseconds


class GCRAPort(Port):
    """Parts: `1000 * limit`, so that a permit is a whole number of them."""

    kind = "gcra"

    def numbers(self, algorithm: GCRA, cost: int, now_us: int) -> tuple[float, ...]:  # noqa: ARG002
        """Parts, times of the cost and of the burst, whether the burst holds the cost."""
        period_ns, burst, parts = algorithm.period_ns, algorithm.burst, US_NS * algorithm.limit
        size = divmod(min(cost, 2 * burst) * period_ns, parts)
        return (parts, *size, *divmod(burst * period_ns, parts), cost <= burst)

    def encode(self, algorithm: GCRA, state: State) -> bytes:
        """TAT, the last and the latest booking."""
        last_ns, debt, ahead_ns = (*state, 0)[:3]
        tat = (last_ns * algorithm.ticks_per_ns + debt) * (algorithm.limit // algorithm.ticks_per_ns)
        tat_us, part = divmod(tat, US_NS * algorithm.limit)
        return doubles((min(tat_us, LAST_US), part, whole_us(last_ns), whole_us(last_ns + ahead_ns)))

    def decode(self, algorithm: GCRA, packed: bytes) -> State:
        """As `encode`."""
        us, part, last_us, latest_us = map(int, read_doubles(packed))
        tat = ceil_div(us * US_NS * algorithm.limit + part, algorithm.limit // algorithm.ticks_per_ns)
        last_ns, ahead_ns = last_us * US_NS, (latest_us - last_us) * US_NS
        state = (last_ns, tat - last_ns * algorithm.ticks_per_ns)
        return (*state, ahead_ns) if ahead_ns else state


class LeakyBucketPort(Port):
    """Parts: `rate_milli`, so that a permit leaves a whole number of them."""

    kind = "leaky_bucket"

    def numbers(self, algorithm: LeakyBucket, cost: int, now_us: int) -> tuple[float, ...]:  # noqa: ARG002
        """Parts, times of the cost, of the whole bucket, and of what goes at once."""
        parts, quota = algorithm.rate_milli, algorithm.quota
        at_once = quota if algorithm.delay == "nodelay" else min(quota, algorithm.delay + 1)
        amounts = (min(cost, 2 * quota), quota, at_once)
        return (parts, *(number for n in amounts for number in divmod(n * _PERMIT_US, parts)))

    def encode(self, algorithm: LeakyBucket, state: State) -> bytes:
        """The drained moment, the last and the latest booking."""
        us, part = divmod(whole_us(state[0]), algorithm.rate_milli)
        return doubles((min(us, LAST_US), part, whole_us(state[1]), whole_us(state[2])))

    def decode(self, algorithm: LeakyBucket, packed: bytes) -> State:
        """As `encode`."""
        us, part, booked_us, latest_us = map(int, read_doubles(packed))
        return ((us * algorithm.rate_milli + part) * US_NS, booked_us * US_NS, latest_us * US_NS)


class TokenBucketPort(Port):
    """Refill at intervals. Parts: 1 for intervals of whole microseconds, else 1000 (nanoseconds)."""

    kind = "token_bucket"

    def numbers(self, algorithm: TokenBucket, cost: int, now_us: int) -> tuple[float, ...]:  # noqa: ARG002
        """Capacity, quantum, interval, parts; the others only have to be exact."""
        part_ns = _part_ns(algorithm)
        interval, window = algorithm.fill_interval_ns // part_ns, algorithm.window_ns // part_ns
        return (algorithm.capacity, algorithm.quantum, interval, US_NS // part_ns, window, cost)

    def encode(self, algorithm: TokenBucket, state: State) -> bytes:
        """Level, edge, the last and the latest booking."""
        level, edge_ns, booked_ns, latest_ns = state
        edge_us, rest_ns = divmod(edge_ns, US_NS)
        if rest_ns and _part_ns(algorithm) == US_NS:
            edge_us, rest_ns = edge_us + 1, 0
        return doubles((max(level, -LAST_US), edge_us, rest_ns, whole_us(booked_ns), whole_us(latest_ns)))

    def decode(self, algorithm: TokenBucket, packed: bytes) -> State:  # noqa: ARG002
        """As `encode`."""
        level, edge_us, rest_ns, booked_us, latest_us = map(int, read_doubles(packed))
        return (level, edge_us * US_NS + rest_ns, booked_us * US_NS, latest_us * US_NS)


def _part_ns(algorithm: TokenBucket) -> int:
    return 1 if algorithm.fill_interval_ns % US_NS else US_NS


class GreedyTokenBucketPort(Port):
    """Refill without steps. Parts: `1000 * quantum`; the balance goes over as the moment it is full."""

    kind = "token_bucket_greedy"

    def numbers(self, algorithm: TokenBucket, cost: int, now_us: int) -> tuple[float, ...]:  # noqa: ARG002
        """Parts, times of the cost and of the capacity."""
        parts = US_NS * algorithm.quantum
        size = divmod(cost * algorithm.fill_interval_ns, parts)
        return (parts, *size, *divmod(algorithm.full, parts))

    def encode(self, algorithm: TokenBucket, state: State) -> bytes:
        """The moment it is full, the edge, the last and the latest booking."""
        level, edge_ns, booked_ns, latest_ns = state
        full = edge_ns * algorithm.quantum + algorithm.full - level
        full_us, part = divmod(full, US_NS * algorithm.quantum)
        return doubles(
            (min(full_us, LAST_US), part, whole_us(edge_ns), whole_us(booked_ns), whole_us(latest_ns))
        )

    def decode(self, algorithm: TokenBucket, packed: bytes) -> State:
        """As `encode`."""
        full_us, part, edge_us, booked_us, latest_us = map(int, read_doubles(packed))
        missing = (full_us - edge_us) * US_NS * algorithm.quantum + part
        return (algorithm.full - missing, edge_us * US_NS, booked_us * US_NS, latest_us * US_NS)
