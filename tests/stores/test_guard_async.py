"""GuardedAsyncStore: what an event loop hears of a store that is silent, late or gone."""

from __future__ import annotations

import asyncio
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.decision import UNCHECKED
from ratelimit_middleware.errors import InvalidLimitError, StoreError, StoreUnavailableError
from ratelimit_middleware.store_settings import OnError, StoreSettings
from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.stores.guard import GuardedAsyncStore, GuardedDualStore
from tests.stores.faulty import FaultyAsyncStore, FaultyStore, check

pytestmark = pytest.mark.anyio

FAILURES = 5
SHORT_NS = 5_000_000
AMPLE_NS = 30_000_000_000


@pytest.fixture
def faulty(clock: ManualClock) -> FaultyAsyncStore:
    return FaultyAsyncStore(clock)


def guard(
    store: Any, clock: ManualClock, on_error: OnError = "fallback", timeout_ns: int = AMPLE_NS
) -> GuardedAsyncStore:
    settings = StoreSettings(on_error=on_error, expected_workers=4, timeout_ns=timeout_ns)
    return GuardedAsyncStore(store, settings, clock=clock)


async def admitted(store: GuardedAsyncStore, asked: Check, times: int = 40) -> int:
    return sum([(await store.take_async([asked]))[0].allowed for _ in range(times)])


async def test_a_store_that_answers_decides_as_without_a_guard(
    faulty: FaultyAsyncStore, clock: ManualClock
) -> None:
    store = guard(faulty, clock)
    assert await admitted(store, check(limit=8)) == 8
    assert not (await store.peek_async(check(limit=8))).allowed
    await store.charge_async(check("b", cost=3))
    assert await store.reset_async("b")
    assert store.health() == (0, 0, None)
    await store.close_async()
    assert faulty.inner.stats().keys == 0


