"""LeasedStore: fewer round trips, the same bound, and what it costs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ratelimit_middleware.algorithms.base import Algorithm
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.store_settings import LeaseSettings
from ratelimit_middleware.stores.base import AsyncStore, BrowsableStore, Check, ChoosyStore, Store
from ratelimit_middleware.stores.leased import LeasedStore
from ratelimit_middleware.stores.memory import MemoryStore
from tests.properties.laws import Hit, check_at_most

pytestmark = pytest.mark.arithmetic

MS = 1_000_000
SECOND = 1_000_000_000
LEASE = LeaseSettings(50, 200 * MS)


class Server(MemoryStore):
    """A store far away: counts calls, takes its time, and may be gone."""

    def __init__(self, clock: ManualClock, slow_ns: int = 0) -> None:
        super().__init__(clock=clock)
        self.calls = 0
        self.is_gone = False
        self._clock = clock
        self._slow_ns = slow_ns

    def take(self, checks: Sequence[Check]) -> list[Decision]:
        self.calls += 1
        self._clock.set_ns(self._clock.now_ns() + self._slow_ns)
        if self.is_gone:
            raise StoreError("gone")
        decisions = super().take(checks)
        self._clock.set_ns(self._clock.now_ns() + self._slow_ns)
        return decisions

    def give_back(self, check: Check, at_ns: int) -> None:
        self.calls += 1
        super().give_back(check, at_ns)

    def accept(self, algorithm: Algorithm) -> None:
        if isinstance(algorithm, GCRA):
            raise StoreError("not this one")

    async def take_async(self, checks: Sequence[Check]) -> list[Decision]:
        await asyncio.sleep(0)
        return self.take(checks)

    async def charge_async(self, check: Check) -> None:
        self.charge(check)

    async def give_back_async(self, check: Check, at_ns: int) -> None:
        self.give_back(check, at_ns)

    async def renew_async(self, check: Check, at_ns: int) -> None:
        self.renew(check, at_ns)

    async def peek_async(self, check: Check) -> Decision:
        return self.peek(check)

    async def reset_async(self, key: str) -> bool:
        return self.reset(key)

    async def close_async(self) -> None:
        self.close()


@pytest.fixture
def server(clock: ManualClock) -> Server:
    return Server(clock)


def worker(server: Server, clock: ManualClock, lease: LeaseSettings = LEASE) -> LeasedStore:
    return LeasedStore(server, lease, clock=clock)


def check(algorithm: Algorithm, key: str = "a|1", **more: Any) -> Check:
    return Check(key, algorithm, "a|*", **more)


def admitted(store: LeasedStore, asked: Check, times: int) -> int:
    return sum(store.take([asked])[0].allowed for _ in range(times))


def test_it_is_a_store_for_threads_and_event_loops(server: Server, clock: ManualClock) -> None:
    store = worker(server, clock)
    for protocol in (Store, AsyncStore, BrowsableStore, ChoosyStore):
        assert isinstance(store, protocol)


PERIOD_NS = 3 * SECOND
EDGES_NS = [
    0,
    1,
    MS,
    199 * MS,
    200 * MS,
    PERIOD_NS - 200 * MS,
    PERIOD_NS - 1,
    PERIOD_NS,
    PERIOD_NS + 200 * MS,
]
STEPS = st.lists(
    st.tuples(
        st.integers(0, 2),  # who
        st.one_of(st.sampled_from(EDGES_NS), st.integers(0, 300 * MS), st.integers(0, 4 * SECOND)),  # after
        st.integers(1, 30),  # how often
        st.sampled_from([1, 1, 1, 2, 3]),  # cost
        st.sampled_from(["", "", "", "", "give back", "close", "gone"]),
    ),
    max_size=30,
)


@settings(deadline=None, max_examples=150)
@example([(0, 0, 5, 1, ""), (0, 199 * MS, 2, 1, ""), (1, PERIOD_NS - 199 * MS, 30, 1, "")], 7, 0, 20)
@given(STEPS, st.integers(1, 40), st.sampled_from([0, 1, 90 * MS, 250 * MS]), st.integers(2, 20))
def test_no_period_gets_more_than_the_limit_however_many_workers_there_are(
    steps: list[tuple[int, int, int, int, str]], limit: int, slow_ns: int, size: int
) -> None:
    """A request counts when it is admitted, on a call that may take longer than a block is good for."""
    clock = ManualClock()
    server = Server(clock, slow_ns)
    workers = [worker(server, clock, LeaseSettings(size, 200 * MS)) for _ in range(3)]
    asked, hits = check(SlidingWindow(limit, 3)), list[Hit]()
    for who, after_ns, times, cost, what in steps:
        clock.set_ns(clock.now_ns() + after_ns)
        server.is_gone = what == "gone"
        for _ in range(times):
            try:
                [decision] = workers[who].take([asked._replace(cost=cost)])
            except StoreError:
                continue
            if decision.allowed and what == "give back":
                workers[who].give_back(asked._replace(cost=cost), decision.at_ns)
            elif decision.allowed:
                hits.append(Hit(clock.now_ns(), cost))
        if what == "close":
            returned(workers[who], server)
    check_at_most(hits, PERIOD_NS, limit)


def test_a_busy_bucket_needs_few_round_trips(server: Server, clock: ManualClock) -> None:
    """1, 2, 4, 8, 16, 32, and then 50 at a time."""
    assert admitted(worker(server, clock), check(SlidingWindow(10_000, 60)), 1000) == 1000
    assert server.calls == 6 + 19


def test_a_bucket_that_is_seldom_asked_for_costs_one_call_a_request(
    server: Server, clock: ManualClock
) -> None:
    store = worker(server, clock)
    for _ in range(20):
        assert admitted(store, check(SlidingWindow(100, 60)), 1) == 1
        clock.advance(1)
    assert server.calls == 20


def returned(store: LeasedStore, server: Server) -> None:
    """What a worker does that ends."""
    for back, at_ns in store._empty():
        server.give_back(back, at_ns)


def test_what_lies_in_another_worker_is_missing_until_it_comes_back(
    server: Server, clock: ManualClock
) -> None:
    """The price: earlier refusals. 64 of 120 are used, and 49 lie unspent in the worker that took them."""
    busy, other = worker(server, clock), worker(server, clock)
    asked = check(SlidingWindow(120, 60))
    assert admitted(busy, asked, 64) == 64
    assert admitted(other, asked, 60) == 7
    returned(busy, server)
    assert admitted(other, asked, 60) == 49


def test_all_permits_are_reached_in_the_end(server: Server, clock: ManualClock) -> None:
    """Near the limit single permits are taken."""
    assert admitted(worker(server, clock), check(SlidingWindow(100, 60)), 150) == 100


def test_permits_are_back_a_period_after_the_block_was_too_old(server: Server, clock: ManualClock) -> None:
    store, asked = worker(server, clock), check(SlidingWindow(10, 60))
    assert admitted(store, asked, 12) == 10
    refusal = store.take([asked])[0]
    assert refusal.retry_after_ns == 60 * SECOND + 200 * MS
    clock.set_ns(clock.now_ns() + refusal.retry_after_ns)
    assert admitted(store, asked, 1) == 1


def test_a_block_that_is_too_old_is_not_spent(server: Server, clock: ManualClock) -> None:
    store, asked = worker(server, clock), check(SlidingWindow(1000, 60))
    admitted(store, asked, 20)
    server.is_gone = True
    assert admitted(store, asked, 5) == 5  # of the 11 that are left
    clock.advance(0.2)
    with pytest.raises(StoreError):
        store.take([asked])


def test_what_is_left_of_an_old_block_goes_back_with_the_next_call(
    server: Server, clock: ManualClock
) -> None:
    store, asked = worker(server, clock), check(SlidingWindow(1000, 60))
    assert admitted(store, asked, 20) == 20
    clock.advance(1)
    assert admitted(store, asked, 1) == 1
    returned(store, server)
    look = server.look("a|1")
    assert look is not None
    assert look.decision.remaining == 1000 - 21


def test_a_refusal_by_another_limit_costs_nothing(server: Server, clock: ManualClock) -> None:
    store = worker(server, clock)
    wide, narrow = check(SlidingWindow(1000, 60), "wide|1"), check(GCRA(1, 60, 8), "narrow|1")
    answers = [store.take([wide, narrow]) for _ in range(20)]
    assert sum(all(decision.allowed for decision in answer) for answer in answers) == 8
    returned(store, server)
    look = server.look("wide|1")
    assert look is not None
    assert look.decision.remaining == 1000 - 8


@pytest.mark.parametrize(
    "asked",
    [
        check(GCRA(10, 1, 100)),
        check(SlidingWindow(1000, 1)),
        check(SlidingWindow(1, 60)),
        check(SlidingWindow(1000, 60), max_wait_ns=SECOND),
        check(SlidingWindow(1000, 60), shadow=True),
    ],
    ids=["burst", "short period", "limit of 1", "waits", "shadow"],
)
def test_what_cannot_be_leased_is_asked_for_each_time(
    server: Server, clock: ManualClock, asked: Check
) -> None:
    admitted(worker(server, clock), asked, 30)
    assert server.calls == 30


def test_permits_given_back_are_spent_again_without_a_call(server: Server, clock: ManualClock) -> None:
    store, asked = worker(server, clock), check(SlidingWindow(1000, 60))
    admitted(store, asked, 6)
    [last] = store.take([asked])
    calls = server.calls
    store.give_back(asked, last.at_ns)
    assert admitted(store, asked, 1) == 1
    assert server.calls == calls


def test_headers_tell_what_is_left(server: Server, clock: ManualClock) -> None:
    store, asked = worker(server, clock), check(SlidingWindow(100, 60))
    told = [store.take([asked])[0] for _ in range(60)]
    assert [decision.remaining for decision in told] == list(range(99, 39, -1))
    assert {decision.limit for decision in told} == {100}


def test_a_reset_forgets_the_block_too(server: Server, clock: ManualClock) -> None:
    store, asked = worker(server, clock), check(SlidingWindow(10, 60))
    assert admitted(store, asked, 11) == 10
    assert store.reset("a|1")
    assert admitted(store, asked, 11) == 10
    assert list(store.scan()) == ["a|1"]


def test_a_forked_worker_does_not_spend_its_parents_blocks(
    server: Server, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, asked = worker(server, clock), check(SlidingWindow(1000, 60))
    admitted(store, asked, 40)
    calls = server.calls
    monkeypatch.setattr(os, "getpid", lambda: 7)
    admitted(store, asked, 1)
    assert server.calls == calls + 1


def test_a_limit_that_the_store_cannot_count_is_refused(server: Server, clock: ManualClock) -> None:
    store = worker(server, clock)
    store.accept(SlidingWindow(10, 60))
    with pytest.raises(StoreError, match="not this one"):
        store.accept(GCRA(1, 1, 1))


@pytest.mark.anyio
async def test_tasks_that_come_together_take_one_block(server: Server, clock: ManualClock) -> None:
    """While it is on its way the others ask for themselves: nobody waits, and nobody takes a second block."""
    store, asked = worker(server, clock), [check(SlidingWindow(2000, 60))]
    admitted_here = 0
    for _ in range(33):
        answers = await asyncio.gather(*(store.take_async(asked) for _ in range(30)))
        admitted_here += sum(decision.allowed for [decision] in answers)
    assert admitted_here == 990
    assert server.calls < 250
    await store.close_async()


@pytest.mark.anyio
async def test_a_request_that_is_cancelled_leaves_nothing_half_done(
    server: Server, clock: ManualClock
) -> None:
    store, asked = worker(server, clock), check(SlidingWindow(1000, 60))
    task = asyncio.ensure_future(store.take_async([asked]))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await store.take_async([asked]))[0].allowed
    assert (await store.take_async([asked]))[0].allowed
    assert (await store.take_async([asked]))[0].allowed  # out of a block of two
    assert server.calls == 2
