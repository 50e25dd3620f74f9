"""Guards of a store on several servers: each server has a breaker of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

import pytest

from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.store_settings import StoreSettings
from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.stores.guard import GuardedAsyncStore, GuardedStore
from tests.stores.faulty import FaultyAsyncStore, FaultyStore, check

ROOMY, FAILURES = 1000, 5
A, B, BOTH = [check("a", ROOMY)], [check("b", ROOMY)], [check("a", ROOMY), check("b", ROOMY)]


class Spread(FaultyStore):
    """The server of a bucket is named by its key; some are dead."""

    def __init__(self, clock: ManualClock, *dead: str) -> None:
        super().__init__(clock)
        self.dead = {*dead}

    def places(self, keys: Iterable[str]) -> set[str]:
        return {key[0] for key in keys}

    def take(self, checks: Sequence[Check]) -> list[Decision]:
        self.error = StoreError("gone") if self.dead & self.places(check.key for check in checks) else None
        return super().take(checks)


class SpreadAsync(FaultyAsyncStore):
    """The server of `a` hangs."""

    def places(self, keys: Iterable[str]) -> set[str]:
        return {key[0] for key in keys}

    async def take_async(self, checks: Sequence[Check]) -> list[Decision]:
        self.hangs = "a" in self.places(check.key for check in checks)
        return await super().take_async(checks)


def settings() -> StoreSettings:
    return StoreSettings(on_error="fallback", expected_workers=10, timeout_ns=30_000_000)


def is_counted_there(store: GuardedStore, checks: list[Check]) -> bool:
    """Else it was counted at the share of one process."""
    return store.take(checks)[0].limit == ROOMY


@pytest.mark.arithmetic
def test_a_dead_server_costs_its_own_requests_only(clock: ManualClock) -> None:
    inner = Spread(clock, "a")
    store = GuardedStore(inner, settings(), clock=clock)
    assert not any(is_counted_there(store, A) for _ in range(20))
    assert inner.calls == FAILURES
    assert store.health().open_since_ns == clock.now_ns()
    assert all(is_counted_there(store, B) for _ in range(20))
    assert not is_counted_there(store, BOTH)
    assert inner.calls == FAILURES + 20
    inner.dead.clear()
    clock.advance(1)
    assert is_counted_there(store, BOTH)
    assert is_counted_there(store, A)
    assert store.health() == (FAILURES, 0, None)


@pytest.mark.arithmetic
def test_a_server_that_answers_is_not_blamed_for_requests_over_a_dead_one_too(
    clock: ManualClock,
) -> None:
    inner = Spread(clock, "a")
    store = GuardedStore(inner, settings(), clock=clock)
    for _ in range(20):
        assert not is_counted_there(store, BOTH)
        assert is_counted_there(store, B)
    assert inner.calls == FAILURES + 20


@pytest.mark.arithmetic
def test_a_request_that_another_dead_server_keeps_away_uses_up_no_turn_to_probe(
    clock: ManualClock,
) -> None:
    inner = Spread(clock, "a", "b")
    store = GuardedStore(inner, settings(), clock=clock)
    for ask in (A, B):
        assert not any(is_counted_there(store, ask) for _ in range(FAILURES))
        clock.advance(0.5)
    inner.dead.clear()
    clock.advance(0.25)
    assert not is_counted_there(store, BOTH)
    assert is_counted_there(store, A)


@pytest.mark.anyio
async def test_so_it_is_on_an_event_loop_when_all_come_at_once(clock: ManualClock) -> None:
    store = GuardedAsyncStore(SpreadAsync(clock), settings(), clock=clock)
    asks = [BOTH, B, A] * 10
    limits = [[d.limit for d in taken] for taken in await asyncio.gather(*map(store.take_async, asks))]
    assert [there == [ROOMY] for there in limits] == [False, True, False] * 10
    assert (await store.take_async(B))[0].limit == ROOMY
    assert (await store.take_async(A))[0].limit < ROOMY
    while store.health().open_since_ns is None:  # a busy machine looks like a loop that stood still
        await store.take_async(A)
    assert (await store.take_async(B))[0].limit == ROOMY
