"""Breaker: when a store that failed is asked again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.stores._breaker import Breaker

pytestmark = pytest.mark.arithmetic

SECOND = 1_000_000_000


@pytest.fixture
def breaker(clock: ManualClock) -> Breaker:
    return Breaker(failures=3, retry_ns=SECOND, clock=clock)


def ask(breaker: Breaker, outcome: str) -> bool:
    """Make a call that ends at once; whether the store was asked."""
    ticket = breaker.admit()
    if ticket is not None:
        getattr(breaker, outcome)(ticket)
    return ticket is not None


def opened(breaker: Breaker) -> Breaker:
    for _ in range(3):
        ask(breaker, "failed")
    return breaker


def test_failures_in_a_row_open_it_and_not_one_fewer(breaker: Breaker, clock: ManualClock) -> None:
    assert [ask(breaker, "failed") for _ in range(4)] == [True, True, True, False]
    assert breaker.open_since_ns == clock.now_ns()


def test_an_answer_in_between_starts_the_row_anew(breaker: Breaker) -> None:
    outcomes = ["failed", "failed", "succeeded", "failed", "failed", "succeeded"]
    assert all(ask(breaker, outcome) for outcome in outcomes)
    assert breaker.open_since_ns is None


def test_an_open_breaker_lets_one_call_in_a_second_probe(breaker: Breaker, clock: ManualClock) -> None:
    opened(breaker)
    clock.advance(0.999)
    assert breaker.admit() is None
    clock.advance(0.001)
    assert [breaker.admit() is not None for _ in range(3)] == [True, False, False]
    assert breaker.retry_after_ns() == SECOND


def test_a_probe_that_fails_starts_the_second_anew(breaker: Breaker, clock: ManualClock) -> None:
    opened(breaker)
    since_ns = breaker.open_since_ns
    clock.advance(1)
    probe = breaker.admit()
    assert probe is not None
    clock.advance(0.05)
    breaker.failed(probe)
    clock.advance(0.999)
    assert breaker.admit() is None
    clock.advance(0.001)
    assert breaker.admit() is not None
    assert breaker.open_since_ns == since_ns


def test_a_probe_that_is_answered_closes_it_and_tells_how_long_it_was_open(
    breaker: Breaker, clock: ManualClock
) -> None:
    opened(breaker)
    clock.advance(7)
    probe = breaker.admit()
    assert probe is not None
    assert breaker.succeeded(probe) == 7 * SECOND
    assert breaker.open_since_ns is None
    assert [ask(breaker, "failed") for _ in range(4)] == [True, True, True, False]


def test_calls_that_began_before_it_opened_change_nothing(breaker: Breaker, clock: ManualClock) -> None:
    early = [breaker.admit() for _ in range(5)]
    opened(breaker)
    since_ns = breaker.open_since_ns
    clock.advance(0.5)
    for ticket in early:
        assert ticket is not None
        breaker.succeeded(ticket)
        breaker.failed(ticket)
    assert breaker.open_since_ns == since_ns
    assert breaker.retry_after_ns() == SECOND // 2


def test_a_probe_that_is_given_up_leaves_its_turn_to_the_next(breaker: Breaker, clock: ManualClock) -> None:
    opened(breaker)
    clock.advance(1)
    assert ask(breaker, "given_up")
    assert breaker.admit() is not None
    assert breaker.admit() is None


def test_a_probe_that_never_ends_does_not_keep_it_open_for_ever(breaker: Breaker, clock: ManualClock) -> None:
    opened(breaker)
    clock.advance(1)
    lost = breaker.admit()
    clock.advance(1)
    second = breaker.admit()
    assert lost is not None
    assert second is not None
    assert breaker.succeeded(lost) is None
    assert breaker.succeeded(second) == 2 * SECOND


def test_a_call_that_is_given_up_while_it_is_closed_counts_for_nothing(breaker: Breaker) -> None:
    assert all(ask(breaker, outcome) for outcome in ("failed", "failed", "given_up", "given_up", "failed"))
    assert breaker.open_since_ns is not None


def test_it_is_asked_again_at_once_while_it_is_closed(breaker: Breaker) -> None:
    assert breaker.retry_after_ns() == 0


def test_of_many_threads_one_probes(breaker: Breaker, clock: ManualClock) -> None:
    opened(breaker)
    with ThreadPoolExecutor(8) as threads:
        for _ in range(20):
            clock.advance(1)
            tickets = list(threads.map(lambda _: breaker.admit(), range(32)))
            assert sum(ticket is not None for ticket in tickets) == 1
