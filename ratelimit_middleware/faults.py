"""What is said when the limiter itself fails: one log line now and then, never one per request."""

from __future__ import annotations

import logging
from contextlib import suppress

from ratelimit_middleware.clock import NS_PER_SECOND, Clock, SystemClock
from ratelimit_middleware.errors import StoreUnavailableError

__all__ = [
    "FLOWS_FAILED",
    "HOOK_FAILED",
    "LIMITER_FAILED",
    "LIMITER_FAILED_WATCHING",
    "RESPONDER_FAILED",
    "SETTLING_FAILED",
    "FaultLog",
    "FaultLogs",
]

FLOWS_FAILED = "limits on what flows within requests cannot be checked, nothing passes them meanwhile"
HOOK_FAILED = "a hook for verdicts failed; requests and other hooks are not concerned"
LIMITER_FAILED = "limits cannot be checked, requests are answered with 503"
LIMITER_FAILED_WATCHING = "limits cannot be checked, requests pass because the rules only watch"
RESPONDER_FAILED = "an own responder failed, the built-in refusal is sent in its place"
SETTLING_FAILED = "permits could not be given back or settled after the response; they count as booked"

_logger = logging.getLogger("ratelimit_middleware")


class FaultLog:
    """Reports failures at ERROR with their traceback, at most once in `quiet_s` seconds.

    Args:
        what: what has failed and what is done about it, as a sentence of the log line.
        quiet_s: seconds between two lines.
        clock: tells the time; the system's by default.
    """

    __slots__ = ("_clock", "_next_ns", "_quiet_ns", "_unsaid", "_what")

    def __init__(self, what: str, *, quiet_s: int = 10, clock: Clock | None = None) -> None:
        self._what = what
        self._clock = clock or SystemClock()
        self._quiet_ns = quiet_s * NS_PER_SECOND
        self._next_ns = 0
        self._unsaid = 0

    def report(self, error: Exception) -> None:
        """Log `error`, or only count it; never raises, whatever a clock or a logging filter of the app does.

        An outage of the store is not reported: its guard has done so. Two threads at once may both log,
        which does no harm.
        """
        if isinstance(error, StoreUnavailableError):
            return
        with suppress(Exception):
            self._report(error)

    def _report(self, error: Exception) -> None:
        now_ns = self._clock.now_ns()
        if now_ns < self._next_ns:
            self._unsaid += 1
            return
        self._next_ns = now_ns + self._quiet_ns
        unsaid, self._unsaid = self._unsaid, 0
        more = f" ({unsaid} more since the last line)" if unsaid else ""
        _logger.error("%s%s: %s", self._what, more, error, exc_info=error)


class FaultLogs:
    """A `FaultLog` for each thing that a rule asks, so that one of them does not drown the others.

    Args:
        quiet_s: seconds between two lines on one thing.
        clock: tells the time; the system's by default.
    """

    __slots__ = ("_clock", "_logs", "_quiet_s")

    def __init__(self, *, quiet_s: int = 60, clock: Clock | None = None) -> None:
        self._quiet_s = quiet_s
        self._clock = clock
        self._logs: dict[str, FaultLog] = {}

    def report(self, name: str, error: Exception) -> None:
        """Log that what `name` says is of no use; never raises. The names are those in the rules, so few."""
        log = self._logs.get(name)
        if log is None:
            what = f"what `{name}` says is of no use, its rule counts without it"
            log = self._logs.setdefault(name, FaultLog(what, quiet_s=self._quiet_s, clock=self._clock))
        log.report(error)
