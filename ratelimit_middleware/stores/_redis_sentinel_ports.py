"""Ports of Sentinel's own limiters: QpsWindow, WarmUp, Pacing, WarmUpPacing."""

from __future__ import annotations

import struct

from ratelimit_middleware.algorithms._cold_bucket import ColdBucket
from ratelimit_middleware.algorithms.base import State
from ratelimit_middleware.algorithms.pacing import Pacing
from ratelimit_middleware.algorithms.qps_window import QpsWindow
from ratelimit_middleware.algorithms.warm_up import WarmUp
from ratelimit_middleware.algorithms.warm_up_pacing import WarmUpPacing
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.stores._redis_port import (
    LARGEST,
    LAST_US,
    US_NS,
    Port,
    doubles,
    read_doubles,
    whole_us,
)

__all__ = ["PacingPort", "QpsWindowPort", "WarmUpPacingPort", "WarmUpPort"]

_WARM_UP = struct.Struct("<10dI")
_ENTRY = struct.Struct("<dd")
_WARM_UP_PACING = struct.Struct("<6d")
_PIECE = 2**24
# Up to here what a double adds to the tokens is what the exact product would add.
_MOST_TOKENS = 2**43


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


class WarmUpPort(Port):
    """Tokens, half seconds, and the log: the newest entry stands first, in the header."""

    kind = "warm_up"
    tells = True

    def numbers(self, algorithm: WarmUp, cost: int, now_us: int) -> tuple[float, ...]:  # noqa: ARG002
        """The bucket's numbers, the quota and the window."""
        return (*_bucket(algorithm), algorithm.quota, whole_us(algorithm.window_ns))

    def encode(self, algorithm: WarmUp, state: State) -> bytes:  # noqa: ARG002
        """Header and older entries."""
        *numbers, log = state
        entries = [(whole_us(log[i]), log[i + 1]) for i in range(0, len(log), 2)]
        newest = entries.pop() if entries else (0, 0)
        return _WARM_UP.pack(*numbers, *newest, 0) + b"".join([_ENTRY.pack(*entry) for entry in entries])

    def decode(self, algorithm: WarmUp, packed: bytes) -> State:  # noqa: ARG002
        """As `encode`; entries that are gone may still stand behind the header."""
        *numbers, at_us, permits, gone = _WARM_UP.unpack_from(packed)
        entries = [*_ENTRY.iter_unpack(packed[_WARM_UP.size + gone * _ENTRY.size :])]
        if permits:
            entries.append((at_us, permits))
        log = tuple(number for us, n in entries for number in (int(us) * US_NS, int(n)))
        return (*map(int, numbers), log)


class PacingPort(Port):
    """The latest moment to the nanosecond: as microseconds and 1000 parts of one."""

    kind = "pacing"

    def numbers(self, algorithm: Pacing, cost: int, now_us: int) -> tuple[float, ...]:  # noqa: ARG002
        """Price, interval, longest wait and quota."""
        _refuse_long_queue(algorithm, algorithm.interval_ns)
        price_ns = algorithm.price_ns(cost) if algorithm.count else 0
        waits_us = algorithm.max_queueing_ns // US_NS
        return (*_pair(price_ns), *_pair(algorithm.interval_ns), waits_us, algorithm.quota)

    def encode(self, algorithm: Pacing, state: State) -> bytes:  # noqa: ARG002
        """Microseconds and parts."""
        return doubles(_pair(state[0]))

    def decode(self, algorithm: Pacing, packed: bytes) -> State:  # noqa: ARG002
        """As `encode`."""
        us, part = map(int, read_doubles(packed))
        return (us * US_NS + part,)


class WarmUpPacingPort(Port):
    """Tokens, two moments to the nanosecond, and the permits of each second."""

    kind = "warm_up_pacing"

    def numbers(self, algorithm: WarmUpPacing, cost: int, now_us: int) -> tuple[float, ...]:  # noqa: ARG002
        """The bucket's numbers, the queue's, and the prices as whole numbers of any size."""
        coldest_ns = algorithm.single_ns(algorithm.max_token)
        _refuse_long_queue(algorithm, coldest_ns)
        queue = (algorithm.quota, algorithm.max_queueing_ns // US_NS, algorithm.whole_ms)
        prices = (*_pair(coldest_ns), *_pair(algorithm.interval_ns))
        ratio = [number for whole in algorithm.price_ratio for number in _pieces(whole)]
        return (*_bucket(algorithm), *queue, *prices, *ratio)

    def encode(self, algorithm: WarmUpPacing, state: State) -> bytes:  # noqa: ARG002
        """Moments in microseconds and parts."""
        stored, filled_ms, latest_ns, older_ns, passes = state
        return doubles((stored, filled_ms, *_pair(latest_ns), *_pair(older_ns), *passes))

    def decode(self, algorithm: WarmUpPacing, packed: bytes) -> State:  # noqa: ARG002
        """As `encode`."""
        stored, filled_ms, us, part, older_us, older_part, *passes = map(int, read_doubles(packed))
        return (stored, filled_ms, us * US_NS + part, older_us * US_NS + older_part, tuple(passes))


def _bucket(algorithm: ColdBucket) -> tuple[float, ...]:
    """What the script counts cold with.

    Raises:
        StoreError: it would not be exact.
    """
    if algorithm.max_token > _MOST_TOKENS:
        raise StoreError(f"{algorithm!r} cannot be counted in Redis: its permits exceed 2^43")
    curve = (algorithm.warning_token, algorithm.max_token, algorithm.slope)
    return (algorithm.count, *curve, algorithm.cold_passes)


def _pair(time_ns: int) -> tuple[int, int]:
    """Nanoseconds as microseconds and parts of one; what is later than the script knows ends there."""
    return divmod(min(time_ns, LAST_US * US_NS), US_NS)


def _pieces(whole: int) -> list[int]:
    """A whole number in pieces of 24 bits, the lowest first, behind their number."""
    pieces: list[int] = []
    while whole or not pieces:
        whole, piece = divmod(whole, _PIECE)
        pieces.append(piece)
    return [len(pieces), *pieces]


def _refuse_long_queue(algorithm: Pacing | WarmUpPacing, interval_ns: int) -> None:
    """Two full queues are the longest debt; the script has to be able to count it.

    Raises:
        StoreError: it is not.
    """
    if 2 * max(1, algorithm.quota) * interval_ns > LARGEST * US_NS:
        raise StoreError(f"{algorithm!r} cannot be counted in Redis: its queue may take more than 2^50 us")
