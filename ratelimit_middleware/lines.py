"""Lines: who waits for the same buckets in one process, in order; who leaves makes room for those behind."""

from __future__ import annotations

import threading
from bisect import insort
from collections.abc import Callable, Hashable
from typing import TypeAlias

from ratelimit_middleware.settling import Booking

__all__ = ["Bookings", "Lines", "Waiter"]

Bookings: TypeAlias = tuple[Booking, ...]


class Waiter:
    """A request that waits for its moment.

    Args:
        bookings: what it has booked.
        moment: when it may start, in seconds of the event loop's clock.
        wake_at: is told an earlier moment when it moves up.
    """

    __slots__ = ("bookings", "line", "moment", "wake_at")

    def __init__(self, bookings: Bookings, moment: float, wake_at: Callable[[float], object]) -> None:
        self.bookings = bookings
        self.moment = moment
        self.wake_at = wake_at
        # Each event loop has a thread of its own; only requests with the same permits in the same buckets
        # can take each other's place. Rules that share a bucket may differ in what is given back.
        buckets = tuple((check.key, check.cost, settle) for check, _, settle in bookings)
        self.line: Hashable = (threading.get_ident(), buckets)

    def take_place(self, bookings: Bookings, moment: float) -> None:
        """Move up to where another one stood."""
        self.bookings = bookings
        self.moment = moment
        self.wake_at(moment)


class Lines:
    """All lines of a process; each is touched by the thread of its event loop only."""

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        self._lines: dict[Hashable, list[Waiter]] = {}

    def join(self, waiter: Waiter) -> None:
        """Stand where the moment says; behind those of the same moment."""
        insort(self._lines.setdefault(waiter.line, []), waiter, key=_moment)

    def start(self, waiter: Waiter) -> None:
        """The moment has come."""
        line = self._lines[waiter.line]
        line.remove(waiter)
        if not line:
            del self._lines[waiter.line]

    def leave(self, waiter: Waiter) -> Bookings:
        """Stop waiting: each one behind takes the place of the one before it.

        Returns:
            What is to be given back: the bookings of the last place.
        """
        line = self._lines[waiter.line]
        place = line.index(waiter)
        behind = line[place + 1 :]
        self.start(waiter)
        free = (waiter.bookings, waiter.moment)
        for other in behind:
            left = (other.bookings, other.moment)
            other.take_place(*free)
            free = left
        return free[0]

    def __len__(self) -> int:
        """How many wait."""
        return sum(len(line) for line in self._lines.values())


def _moment(waiter: Waiter) -> float:
    return waiter.moment