@pytest.mark.parametrize("python", [sys.version_info, (3, 10)])
async def test_a_silent_store_holds_nobody_up_and_leaves_no_task(
    faulty: FaultyAsyncStore, clock: ManualClock, python: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ratelimit_middleware.stores.guard.sys", SimpleNamespace(version_info=python))
    store = guard(faulty, clock, timeout_ns=SHORT_NS)
    faulty.hangs = True
    before = asyncio.all_tasks()

    async def wave() -> int:
        """A hundred requests at once; how many are let through. That they end at all is the proof."""
        answers = await asyncio.gather(*(store.take_async([check(limit=8)]) for _ in range(100)))
        return sum(decision.allowed for (decision,) in answers)

    assert await wave() == 2
    while store.health().open_since_ns is None:  # a busy machine looks like a loop that stood still
        assert await wave() == 0
    calls = faulty.calls
    assert await wave() == 0
    assert faulty.calls == calls == store.health().timeouts
    assert asyncio.all_tasks() == before


async def test_it_goes_back_to_the_store_by_itself(faulty: FaultyAsyncStore, clock: ManualClock) -> None:
    store = guard(faulty, clock)
    faulty.error = StoreError("gone")
    assert await admitted(store, check(limit=8)) == 2
    faulty.error = None
    clock.advance(1)
    assert await admitted(store, check(limit=8)) == 8


async def test_one_call_probes_while_the_others_go_by_the_policy(
    faulty: FaultyAsyncStore, clock: ManualClock
) -> None:
    store = guard(faulty, clock, "allow")
    faulty.error = StoreError("gone")
    await admitted(store, check(), times=FAILURES)
    faulty.error, faulty.hangs = None, True
    clock.advance(1)
    probe = asyncio.create_task(store.take_async([check()]))
    await asyncio.sleep(0)
    others = [await store.take_async([check()]) for _ in range(50)]
    assert all(decisions == [UNCHECKED] for decisions in others)
    assert faulty.calls == FAILURES + 1
    faulty.go_on.set()
    assert (await probe)[0] is not UNCHECKED
    assert store.health().open_since_ns is None


async def test_what_a_late_answer_took_stays_taken(faulty: FaultyAsyncStore, clock: ManualClock) -> None:
    store = guard(faulty, clock, timeout_ns=SHORT_NS)
    faulty.takes_first = True
    assert await admitted(store, check(limit=8), times=3) == 2
    faulty.takes_first = False
    assert await admitted(store, check(limit=8)) == 5, "the three whose answers came late are counted"


async def test_a_loop_that_stood_still_is_not_held_against_the_store(
    faulty: FaultyAsyncStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = guard(faulty, clock, timeout_ns=SHORT_NS)
    faulty.hangs = True
    calls = [asyncio.create_task(store.take_async([check(limit=8)])) for _ in range(20)]
    await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    time_s = loop.time
    monkeypatch.setattr(loop, "time", lambda: time_s() + 60)  # as if something had blocked it
    decisions = [(await call)[0] for call in calls]

    assert sum(decision.allowed for decision in decisions) == 2
    assert store.health() == (20, 20, None)
    faulty.hangs = False
    assert await admitted(store, check(limit=8)) == 8


class GivesBackLate(FaultyAsyncStore):
    """A store that is answered in a task of its own and gives back what nobody waits for any more."""

    async def take_async(self, checks: Any) -> Any:
        decisions = self.inner.take(checks)
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            for asked, decision in zip(checks, decisions, strict=True):
                self.inner.give_back(asked, decision.at_ns)
            raise
        return decisions


async def test_a_store_that_gives_back_what_came_late_charges_nothing(clock: ManualClock) -> None:
    slow = GivesBackLate(clock)
    store = guard(slow, clock, timeout_ns=SHORT_NS)
    assert await admitted(store, check(limit=8), times=3) == 2
    slow.go_on.set()
    assert await admitted(store, check(limit=8)) == 8


async def test_a_request_that_is_cancelled_ends_its_call_and_blames_nobody(
    faulty: FaultyAsyncStore, clock: ManualClock
) -> None:
    store = guard(faulty, clock)
    faulty.hangs = True
    before = asyncio.all_tasks()
    requests = [asyncio.create_task(store.take_async([check()])) for _ in range(20)]
    await asyncio.sleep(0)
    for request in requests:
        request.cancel()
    results = await asyncio.gather(*requests, return_exceptions=True)
    assert {type(result) for result in results} == {asyncio.CancelledError}
    assert asyncio.all_tasks() == before
    assert store.health() == (0, 0, None)


async def test_a_probe_that_is_cancelled_leaves_its_turn_to_the_next(
    faulty: FaultyAsyncStore, clock: ManualClock
) -> None:
    store = guard(faulty, clock)
    faulty.error = StoreError("gone")
    await admitted(store, check(), times=FAILURES)
    faulty.error, faulty.hangs = None, True
    clock.advance(1)
    probe = asyncio.create_task(store.take_async([check()]))
    await asyncio.sleep(0)
    probe.cancel()
    await asyncio.wait([probe])
    faulty.hangs = False
    assert await admitted(store, check(limit=8)) == 8


async def test_deny_raises(faulty: FaultyAsyncStore, clock: ManualClock) -> None:
    store = guard(faulty, clock, "deny")
    faulty.error = StoreError("gone")
    for _ in range(FAILURES + 3):
        with pytest.raises(StoreUnavailableError):
            await store.take_async([check()])
    assert faulty.calls == FAILURES


@pytest.mark.parametrize("on_error", ["allow", "fallback"])
async def test_work_after_the_response_never_raises_and_never_waits_long(
    faulty: FaultyAsyncStore, clock: ManualClock, on_error: OnError
) -> None:
    store = guard(faulty, clock, on_error, timeout_ns=SHORT_NS)
    (before,) = await store.take_async([check(limit=8)])
    faulty.hangs = True
    await store.charge_async(check(limit=8))
    await store.give_back_async(check(limit=8), before.at_ns)
    await store.peek_async(check(limit=8))
    await store.reset_async("b")
    assert store.health()[:2] == (4, 4)


async def test_what_was_booked_here_is_given_back_here(faulty: FaultyAsyncStore, clock: ManualClock) -> None:
    store = guard(faulty, clock)
    faulty.error = StoreError("gone")
    (booked,) = await store.take_async([check(limit=8)])
    assert await admitted(store, check(limit=8)) == 1
    calls = faulty.calls
    await store.give_back_async(check(limit=8), booked.at_ns)
    assert faulty.calls == calls
    assert await admitted(store, check(limit=8)) == 1


async def test_what_a_store_objects_to_is_no_outage(faulty: FaultyAsyncStore, clock: ManualClock) -> None:
    store = guard(faulty, clock)
    faulty.error = InvalidLimitError("cost", 0, "at least 1")
    with pytest.raises(InvalidLimitError):
        await store.take_async([check()])
    assert store.health() == (0, 0, None)


class DualStore(FaultyStore):
    """For threads and for an event loop."""

    async def take_async(self, checks: Any) -> Any:
        return self.take(checks)


async def test_both_sides_of_a_store_share_one_breaker_and_one_count(clock: ManualClock) -> None:
    both = DualStore(clock)
    settings = StoreSettings(on_error="fallback", expected_workers=4)
    store = GuardedDualStore(both, settings, clock=clock)
    both.break_down()
    assert store.take([check(limit=8)])[0].allowed
    assert await admitted(store, check(limit=8)) == 1
    assert not store.take([check(limit=8)])[0].allowed
    assert both.calls == FAILURES
