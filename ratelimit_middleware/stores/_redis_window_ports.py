"""Ports of the windows: SlidingWindow, WarmUpWindow, FixedWindow, SlidingCounter; and of the slots."""

from __future__ import annotations

import struct

from ratelimit_middleware.algorithms.base import Algorithm, State, ceil_div
from ratelimit_middleware.algorithms.concurrency import Concurrency
from ratelimit_middleware.algorithms.fixed_window import FixedWindow
from ratelimit_middleware.algorithms.sliding_counter import SlidingCounter
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.algorithms.warm_up_window import WarmUpWindow
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.stores._redis_port import US_NS, Port, doubles, read_doubles, whole_us

__all__ = [
    "ConcurrencyPort",
    "FixedWindowPort",
    "SlidingCounterPort",
    "SlidingWindowPort",
    "WarmUpWindowPort",
]

_HEADER = struct.Struct("<dddII")
_ENTRY = struct.Struct("<ddI")
_ENTRY_NS = struct.Struct("<qqI")
_MOST_SLOTS = 2000  # the script handles three numbers each on a stack of 8,000
_WARM_UP = struct.Struct("<4d")


class SlidingWindowPort(Port):
    """The log, microseconds for nanoseconds; the newest entry stands first, in the header."""

    kind = "sliding_window"
    tells = True

    def numbers(self, algorithm: SlidingWindow, cost: int, now_us: int) -> tuple[float, ...]:  # noqa: ARG002
        """Limit, period, and the 64th of it in which hits may be merged."""
        period_ns = algorithm.period_ns
        return (algorithm.limit, whole_us(period_ns), ceil_div(period_ns, 64) / US_NS)

    def encode(self, algorithm: SlidingWindow, state: State) -> bytes:  # noqa: ARG002
        """Header and older entries."""
        used, log = state
        entries = [(whole_us(a), whole_us(b), n) for a, b, n in _ENTRY_NS.iter_unpack(log)]
        newest = entries.pop() if entries else (0, 0, 0)
        return _HEADER.pack(used, *newest, 0) + b"".join([_ENTRY.pack(*entry) for entry in entries])

    def decode(self, algorithm: SlidingWindow, packed: bytes) -> State:  # noqa: ARG002
        """As `encode`; entries that are gone may still stand behind the header."""
        used, first_us, last_us, permits, gone = _HEADER.unpack_from(packed)
        entries = [*_ENTRY.iter_unpack(packed[_HEADER.size + gone * _ENTRY.size :])]
        if permits:
            entries.append((first_us, last_us, permits))
        log = [_ENTRY_NS.pack(int(first) * US_NS, int(last) * US_NS, n) for first, last, n in entries]
        return (int(used), b"".join(log))


class WarmUpWindowPort(Port):
    """The window's port, and the cold."""

    kind = "warm_up_window"
    tells = True

    def __init__(self) -> None:
        self._window = SlidingWindowPort()

    def numbers(self, algorithm: WarmUpWindow, cost: int, now_us: int) -> tuple[float, ...]:
        """The window's numbers, the cold factor, the most cold and the cold limit."""
        _whole_period(algorithm, algorithm.window_ns)
        top, bottom = algorithm.factor
        if algorithm.full_cold * top > 2**51:
            raise StoreError(f"{algorithm!r} cannot be counted in Redis: its permits exceed 2^51")
        window = self._window.numbers(algorithm.window, cost, now_us)
        return (*window, top, bottom, algorithm.full_cold, algorithm.cold_limit)

    def encode(self, algorithm: WarmUpWindow, state: State) -> bytes:
        """The cold and the window."""
        return _WARM_UP.pack(*state[:4]) + self._window.encode(algorithm.window, state[4:])

    def decode(self, algorithm: WarmUpWindow, packed: bytes) -> State:
        """As `encode`."""
        cold = map(int, _WARM_UP.unpack_from(packed))
        return (*cold, *self._window.decode(algorithm.window, packed[_WARM_UP.size :]))


class FixedWindowPort(Port):
    """Four numbers; windows of a calendar go over as their borders, for they need the calendar."""

    kind = "fixed_window"

    def numbers(self, algorithm: FixedWindow, cost: int, now_us: int) -> tuple[float, ...]:  # noqa: ARG002
        """Limit, period (0 for a calendar), and its borders."""
        _whole_period(algorithm, algorithm.period_ns)
        if algorithm.unit is None:
            return (algorithm.limit, algorithm.period_ns // US_NS)
        return (algorithm.limit, 0, *_borders(algorithm, now_us))

    def holds(self, numbers: tuple[float, ...]) -> tuple[float, float]:
        """The present window."""
        return super().holds(numbers) if numbers[1] else (numbers[3], numbers[4])

    def encode(self, algorithm: FixedWindow, state: State) -> bytes:  # noqa: ARG002
        """Borders in microseconds."""
        start_ns, end_ns, used, booked = state
        return doubles((start_ns // US_NS, end_ns // US_NS, used, booked))

    def decode(self, algorithm: FixedWindow, packed: bytes) -> State:  # noqa: ARG002
        """As `encode`."""
        start_us, end_us, used, booked = map(int, read_doubles(packed))
        return (start_us * US_NS, end_us * US_NS, used, booked)


class SlidingCounterPort(Port):
    """Periods by their number, and the permits in them."""

    kind = "sliding_counter"

    def numbers(self, algorithm: SlidingCounter, cost: int, now_us: int) -> tuple[float, ...]:  # noqa: ARG002
        """Limit and period."""
        _whole_period(algorithm, algorithm.period_ns)
        return (algorithm.limit, algorithm.period_ns // US_NS)

    def encode(self, algorithm: SlidingCounter, state: State) -> bytes:  # noqa: ARG002
        """As it is."""
        return doubles(state)

    def decode(self, algorithm: SlidingCounter, packed: bytes) -> State:  # noqa: ARG002
        """As `encode`."""
        return tuple(map(int, read_doubles(packed)))


class ConcurrencyPort(Port):
    """Slots: ticket, end of the lease, permits."""

    kind = "concurrency"
    tells = True

    def numbers(self, algorithm: Concurrency, cost: int, now_us: int) -> tuple[float, ...]:  # noqa: ARG002
        """Limit and lease."""
        if algorithm.limit > _MOST_SLOTS:
            raise StoreError(
                f"{algorithm!r} cannot be counted in Redis: expected a limit of {_MOST_SLOTS} at most"
            )
        return (algorithm.limit, whole_us(algorithm.lease_ns))

    def encode(self, algorithm: Concurrency, state: State) -> bytes:  # noqa: ARG002
        """Times in microseconds."""
        return doubles(n if i % 3 == 2 else whole_us(n) for i, n in enumerate(state))

    def decode(self, algorithm: Concurrency, packed: bytes) -> State:  # noqa: ARG002
        """As `encode`."""
        numbers = enumerate(map(int, read_doubles(packed)))
        return tuple(n if i % 3 == 2 else n * US_NS for i, n in numbers)


def _borders(algorithm: FixedWindow, now_us: int) -> list[int]:
    """Of the window before, of this one, and of the three behind it."""
    start_ns, end_ns = algorithm.start(now_us * US_NS)[:2]
    borders = [algorithm.start(start_ns - 1)[0], start_ns, end_ns]
    while len(borders) < 6:
        borders.append(algorithm.start(borders[-1])[1])
    return [border // US_NS for border in borders]


def _whole_period(algorithm: Algorithm, period_ns: int) -> None:
    if period_ns % US_NS:
        raise StoreError(f"{algorithm!r} cannot be counted in Redis: its period is no whole microseconds")
