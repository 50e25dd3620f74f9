"""Requests in progress: slots, and Sentinel's recorded decisions."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratelimit_middleware.algorithms.base import State
from ratelimit_middleware.algorithms.concurrency import Concurrency, has_room
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.errors import InvalidLimitError
from tests.vectors.sentinel import Scenario, load

pytestmark = pytest.mark.arithmetic

SCENARIOS = load("default_thread")
SECOND = 1_000_000_000
NOW = 1_700_000_000 * SECOND


def named(scenario: object) -> str:
    return scenario.id if isinstance(scenario, Scenario) else str(scenario)


@pytest.mark.parametrize("scenario", [s for s in SCENARIOS if s.stubbed], ids=named)
def test_sentinels_decisions_on_given_numbers_are_reproduced(scenario: Scenario) -> None:
    count = scenario.data["count"]
    ours = [has_room(op["cur_thread_num"], op["acquire"], count) for op in scenario.ops]
    assert ours == [op["expect"]["pass"] for op in scenario.ops]


@pytest.mark.parametrize("scenario", [s for s in SCENARIOS if not s.stubbed], ids=named)
def test_sentinels_decisions_on_requests_in_progress_are_reproduced(scenario: Scenario) -> None:
    """Each request that passed is one in progress, whatever it asked for, until `hold_ms` later."""
    ends: list[int] = []
    for op in scenario.ops:
        while ends and ends[0] <= op["at_ms"]:
            heappop(ends)
        passed = has_room(len(ends), op["acquire"], scenario.data["count"])
        assert passed == op["expect"]["pass"]
        if passed:
            heappush(ends, op["at_ms"] + op["hold_ms"])


def held(limit: Concurrency, *costs: int, now_ns: int = NOW) -> State:
    """A state in which requests of these costs are in progress, a nanosecond after each other."""
    state = limit.start(now_ns)
    for place, cost in enumerate(costs):
        decision, state = limit.take(state, now_ns + place, cost)
        assert decision.allowed
    return state


def test_as_many_as_the_limit_are_let_in_and_no_more() -> None:
    limit = Concurrency(2)
    state = held(limit, 1, 1)
    decision, after = limit.take(state, NOW + 5)
    assert not decision.allowed
    assert decision.retry_after == 1
    assert after == state


def test_a_slot_that_comes_back_is_free_for_another() -> None:
    limit = Concurrency(2)
    state = limit.give_back(held(limit, 1, 1), NOW + 5, 1, NOW)
    assert limit.used(state, NOW + 5) == 1
    assert limit.take(state, NOW + 5)[0].allowed


def test_a_slot_comes_back_once() -> None:
    limit = Concurrency(3)
    state = limit.give_back(held(limit, 1, 1), NOW + 5, 1, NOW)
    assert limit.give_back(state, NOW + 6, 1, NOW) == state


def test_two_slots_of_one_moment_come_back_one_by_one() -> None:
    limit = Concurrency(3)
    state = limit.take(held(limit, 1), NOW)[1]
    state = limit.give_back(state, NOW, 1, NOW)
    assert limit.used(state, NOW) == 1
    assert limit.used(limit.give_back(state, NOW, 1, NOW), NOW) == 0


def test_a_slot_that_nobody_renews_comes_back_when_its_lease_ends() -> None:
    limit = Concurrency(1, lease=30)
    state = held(limit, 1)
    assert not limit.take(state, NOW + 30 * SECOND - 1)[0].allowed
    assert limit.take(state, NOW + 30 * SECOND)[0].allowed
    assert limit.forget_at_ns(state) == NOW + 30 * SECOND


def test_a_renewed_slot_stays() -> None:
    limit = Concurrency(1, lease=30)
    state = limit.renew(held(limit, 1), NOW + 20 * SECOND, 1, NOW)
    assert limit.used(state, NOW + 49 * SECOND) == 1
    assert limit.used(limit.give_back(state, NOW + 49 * SECOND, 1, NOW), NOW + 49 * SECOND) == 0


def test_a_lease_that_had_ended_is_renewed_all_the_same() -> None:
    """Its request is in progress, whatever the clock says: a host that was asleep for a minute."""
    limit = Concurrency(1, lease=30)
    late = NOW + 60 * SECOND
    state = limit.renew(limit.step(held(limit, 1), late), late, 1, NOW)
    assert limit.used(state, late) == 1


def test_a_request_that_waits_for_another_limit_has_its_slot_from_now_on() -> None:
    limit = Concurrency(1, lease=30)
    decision, state = limit.take((), NOW, 1, 2 * SECOND, NOW + 2 * SECOND)
    assert (decision.allowed, decision.wait_ns) == (True, 2 * SECOND)
    assert limit.used(state, NOW) == 1
    assert limit.forget_at_ns(state) == NOW + 32 * SECOND


def test_what_can_never_fit_is_told_apart_from_what_does_not_fit_now() -> None:
    limit = Concurrency(2)
    assert limit.peek((), NOW, 3).retry_after is None
    assert limit.peek(held(limit, 1), NOW, 2).retry_after == 1


def test_what_is_charged_without_asking_ends_one_full_set_beyond_the_limit() -> None:
    limit = Concurrency(2)
    assert limit.used(limit.charge((), NOW, 9), NOW) == 4


def test_slots_outlive_new_numbers_and_other_kinds_hold_none() -> None:
    state = held(Concurrency(3), 1, 1)
    for mode in ("keep", "scale"):
        assert Concurrency(1).adopt(state, NOW, Concurrency(3), mode) == state
    assert Concurrency(1).adopt(state, NOW, Concurrency(3), "reset") == ()
    assert Concurrency(1).adopt((0, 0), NOW, GCRA(1, 1, 1), "keep") == ()


@pytest.mark.parametrize(
    ("limit", "lease"), [(0, 30), (1.5, 30), (True, 30), (1, 0), (1, -1), (1, float("nan"))]
)
def test_numbers_that_make_no_sense_are_refused(limit: Any, lease: Any) -> None:
    with pytest.raises(InvalidLimitError):
        Concurrency(limit, lease)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 3), st.integers(1, 3)), max_size=40))
def test_no_more_than_the_limit_are_in_progress_whatever_happens(steps: list[tuple[int, int, int]]) -> None:
    """Requests come, end, or are lost without a word; leases run for 10 s and are never renewed."""
    limit, state, now_ns = Concurrency(4, lease=10), (), NOW
    running: list[tuple[int, int]] = []
    for wait_s, what, cost in steps:
        now_ns += wait_s * SECOND
        running = [(at_ns, paid) for at_ns, paid in running if at_ns + 10 * SECOND > now_ns]
        if what == 0 and running:
            at_ns, paid = running.pop(0)
            state = limit.give_back(state, now_ns, paid, at_ns)
        else:
            decision, state = limit.take(state, now_ns, cost)
            if decision.allowed:
                running.append((decision.at_ns, cost))
            in_use = sum(paid for _, paid in running)
            assert in_use <= 4
            assert decision.allowed or in_use + cost > 4
        assert limit.used(state, now_ns) == sum(paid for _, paid in running)
