"""What is said when the limiter itself fails: one log line now and then, never one per request."""

from __future__ import annotations

import logging

from ratelimit_middleware.clock import NS_PER_SECOND, Clock, SystemClock

__all__ = ["FaultLog"]

_logger = logging.getLogger("ratelimit_middleware")


class FaultLog:
    """Reports failures at ERROR with their traceback, at most once in `quiet_s` seconds.

    Args:
        quiet_s: seconds between two lines.
        clock: tells the time; the system's by default.
    """

    __slots__ = ("_clock", "_next_ns", "_quiet_ns", "_unsaid")

    def __init__(self, quiet_s: int = 10, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._quiet_ns = quiet_s * NS_PER_SECOND
        self._next_ns = 0
        self._unsaid = 0

    def report(self, error: Exception) -> None:
        """Log `error`, or only count it; two threads at once may both log, which does no harm."""
        now_ns = self._clock.now_ns()
        if now_ns < self._next_ns:
            self._unsaid += 1
            return
        self._next_ns = now_ns + self._quiet_ns
        unsaid, self._unsaid = self._unsaid, 0
        _logger.error(
            "limits cannot be checked, requests are answered with 503 (%d more since the last line): %s",
            unsaid,
            error,
            exc_info=error,
        )
