"""GuardedStore: what threads hear of a store that fails, on a clock that stands still."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.decision import UNCHECKED
from ratelimit_middleware.errors import (
    InvalidLimitError,
    StoreError,
    StoreUnavailableError,
    UnreadableBucketError,
)
from ratelimit_middleware.store_settings import OnError, StoreSettings
from ratelimit_middleware.stores.base import AsyncStore, Check, Store
from ratelimit_middleware.stores.guard import GuardedAsyncStore, GuardedDualStore, GuardedStore, guarded
from ratelimit_middleware.stores.memory import MemoryStore
from tests.awaited import AwaitedStore
from tests.stores.faulty import FaultyStore, check

pytestmark = pytest.mark.arithmetic

SECOND = 1_000_000_000
FAILURES = 5


@pytest.fixture
def faulty(clock: ManualClock) -> FaultyStore:
    return FaultyStore(clock)


def guard(store: FaultyStore, clock: ManualClock, on_error: OnError, workers: int | None = 4) -> GuardedStore:
    return GuardedStore(store, StoreSettings(on_error=on_error, expected_workers=workers), clock=clock)


def admitted(store: Store, asked: Check, times: int = 40) -> int:
    return sum(store.take([asked])[0].allowed for _ in range(times))


def test_a_store_that_answers_decides_as_without_a_guard(faulty: FaultyStore, clock: ManualClock) -> None:
    store = guard(faulty, clock, "fallback")
    assert admitted(store, check(limit=8)) == 8
    assert store.peek(check(limit=8)).retry_after_ns == 60 * SECOND
    assert store.stats().keys == 1
    assert store.health() == (0, 0, None)


def test_fallback_counts_here_at_the_share_of_one_process(faulty: FaultyStore, clock: ManualClock) -> None:
    store = guard(faulty, clock, "fallback")
    faulty.break_down()
    assert admitted(store, check(limit=8)) == 2
    assert store.stats().keys == 1
    assert faulty.inner.stats().keys == 0


def test_a_store_that_fails_is_soon_not_asked(faulty: FaultyStore, clock: ManualClock) -> None:
    store = guard(faulty, clock, "fallback")
    faulty.break_down()
    admitted(store, check(), times=100)
    assert faulty.calls == FAILURES
    assert store.health() == (FAILURES, 0, clock.now_ns())


def test_it_goes_back_to_the_store_by_itself(
    faulty: FaultyStore, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    store = guard(faulty, clock, "fallback")
    faulty.break_down()
    admitted(store, check(), times=FAILURES)
    faulty.error = None
    clock.advance(0.9)
    assert not store.take([check()])[0].allowed, "the share is used up, and the store is not asked yet"
    clock.advance(0.1)
    caplog.clear()
    assert admitted(store, check(limit=8)) == 8
    assert store.health() == (FAILURES, 0, None)
    assert [record.getMessage() for record in caplog.records] == [
        "the store answers again, after 1.0 s (5 calls have failed since the start)"
    ]


def test_a_second_outage_does_not_start_with_a_fresh_share(faulty: FaultyStore, clock: ManualClock) -> None:
    store = guard(faulty, clock, "fallback")
    faulty.break_down()
    assert admitted(store, check(limit=8)) == 2
    faulty.error = None
    clock.advance(1)
    assert store.take([check(limit=8)])[0].allowed
    faulty.break_down()
    assert admitted(store, check(limit=8)) == 0


def test_deny_raises_and_says_when_the_store_is_asked_again(faulty: FaultyStore, clock: ManualClock) -> None:
    store = guard(faulty, clock, "deny", workers=None)
    faulty.break_down()
    for _ in range(FAILURES):
        with pytest.raises(StoreUnavailableError):
            store.take([check()])
    clock.advance(0.25)
    with pytest.raises(StoreUnavailableError) as refusal:
        store.take([check()])
    assert refusal.value.retry_after_ns == 3 * SECOND // 4


def test_allow_lets_through_without_any_number(faulty: FaultyStore, clock: ManualClock) -> None:
    store = guard(faulty, clock, "allow", workers=None)
    faulty.break_down()
    for _ in range(50):
        (decision,) = store.take([check(limit=1)])
        assert decision is UNCHECKED
    assert store.stats().keys == 0


def test_one_limit_that_denies_refuses_the_request_and_nothing_is_counted(
    faulty: FaultyStore, clock: ManualClock
) -> None:
    store = guard(faulty, clock, "fallback")
    faulty.break_down()
    for _ in range(10):
        with pytest.raises(StoreUnavailableError):
            store.take([check("a", limit=8), check("b", on_error="deny")])
    assert admitted(store, check("a", limit=8)) == 2


def test_a_limit_that_allows_stands_aside_for_those_that_count(
    faulty: FaultyStore, clock: ManualClock
) -> None:
    store = guard(faulty, clock, "deny")
    faulty.break_down()
    asked = [
        check("a", on_error="allow"),
        check("b", limit=4, on_error="fallback"),
        check("c", on_error="allow"),
    ]
    first = store.take(asked)
    assert [decision is UNCHECKED for decision in first] == [True, False, True]
    assert [decision.allowed for decision in store.take(asked)] == [True, False, True]


def test_limits_that_fall_back_are_all_or_nothing(faulty: FaultyStore, clock: ManualClock) -> None:
    store = guard(faulty, clock, "fallback")
    faulty.break_down()
    asked = [check("wide", limit=80), check("tight", limit=4)]
    for _ in range(10):
        store.take(asked)
    assert admitted(store, check("wide", limit=80)) == 19


def test_a_shadow_limit_denies_nobody(faulty: FaultyStore, clock: ManualClock) -> None:
    store = guard(faulty, clock, "fallback")
    faulty.break_down()
    enforced, watched = store.take([check("a"), check("b", shadow=True, on_error="deny")])
    assert enforced.allowed
    assert watched is UNCHECKED


def test_what_was_booked_here_is_given_back_here_even_after_the_outage(
    faulty: FaultyStore, clock: ManualClock
) -> None:
    store = guard(faulty, clock, "fallback")
    assert admitted(store, check(limit=8), times=8) == 8
    faulty.break_down()
    (booked,) = store.take([check(limit=8)])
    assert admitted(store, check(limit=8)) == 1
    faulty.error = None
    clock.advance(1)
    store.give_back(check(limit=8), booked.at_ns)
    assert not store.take([check(limit=8)])[0].allowed, "the store has no permit more than before"
    faulty.break_down()
    assert admitted(store, check(limit=8)) == 1


def test_what_was_booked_before_the_outage_mints_nothing_here(
    faulty: FaultyStore, clock: ManualClock
) -> None:
    store = guard(faulty, clock, "fallback")
    (before,) = store.take([check(limit=8)])
    faulty.break_down()
    assert admitted(store, check(limit=8)) == 2
    for _ in range(5):
        store.give_back(check(limit=8), before.at_ns)
    assert admitted(store, check(limit=8)) == 0


def test_what_was_let_through_uncounted_cannot_be_given_back(faulty: FaultyStore, clock: ManualClock) -> None:
    store = guard(faulty, clock, "allow")
    faulty.break_down()
    (decision,) = store.take([check(limit=1)])
    faulty.error = None
    assert store.take([check(limit=1)])[0].allowed
    calls = faulty.calls
    store.give_back(check(limit=1), decision.at_ns)
    assert faulty.calls == calls
    assert not store.take([check(limit=1)])[0].allowed


@pytest.mark.parametrize("on_error", ["allow", "fallback"])
def test_work_after_the_response_never_raises(
    faulty: FaultyStore, clock: ManualClock, on_error: OnError
) -> None:
    store = guard(faulty, clock, on_error)
    (before,) = store.take([check()])
    faulty.break_down()
    store.charge(check())
    store.give_back(check(), before.at_ns)
    assert store.peek(check()).allowed
    store.reset("b")
    store.stats()
    assert store.health().errors == 5


def test_work_after_the_response_raises_where_outages_are_denied(
    faulty: FaultyStore, clock: ManualClock
) -> None:
    store = guard(faulty, clock, "deny")
    faulty.break_down()
    for work in (store.charge, store.peek, lambda asked: store.give_back(asked, 1)):
        with pytest.raises(StoreUnavailableError):
            work(check())
    with pytest.raises(StoreUnavailableError):
        store.reset("a")


def test_a_charge_of_the_outage_counts_here(faulty: FaultyStore, clock: ManualClock) -> None:
    store = guard(faulty, clock, "fallback")
    faulty.break_down()
    store.charge(check(limit=80, cost=15))
    assert admitted(store, check(limit=80)) == 5


def test_a_reset_forgets_the_bucket_in_both_places(faulty: FaultyStore, clock: ManualClock) -> None:
    store = guard(faulty, clock, "fallback")
    faulty.break_down()
    assert admitted(store, check(limit=8)) == 2
    faulty.error = None
    clock.advance(1)
    assert store.reset("a")
    assert not store.reset("a")
    faulty.break_down()
    assert admitted(store, check(limit=8)) == 2


def test_an_answer_that_took_too_long_is_used_and_counts_as_a_failure(
    faulty: FaultyStore, clock: ManualClock
) -> None:
    store = guard(faulty, clock, "fallback")
    faulty.takes_s = 0.051
    assert admitted(store, check(limit=80), times=FAILURES) == FAILURES
    assert store.health()[:2] == (FAILURES, FAILURES)
    assert faulty.inner.peek(check(limit=80)).remaining == 80 - FAILURES - 1
    store.take([check()])
    assert faulty.calls == FAILURES


def test_an_answer_just_in_time_is_fine(faulty: FaultyStore, clock: ManualClock) -> None:
    store = guard(faulty, clock, "fallback")
    faulty.takes_s = 0.05
    admitted(store, check(limit=80), times=20)
    assert store.health() == (0, 0, None)


def test_what_a_store_objects_to_is_no_outage(faulty: FaultyStore, clock: ManualClock) -> None:
    store = guard(faulty, clock, "fallback")
    faulty.error = InvalidLimitError("cost", 0, "at least 1")
    for _ in range(20):
        with pytest.raises(InvalidLimitError):
            store.take([check()])
    assert store.health() == (0, 0, None)


def test_whoever_ends_the_caller_is_not_stopped(faulty: FaultyStore, clock: ManualClock) -> None:
    store = guard(faulty, clock, "fallback")
    faulty.break_down()
    admitted(store, check(), times=FAILURES)
    clock.advance(1)
    faulty.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        store.take([check()])
    assert store.health().errors == FAILURES
    faulty.error = None
    assert admitted(store, check(limit=8)) == 8, "the next call probes at once"


@pytest.mark.parametrize("error", [StoreError("gone"), OSError("gone"), TimeoutError(), ZeroDivisionError()])
def test_whatever_a_store_raises_it_has_not_answered(
    faulty: FaultyStore, clock: ManualClock, error: Exception
) -> None:
    store = guard(faulty, clock, "fallback")
    faulty.error = error
    assert store.take([check()])[0].allowed
    assert store.health()[:2] == (1, isinstance(error, TimeoutError))


def test_a_storm_of_failures_is_one_line_with_a_count_and_the_policy(
    faulty: FaultyStore, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    store = guard(faulty, clock, "fallback")
    faulty.break_down()
    for _ in range(12):
        admitted(store, check(), times=100)
        clock.advance(1)
    lines = [record.getMessage() for record in caplog.records]
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2
    said = "the store does not answer: on_error is `fallback` until it does"
    assert lines[0] == f"{said}: connection refused"
    assert lines[1] == f"{said} (13 more since the last line): connection refused"


def test_a_bucket_that_cannot_be_read_is_not_said_to_be_an_outage_nor_hidden_by_one(
    faulty: FaultyStore, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    store = guard(faulty, clock, "fallback")
    faulty.break_down()
    store.take([check()])
    faulty.error = UnreadableBucketError("`a|1`: a broken log")
    store.take([check()])
    said = "a bucket cannot be read: on_error is `fallback` for its client until it is reset"
    assert caplog.messages[1:] == [f"{said}: `a|1`: a broken log"]


def test_a_fallback_needs_the_number_of_processes(faulty: FaultyStore, clock: ManualClock) -> None:
    with pytest.raises(InvalidLimitError, match="expected_workers"):
        guard(faulty, clock, "fallback", workers=None)


def test_close_lets_go_of_both(faulty: FaultyStore, clock: ManualClock) -> None:
    store = guard(faulty, clock, "fallback")
    store.take([check("kept")])
    faulty.break_down()
    store.take([check("here")])
    store.close()
    store.close()
    assert faulty.inner.stats().keys == store.stats().keys == 0


class DualStore(MemoryStore, AwaitedStore):
    """Can be called and awaited."""


def test_a_guard_can_do_what_its_store_can(clock: ManualClock) -> None:
    settings = StoreSettings()
    dual = DualStore(clock=clock)
    awaited = AwaitedStore(MemoryStore())
    kinds: list[tuple[Any, type]] = [
        (MemoryStore(), GuardedStore),
        (awaited, GuardedAsyncStore),
        (dual, GuardedDualStore),
    ]
    for store, kind in kinds:
        wrapped = guarded(store, settings, clock)
        assert type(wrapped) is kind
        assert isinstance(wrapped, Store) == isinstance(store, Store)
        assert isinstance(wrapped, AsyncStore) == isinstance(store, AsyncStore)
