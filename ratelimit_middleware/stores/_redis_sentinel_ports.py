"""Ports of Sentinel's own limiters: QpsWindow, Pacing."""

from __future__ import annotations

from ratelimit_middleware.algorithms.base import State
from ratelimit_middleware.algorithms.pacing import Pacing
from ratelimit_middleware.algorithms.qps_window import QpsWindow
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.stores._redis_port import (
    LARGEST,
    LAST_US,
    US_NS,
    Port,
    doubles,
    read_doubles,
)

__all__ = ["PacingPort", "QpsWindowPort"]


class QpsWindowPort(Port):
    """Half seconds by their number, and the permits in them."""

    kind = "qps_window"

    def numbers(self, algorithm: QpsWindow, cost: int, now_us: int) -> tuple[float, ...]:  # noqa: ARG002
        """The count."""
        return (algorithm.quota,)

    def encode(self, algorithm: QpsWindow, state: State) -> bytes:  # noqa: ARG002
        """As it is."""
        return doubles(state)

    def decode(self, algorithm: QpsWindow, packed: bytes) -> State:  # noqa: ARG002
        """As `encode`."""
        return tuple(map(int, read_doubles(packed)))


class PacingPort(Port):
    """The latest moment to the nanosecond: as microseconds and 1000 parts of one."""

    kind = "pacing"

    def numbers(self, algorithm: Pacing, cost: int, now_us: int) -> tuple[float, ...]:  # noqa: ARG002
        """Price, interval, longest wait and quota."""
        _refuse_long_queue(algorithm)
        price_ns = algorithm.price_ns(cost) if algorithm.count else 0
        waits_us = algorithm.max_queueing_ns // US_NS
        return (*_pair(price_ns), *_pair(algorithm.interval_ns), waits_us, algorithm.quota)

    def encode(self, algorithm: Pacing, state: State) -> bytes:  # noqa: ARG002
        """Microseconds and parts."""
        return doubles(_pair(min(state[0], LAST_US * US_NS)))

    def decode(self, algorithm: Pacing, packed: bytes) -> State:  # noqa: ARG002
        """As `encode`."""
        us, part = map(int, read_doubles(packed))
        return (us * US_NS + part,)


def _pair(time_ns: int) -> tuple[int, int]:
    """Nanoseconds as microseconds and parts of one."""
    return divmod(time_ns, US_NS)


def _refuse_long_queue(algorithm: Pacing) -> None:
    """Two full queues are the longest debt; the script has to be able to count it.

    Raises:
        StoreError: it is not.
    """
    if 2 * algorithm.window_ns > LARGEST * US_NS:
        raise StoreError(f"{algorithm!r} cannot be counted in Redis: its queue takes more than 2^50 us")
