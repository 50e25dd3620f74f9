"""Bookings are settled once, to the cost that the response tells."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from ratelimit_middleware.algorithms.concurrency import Concurrency
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.request import AsgiView, RequestView
from ratelimit_middleware.response import Response
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
