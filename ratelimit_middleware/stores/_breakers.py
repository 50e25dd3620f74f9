"""Breakers: one for each place where a store counts, since each may fail by itself."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from ratelimit_middleware.clock import Clock
from ratelimit_middleware.stores._breaker import Breaker

__all__ = ["Breakers", "Pass"]


class Pass(NamedTuple):
    """A call was let in to a place.

    Attributes:
        breaker: of the place.
        number: its ticket.
        answers: how many calls the place had answered by then.
    """

    breaker: Breaker
    number: int
    answers: int


class Breakers:
    """A call goes through if all the places that it needs are to be asked.

    Args:
        clock: tells the time.
    """

    __slots__ = ("_clock", "_of")

    def __init__(self, clock: Clock | None) -> None:
        self._clock = clock
        self._of: dict[Hashable, Breaker] = {}

    @property
    def open_since_ns(self) -> int | None:
        """Since when one of the places is not asked, None while all are."""
        return min((since for one in [*self._of.values()] if (since := one.open_since_ns)), default=None)

    def admit(self, places: Iterable[Hashable]) -> list[Pass] | None:
        """One pass a place, or None when one of them is not to be asked now."""
        passes: list[Pass] = []
        for place in places:
            breaker = self._of.get(place)
            if breaker is None:
                breaker = self._of.setdefault(place, Breaker(clock=self._clock))
            answers, number = breaker.answers, breaker.admit()
            if number is None:
                self.given_up(passes)
                return None
            passes.append(Pass(breaker, number, answers))
        return passes

    def succeeded(self, passes: Iterable[Pass]) -> int | None:
        """The call was answered; how long a place had not been asked, in ns, if it is again."""
        closed = [breaker.succeeded(number) for breaker, number, _ in passes]
        return max((was_open_ns for was_open_ns in closed if was_open_ns is not None), default=None)

    def failed(self, passes: Sequence[Pass]) -> None:
        """The call was not answered: it is not for a place that has answered another call meanwhile.

        Where there is but one place, nobody else can be the cause.
        """
        for breaker, number, answers in passes:
            if len(passes) == 1 or breaker.answers == answers:
                breaker.failed(number)

    def given_up(self, passes: Iterable[Pass]) -> None:
        """Nobody waits for the call any more."""
        for breaker, number, _ in passes:
            breaker.given_up(number)

    def retry_after_ns(self) -> int:
        """How long until all places are asked again; at least 0."""
        return max((breaker.retry_after_ns() for breaker in [*self._of.values()]), default=0)
