"""Health: the breakers of a guarded store, with what is counted and said of its failures."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable
from typing import NamedTuple

from ratelimit_middleware.clock import NS_PER_SECOND, Clock, SystemClock
from ratelimit_middleware.errors import InvalidLimitError, NeverAdmittedError, UnreadableBucketError
from ratelimit_middleware.faults import FaultLog
from ratelimit_middleware.store_settings import OnError
from ratelimit_middleware.stores._breakers import Breakers, Pass

__all__ = ["GuardStats", "Health", "LoopStoodStillError", "NoAnswerError", "Ticket"]

logger = logging.getLogger("ratelimit_middleware.stores")

_OBJECTIONS = (InvalidLimitError, NeverAdmittedError)
"""What a store that works says of a call that makes no sense."""


class NoAnswerError(Exception):
    """A call has not been answered in its time."""


class LoopStoodStillError(NoAnswerError):
    """The event loop has been busy for so long that the answer may have come: the store is not to blame."""


class GuardStats(NamedTuple):
    """What a guard has seen of its store.

    Attributes:
        errors: calls that failed, those without an answer included.
        timeouts: calls that were not answered in time.
        open_since_ns: since when the store is not asked, or one of its servers where each is asked by itself
            (ns since the epoch); None while they are.
    """

    errors: int
    timeouts: int
    open_since_ns: int | None


class Ticket:
    """A call to the store that was let in: `with ticket:` around it tells what came of it.

    A failure of the store is swallowed, so what stands behind the block is what is done instead. What the
    store says of a call that makes no sense is raised, and so is whatever ends the caller.
    """

    __slots__ = ("_health", "passes", "started_ns")

    def __init__(self, health: Health, passes: list[Pass], started_ns: int | None) -> None:
        self._health = health
        self.passes = passes
        self.started_ns = started_ns

    def __enter__(self) -> None:
        """Nothing: the ticket was let in when it was made."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        """Whether the error is dealt with."""
        if error is None or isinstance(error, _OBJECTIONS):
            self._health.answered(self)
        elif isinstance(error, Exception):
            self._health.failed(self, error)
            return True
        else:
            self._health.given_up(self)
        return False


class Health:
    """Says whether to ask the store, and is told what came of it.

    Failures are logged at most once in ten seconds, with their number; the recovery is logged too.

    Args:
        policy: what is done meanwhile, for the log.
        timeout_ns: a timed call that took longer counts as a failure, though its answer is used.
        clock: tells the time.
    """

    __slots__ = (
        "_breakers",
        "_errors",
        "_faults",
        "_now_ns",
        "_timeout_ns",
        "_timeouts",
        "_unreadable",
        "retry_after_ns",
    )

    def __init__(self, policy: OnError, timeout_ns: int, clock: Clock | None) -> None:
        self._timeout_ns = timeout_ns
        self._now_ns = (clock or SystemClock()).now_ns
        self._breakers = Breakers(clock)
        self._faults = FaultLog(
            f"the store does not answer: on_error is `{policy}` until it does", clock=clock
        )
        self._unreadable = FaultLog(
            f"a bucket cannot be read: on_error is `{policy}` for its client until it is reset", clock=clock
        )
        self._errors = self._timeouts = 0
        self.retry_after_ns = self._breakers.retry_after_ns

    def admit(self, places: Iterable[Hashable], *, timed: bool) -> Ticket | None:
        """A ticket, or None when the store is not to be asked now.

        Args:
            places: where it counts what it is asked for.
            timed: take the time of the call; else whoever makes it ends it in time.
        """
        passes = self._breakers.admit(places)
        return None if passes is None else Ticket(self, passes, self._now_ns() if timed else None)

    def answered(self, ticket: Ticket) -> None:
        """The store has answered."""
        took_ns = 0 if ticket.started_ns is None else self._now_ns() - ticket.started_ns
        if took_ns > self._timeout_ns:
            self.failed(ticket, NoAnswerError(f"an answer took {took_ns / 1e6:.0f} ms"))
            return
        self._heard(ticket)

    def _heard(self, ticket: Ticket) -> None:
        was_open_ns = self._breakers.succeeded(ticket.passes)
        if was_open_ns is not None:
            logger.warning(
                "the store answers again, after %.1f s (%d calls have failed since the start)",
                was_open_ns / NS_PER_SECOND,
                self._errors,
            )

    def failed(self, ticket: Ticket, error: Exception) -> None:
        """The store has not answered."""
        # Two threads at once may count one failure for two, which does no harm.
        self._errors += 1
        self._timeouts += isinstance(error, (NoAnswerError, TimeoutError))
        if isinstance(error, UnreadableBucketError):
            self._heard(ticket)  # one client's bucket is broken; all others are answered
            self._unreadable.report(error)
            return
        if isinstance(error, LoopStoodStillError):
            self._breakers.given_up(ticket.passes)
        else:
            self._breakers.failed(ticket.passes)
        self._faults.report(error)

    def given_up(self, ticket: Ticket) -> None:
        """Nobody waits for the answer any more."""
        self._breakers.given_up(ticket.passes)

    def stats(self) -> GuardStats:
        """A snapshot for metrics."""
        return GuardStats(self._errors, self._timeouts, self._breakers.open_since_ns)
