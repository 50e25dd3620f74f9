"""What happens to bookings after the verdict: given back, settled to the true cost, kept alive meanwhile.

Everything here is plain computing: it says what the store is to be told (`Step`), the registry tells it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ratelimit_middleware.algorithms.concurrency import Concurrency
from ratelimit_middleware.request import RequestView
from ratelimit_middleware.response import UNKNOWN_NS, Response
from ratelimit_middleware.rules.model import Settle
from ratelimit_middleware.stores.base import Check

__all__ = ["Booking", "Stay", "Step", "undone"]


class Booking(NamedTuple):
    """What one limit has booked for a request.

    Attributes:
        check: what the store was asked.
        at_ns: the moment that was booked.
        settle: what the request costs in the end; None = what was booked.
    """

    check: Check
    at_ns: int
    settle: Settle | None


class Step(NamedTuple):
    """What the store is to be told.

    Attributes:
        check: the bucket, with the permits that are too many or too few.
        at_ns: of the booking that they are given back from; None = charge them.
    """

    check: Check
    at_ns: int | None


def undone(bookings: Iterable[Booking]) -> list[Step]:
    """The request was not served: everything comes back."""
    return [Step(booking.check, booking.at_ns) for booking in bookings]


class Stay:
    """An admitted request, until all that it has booked is settled.

    Each booking is settled once, at the start of the response or at its end; what is said after that
    changes nothing. Where the true cost cannot be told, what was booked stays.

    Args:
        bookings: what it has booked.
        view: the request.
        now_ns: tells the time.
        report: is told what has failed, by its name.

    Attributes:
        response: what is known of the answer.
        when_settled: is called once, when nothing is left to do.
    """

    __slots__ = (
        "__weakref__",
        "_begun_ns",
        "_now_ns",
        "_open",
        "_report",
        "_steps",
        "_view",
        "response",
        "when_settled",
    )

    def __init__(
        self,
        bookings: Sequence[Booking],
        view: RequestView,
        now_ns: Callable[[], int],
        report: Callable[[str, Exception], object],
    ) -> None:
        self._open = [booking for booking in bookings if booking.settle]
        self._view = view
        self._now_ns = now_ns
        self._report = report
        self._steps: list[Step] = []
        self._begun_ns = self._told_ns()
        self.response = Response()
        self.when_settled: Callable[[Stay], None] | None = None

    def started(self) -> list[Step]:
        """The response is about to start: `response` has its status and headers."""
        return self._settle(at_start=True)

    def ended(self) -> list[Step]:
        """The response has ended, one way or the other."""
        self.response.took_ns = self._took_ns()
        return [*self._settle(at_start=True), *self._settle(at_start=False)]

    def failed(self, error: BaseException) -> None:
        """The app has raised; the server answers for it with 500, unless it was only cut off."""
        self.response.failed = True
        if not self.response.status and isinstance(error, Exception):
            self.response.status = 500

    def leases(self) -> list[Booking]:
        """The slots in use."""
        return [booking for booking in self._open if isinstance(booking.check.algorithm, Concurrency)]

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left to do."""
        return not self._open

    def _settle(self, *, at_start: bool) -> list[Step]:
        due = [booking for booking in self._open if booking.settle and booking.settle.at_start == at_start]
        for booking in due:
            # One by one: what raises past here, as a cancellation does, leaves the others for the next call.
            self._open.remove(booking)
            step = _settled(booking, self._cost(booking))
            if step:
                self._steps.append(step)
        if not self._open and self.when_settled:
            when_settled, self.when_settled = self.when_settled, None
            when_settled(self)
        steps, self._steps = self._steps, []
        return steps

    def _cost(self, booking: Booking) -> int:
        """What the request costs in the end."""
        taken, settle = booking.check.cost, booking.settle
        if settle is None:
            return taken
        try:
            return settle(taken, self._view, self.response)
        except Exception as error:  # noqa: BLE001 - the app's code, or what it has answered
            self._report(settle.name, error)
            return taken

    def _took_ns(self) -> int:
        ended_ns = self._told_ns()
        if self._begun_ns is None or ended_ns is None:
            return UNKNOWN_NS
        return max(0, ended_ns - self._begun_ns)  # a clock of the app may step back

    def _told_ns(self) -> int | None:
        """The time; None if the clock of the app fails."""
        try:
            return self._now_ns()
        except Exception as error:  # noqa: BLE001 - no reason to fail a request that has been admitted
            self._report("clock", error)
            return None


def _settled(booking: Booking, cost: int) -> Step | None:
    """What brings a booking to its true cost."""
    check = booking.check
    if cost == check.cost:
        return None
    if cost < check.cost:
        return Step(check._replace(cost=check.cost - cost), booking.at_ns)
    return Step(check._replace(cost=cost - check.cost), None)
