"""Breaker: whether a store that failed is to be asked again (M. Nygard, "Release It!", circuit breaker)."""

from __future__ import annotations

import threading

from ratelimit_middleware.clock import NS_PER_SECOND, Clock, SystemClock

__all__ = ["Breaker"]


class Breaker:
    """Closed: every call goes through. `failures` in a row open it; then one call in `retry_ns` probes.

    A call is let in with a ticket, and its outcome is told with that ticket. Outcomes of calls that were
    let in before the last change say nothing about the present and are ignored. A probe that never ends
    does no harm: the next one is due `retry_ns` after it was let in. May be shared by threads.

    Args:
        failures: failed calls in a row that open it.
        retry_ns: time between two probes.
        clock: tells the time.

    Attributes:
        open_since_ns: since when the store is not asked, None while it is.
        answers: how many calls were answered; roughly, where threads answer at the same time.
    """

    __slots__ = (
        "_failures",
        "_in_a_row",
        "_lock",
        "_now_ns",
        "_probe_at_ns",
        "_retry_ns",
        "_term",
        "answers",
        "open_since_ns",
    )

    def __init__(
        self, *, failures: int = 5, retry_ns: int = NS_PER_SECOND, clock: Clock | None = None
    ) -> None:
        self._failures = failures
        self._retry_ns = retry_ns
        self._now_ns = (clock or SystemClock()).now_ns
        self._lock = threading.Lock()
        self._in_a_row = 0
        self._term = 0
        self._probe_at_ns = 0
        self.answers = 0
        self.open_since_ns: int | None = None

    def admit(self) -> int | None:
        """The ticket of a call to the store; None when the store is not to be asked now."""
        if self.open_since_ns is None:
            return self._term
        with self._lock:
            now_ns = self._now_ns()
            if self.open_since_ns is not None:
                if now_ns < self._probe_at_ns:
                    return None
                self._probe_at_ns = now_ns + self._retry_ns
                self._term += 1
            return self._term

    def succeeded(self, ticket: int) -> int | None:
        """The call was answered; how long the breaker had been open, in ns, if this closes it."""
        self.answers += 1
        if self.open_since_ns is None and not self._in_a_row:
            return None  # the common case takes no lock
        with self._lock:
            if ticket != self._term:
                return None
            opened_ns, self.open_since_ns, self._in_a_row = self.open_since_ns, None, 0
            return None if opened_ns is None else self._now_ns() - opened_ns

    def failed(self, ticket: int) -> None:
        """The call was not answered."""
        with self._lock:
            if ticket != self._term:
                return
            now_ns = self._now_ns()
            self._in_a_row += 1
            if self.open_since_ns is not None:
                self._probe_at_ns = now_ns + self._retry_ns
            elif self._in_a_row >= self._failures:
                self.open_since_ns = now_ns
                self._probe_at_ns = now_ns + self._retry_ns
                self._term += 1

    def given_up(self, ticket: int) -> None:
        """Nobody waits for the call any more: it says nothing, and the next one may probe."""
        with self._lock:
            if ticket == self._term and self.open_since_ns is not None:
                self._probe_at_ns = self._now_ns()

    def retry_after_ns(self) -> int:
        """How long until the store is asked again, for those who are turned away; at least 0."""
        if self.open_since_ns is None:
            return 0
        return max(0, self._probe_at_ns - self._now_ns())
