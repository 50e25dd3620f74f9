"""Where time comes from. Only this module reads the system's clocks.

`now_ns` is epoch-anchored monotonic: the wall time once at the start, the monotonic clock from then
on. So calendar windows and whole seconds mean something, and a step of the wall clock (NTP, an
operator) changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from typing import Protocol

from ratelimit_middleware.errors import InvalidLimitError

__all__ = [
    "NS_PER_SECOND",
    "Clock",
    "ManualClock",
    "SystemClock",
    "WaitingClock",
    "reading",
    "steady",
    "to_ns",
    "told",
    "utc_date",
]

NS_PER_SECOND = 1_000_000_000


def to_ns(duration: float | timedelta, what: str = "duration") -> int:
    """Seconds (or a `timedelta`) as whole nanoseconds, rounded to the nearest.

    Raises:
        InvalidLimitError: not a finite number of seconds, or negative.
    """
    if isinstance(duration, timedelta):
        nanoseconds = duration // timedelta(microseconds=1) * 1000
    elif isinstance(duration, (int, float)) and not isinstance(duration, bool) and abs(duration) < 1e11:
        nanoseconds = round(duration * NS_PER_SECOND)
    else:
        nanoseconds = -1
    if nanoseconds < 0:
        raise InvalidLimitError(what, duration, "a number of seconds (or a timedelta), not negative")
    return nanoseconds


def utc_date(now_ns: int) -> date:
    """The date at a moment, in UTC.

    Raises:
        OverflowError: the moment lies beyond the calendar.
    """
    return (datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=now_ns // 1000)).date()


class Clock(Protocol):
    """Something that tells the time in nanoseconds since the epoch."""

    def now_ns(self) -> int:
        """The present moment, never earlier than the last one told."""


class WaitingClock(Clock, Protocol):
    """A clock that can also wait for a moment to come."""

    def sleep(self, seconds: float) -> None:
        """Return when `seconds` have passed."""

    async def sleep_async(self, seconds: float) -> None:
        """Return when `seconds` have passed; others run meanwhile."""


class SystemClock:
    """The wall time at construction, carried forward by the monotonic clock.

    Args:
        offset_ns: wall time minus monotonic time as another clock of this boot has read it, so that both
            tell the same time; read here if None.
    """

    __slots__ = ("offset_ns",)

    def __init__(self, offset_ns: int | None = None) -> None:
        self.offset_ns = time.time_ns() - time.monotonic_ns() if offset_ns is None else offset_ns

    def now_ns(self) -> int:
        """Nanoseconds since the epoch; a step of the wall clock does not show."""
        return time.monotonic_ns() + self.offset_ns

    def sleep(self, seconds: float) -> None:
        """Block this thread for `seconds`."""
        time.sleep(seconds)

    async def sleep_async(self, seconds: float) -> None:
        """Let the other tasks of this event loop run for `seconds`."""
        import asyncio  # costs a third of the package's import time, and only waiting tasks need it

        await asyncio.sleep(seconds)


class ManualClock:
    """A clock that stands until it is told to move: for tests and simulations.

    Args:
        start_s: seconds since the epoch at which it stands first.
    """

    __slots__ = ("_now_ns",)

    def __init__(self, start_s: float | timedelta = 1_700_000_000) -> None:
        self._now_ns = to_ns(start_s, "start_s")

    def now_ns(self) -> int:
        """The moment last set."""
        return self._now_ns

    def advance(self, seconds: float | timedelta) -> None:
        """Move forward by `seconds`.

        Raises:
            InvalidLimitError: negative or not finite.
        """
        self._now_ns += to_ns(seconds, "seconds")

    def sleep(self, seconds: float) -> None:
        """Move forward by `seconds` instead of waiting."""
        self.advance(seconds)

    async def sleep_async(self, seconds: float) -> None:
        """Move forward by `seconds` instead of waiting; the other tasks run once."""
        import asyncio

        self.advance(seconds)
        await asyncio.sleep(0)

    def set_ns(self, now_ns: int) -> None:
        """Stand at `now_ns`, earlier or later: this is how a test steps a clock back."""
        self._now_ns = now_ns


def told(clock: Clock) -> Clock:
    """A clock that somebody has given.

    Raises:
        InvalidLimitError: it tells no time: a function such as `time.time`, or a class.
    """
    if isinstance(clock, type) or not callable(getattr(clock, "now_ns", None)):
        raise InvalidLimitError(
            "clock", clock, "an object with a method `now_ns`, such as `SystemClock()` or `ManualClock()`"
        )
    return clock


def reading(clock: Clock | None) -> tuple[Callable[[], int], int]:
    """How a store reads its time: a function that never goes back, and the nanoseconds to add to it.

    So the system's clock, for None, is read without a call in between. Else the function is that of `steady`.
    """
    return (steady(clock), 0) if clock else (time.monotonic_ns, SystemClock().offset_ns)


def steady(clock: Clock) -> Callable[[], int]:
    """Wrap `clock` into a function that never goes back: a step back is absorbed, time runs on.

    The caller serialises the calls (a store calls it under its lock).
    """
    read = told(clock).now_ns
    last_ns = read()
    lost_ns = 0

    def now_ns() -> int:
        nonlocal last_ns, lost_ns
        now = read() + lost_ns
        if now < last_ns:
            lost_ns += last_ns - now
            now = last_ns
        last_ns = now
        return now

    return now_ns
