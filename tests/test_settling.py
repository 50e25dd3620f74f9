"""Bookings are settled once, to the cost that the response tells."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from ratelimit_middleware.algorithms.concurrency import Concurrency
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.request import AsgiView, RequestView
from ratelimit_middleware.response import Response
from ratelimit_middleware.rules.charges import ActualMeasured
from ratelimit_middleware.rules.choices import Released
from ratelimit_middleware.settling import Booking, Stay, Step, undone
from ratelimit_middleware.stores.base import Check

pytestmark = pytest.mark.arithmetic


@dataclass(frozen=True)
class Costs:
    """A cost that is known from the status."""

    at_start: bool
    name: str = "costs"

    def __call__(self, taken: int, view: RequestView, response: Response) -> int:
        return response.status - 200


CHECK = Check("a", GCRA(10, 1, 10), "*", 3)
EARLY, LATE = Booking(CHECK, 7, Costs(at_start=True)), Booking(CHECK, 9, Costs(at_start=False))
FIXED = Booking(CHECK, 8, None)
VIEW = AsgiView({"type": "http", "path": "/"})


def nothing_fails(name: str, error: Exception) -> None:
    raise AssertionError(name) from error


def stay(*bookings: Booking, status: int) -> Stay:
    made = Stay(bookings, VIEW, ManualClock().now_ns, nothing_fails)
    made.response.status = status
    return made


def test_what_was_too_much_is_given_back_from_its_booking() -> None:
    assert stay(LATE, status=201).ended() == [Step(CHECK._replace(cost=2), 9)]


def test_what_was_too_little_is_charged() -> None:
    assert stay(LATE, status=205).ended() == [Step(CHECK._replace(cost=2), None)]


def test_what_was_right_needs_no_step() -> None:
    assert stay(LATE, FIXED, status=203).ended() == []


def test_each_booking_is_settled_once_at_its_own_time() -> None:
    here = stay(EARLY, LATE, status=200)
    assert here.started() == [Step(CHECK, 7)]
    assert here.started() == []
    assert here.ended() == [Step(CHECK, 9)]
    assert here.ended() == []
    assert here.is_settled


def test_a_response_that_never_started_settles_all_at_its_end() -> None:
    assert stay(EARLY, LATE, status=200).ended() == [Step(CHECK, 7), Step(CHECK, 9)]


def test_two_equal_bookings_are_both_settled() -> None:
    assert len(stay(LATE, LATE, status=200).ended()) == 2


def test_a_request_that_was_not_served_gives_everything_back() -> None:
    assert undone([EARLY, FIXED]) == [Step(CHECK, 7), Step(CHECK, 8)]


def test_only_slots_are_leased() -> None:
    slot = Booking(Check("a", Concurrency(3), "*"), 7, Costs(at_start=False))
    assert stay(LATE, slot, status=200).leases() == [slot]


def test_a_header_of_the_response_is_found_in_any_case() -> None:
    response = Response(headers=[("X-Tokens", "7"), ("x-tokens", "8")])
    assert response.header("x-Tokens") == "7, 8"
    assert response.header("x-other") is None


class Cut(BaseException):
    """Not even an Exception."""


def test_what_a_function_raises_past_the_adapters_leaves_no_other_booking_open() -> None:
    @dataclass(frozen=True)
    class Cutting(Costs):
        def __call__(self, taken: int, view: RequestView, response: Response) -> int:
            raise Cut

    here = stay(LATE, LATE._replace(settle=Cutting(at_start=False)), LATE, status=201)
    settled: list[Stay] = []
    here.when_settled = settled.append
    with pytest.raises(Cut):
        here.ended()
    assert here.ended() == [Step(CHECK._replace(cost=2), 9)] * 2
    assert (here.ended(), here.is_settled, settled) == ([], True, [here])


def test_a_clock_that_steps_back_makes_no_response_cheaper_than_free() -> None:
    clock = ManualClock()
    seconds = Booking(CHECK, 9, ActualMeasured("seconds"))
    made = Stay([seconds], VIEW, clock.now_ns, nothing_fails)
    clock.set_ns(clock.now_ns() - 10**12)
    assert made.ended() == [Step(CHECK, 9)]
    assert made.response.took_ns == 0


@pytest.mark.parametrize("fails_at", [0, 1])
def test_where_the_clock_fails_what_was_booked_stays_and_slots_come_back(fails_at: int) -> None:
    readings = [0, 10**9]

    def now_ns() -> int:
        told = readings.pop(0)
        if len(readings) == 1 - fails_at:
            raise OSError("no clock")
        return told

    failed: list[str] = []
    slot = Booking(Check("slot", Concurrency(1), "*"), 7, Released())
    seconds = Booking(CHECK, 9, ActualMeasured("seconds"))
    made = Stay([seconds, slot], VIEW, now_ns, lambda name, _: failed.append(name))
    assert made.ended() == [Step(slot.check, 7)]
    assert failed == ["clock", "seconds"]
