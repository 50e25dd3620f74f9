"""Who leaves a line makes room for those behind."""

from __future__ import annotations

import pytest

from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.lines import Lines, Waiter
from ratelimit_middleware.rules.charges import ChargedOn
from ratelimit_middleware.settling import Booking
from ratelimit_middleware.stores.base import Check

pytestmark = pytest.mark.arithmetic

LIMIT = GCRA(10, 1, 1)


def booking(at_ns: int, key: str = "a", cost: int = 1) -> Booking:
    return Booking(Check(key, LIMIT, "*", cost), at_ns, None)


class Line:
    """Waiters at the moments 1, 2, 3, …, with what each has been told."""

    def __init__(self, *moments: int, key: str = "a") -> None:
        self.lines = Lines()
        self.told: dict[int, list[float]] = {moment: [] for moment in moments}
        self.waiters = {
            moment: Waiter((booking(moment, key),), moment, self.told[moment].append) for moment in moments
        }
        for waiter in self.waiters.values():
            self.lines.join(waiter)

    def places(self) -> dict[int, float]:
        return {name: waiter.moment for name, waiter in self.waiters.items()}


def test_those_behind_move_up_and_the_last_place_is_given_back() -> None:
    line = Line(1, 2, 3, 4)
    assert line.lines.leave(line.waiters[2]) == (booking(4),)
    assert line.places() == {1: 1, 2: 2, 3: 2, 4: 3}
    assert line.told == {1: [], 2: [], 3: [2], 4: [3]}
    assert line.waiters[4].bookings == (booking(3),)


def test_the_last_one_gives_back_its_own_place() -> None:
    line = Line(1, 2)
    assert line.lines.leave(line.waiters[2]) == (booking(2),)
    assert line.told == {1: [], 2: []}


def test_whose_moment_has_come_is_not_moved_any_more() -> None:
    line = Line(1, 2, 3)
    line.lines.start(line.waiters[1])
    assert line.lines.leave(line.waiters[2]) == (booking(3),)
    assert line.places() == {1: 1, 2: 2, 3: 2}


def test_lines_of_other_buckets_or_costs_do_not_move() -> None:
    lines, told = Lines(), list[float]()
    leaving = Waiter((booking(1),), 1, told.append)
    others = [Waiter((booking(2, key, cost),), 2, told.append) for key, cost in (("b", 1), ("a", 2))]
    for waiter in (leaving, *others):
        lines.join(waiter)
    assert lines.leave(leaving) == (booking(1),)
    assert told == []
    assert len(lines) == 2


def test_who_comes_later_for_an_earlier_moment_stands_there() -> None:
    line = Line(1, 3)
    between = Waiter((booking(2),), 2, lambda _: None)
    line.lines.join(between)
    assert line.lines.leave(line.waiters[1]) == (booking(3),)
    assert (between.moment, line.waiters[3].moment) == (1, 2)


def test_empty_lines_are_forgotten() -> None:
    line = Line(1, 2)
    line.lines.start(line.waiters[1])
    line.lines.leave(line.waiters[2])
    assert len(line.lines) == 0
    assert line.lines._lines == {}


def test_requests_that_settle_in_another_way_do_not_take_each_others_place() -> None:
    """Rules that share a bucket: one gives back what does not count, the other does not."""
    lines, told = Lines(), list[float]()
    leaving = Waiter((booking(1),), 1, told.append)
    settling = Waiter((booking(2)._replace(settle=ChargedOn(frozenset({401}))),), 2, told.append)
    same = Waiter((booking(3),), 3, told.append)
    for waiter in (leaving, settling, same):
        lines.join(waiter)
    assert lines.leave(leaving) == (booking(3),)
    assert (settling.moment, same.moment, told) == (2, 1, [1])
