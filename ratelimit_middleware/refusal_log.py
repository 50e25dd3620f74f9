"""RefusalLog: a hook that logs refusals, a few a minute."""

from __future__ import annotations

import logging
import threading

from ratelimit_middleware.algorithms.base import positive_int
from ratelimit_middleware.clock import NS_PER_SECOND
from ratelimit_middleware.events import VerdictEvent

__all__ = ["RefusalLog"]

_MINUTE_NS = 60 * NS_PER_SECOND

_logger = logging.getLogger("ratelimit_middleware.refusals")


class RefusalLog:
    """Logs the first refusals of each minute at INFO, to `ratelimit_middleware.refusals`.

    A line holds names of the rule file and the key of the client's bucket, in which whatever may be a secret
    is hashed and whatever is no printable ASCII is escaped; nothing else of the request.

    Args:
        per_minute: the most lines in a minute, so that nobody can flood the log; the first line of the next
            minute tells how many were left out.

    Raises:
        InvalidLimitError: the number is not a whole number above 0.
    """

    def __init__(self, per_minute: int = 10) -> None:
        self._per_minute = positive_int("per_minute", per_minute)
        self._lock = threading.Lock()
        self._minute = -1
        self._lines = 0
        self._unsaid = 0

    def on_verdict(self, event: VerdictEvent) -> None:
        """Log a refusal, or only count it."""
        if event.kind not in ("refused", "shed", "denied"):
            return
        unsaid = self._turn(event.at_ns // _MINUTE_NS)
        if unsaid is None:
            return
        wait = (
            "" if event.retry_after_ns is None else f", {event.retry_after_ns / NS_PER_SECOND:.3f} s to wait"
        )
        more = f" ({unsaid} more since the last line)" if unsaid else ""
        where = f"by {event.policy} of {event.rule}" if event.policy else "by the list `deny`"
        _logger.info("%s %s: %s%s%s", event.kind, where, event.key, wait, more)

    def _turn(self, minute: int) -> int | None:
        """How many were left out before this line; None if this one is left out too."""
        with self._lock:
            if minute != self._minute:
                self._minute, self._lines = minute, 0
            if self._lines >= self._per_minute:
                self._unsaid += 1
                return None
            self._lines += 1
            unsaid, self._unsaid = self._unsaid, 0
            return unsaid
