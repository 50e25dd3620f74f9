"""The algorithms by hand."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from typing import Any

import pytest

from ratelimit_middleware.algorithms.base import Algorithm
from ratelimit_middleware.algorithms.concurrency import Concurrency
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.algorithms.smooth_bursty import SmoothBursty
from ratelimit_middleware.clock import ManualClock, SystemClock
from ratelimit_middleware.errors import InvalidLimitError, NeverAdmittedError, StoreError
from ratelimit_middleware.limiter import Limiter
from ratelimit_middleware.stores.memory import MemoryStore
from tests.awaited import AwaitedStore

SECOND = 1_000_000_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000)


def threaded(algorithm: Algorithm, clock: ManualClock) -> Limiter:
    return Limiter(algorithm, clock=clock)


def awaited(algorithm: Algorithm, clock: ManualClock) -> Limiter:
    return Limiter(algorithm, store=AwaitedStore(MemoryStore(clock=clock)), clock=clock)


def test_the_next_caller_pays_for_a_large_request(clock: ManualClock) -> None:
    limiter = Limiter(SmoothBursty(2), clock=clock)
    assert limiter.acquire(10) == 0
    assert limiter.acquire(1) == 5
    assert clock.now_ns() == 1005 * SECOND


@pytest.mark.anyio
@pytest.mark.parametrize("make", [threaded, awaited])
async def test_the_next_task_pays_for_a_large_request(
    clock: ManualClock, make: Callable[[Algorithm, ManualClock], Limiter]
) -> None:
    limiter = make(SmoothBursty(2), clock)
    assert await limiter.acquire_async(10) == 0
    assert await limiter.acquire_async(1) == 5
    assert clock.now_ns() == 1005 * SECOND


def test_try_acquire_takes_nothing_when_the_time_is_too_short(clock: ManualClock) -> None:
    limiter = Limiter(GCRA(1, 1, 1), clock=clock)
    assert limiter.try_acquire()
    assert not limiter.try_acquire()
    assert not limiter.try_acquire(timeout=0.9)
    assert limiter.try_acquire(timeout=1)
    assert clock.now_ns() == 1001 * SECOND


@pytest.mark.anyio
async def test_try_acquire_async_does_the_same(clock: ManualClock) -> None:
    limiter = awaited(GCRA(1, 1, 1), clock)
    assert await limiter.try_acquire_async()
    assert not await limiter.try_acquire_async(timeout=0.9)
    assert await limiter.try_acquire_async(timeout=1)
    assert await limiter.try_acquire_async(0)
    assert clock.now_ns() == 1001 * SECOND


def test_a_reservation_tells_its_wait_and_is_cancelled_once(clock: ManualClock) -> None:
    limiter = Limiter(GCRA(1, 1, 1), clock=clock)
    limiter.acquire()
    first, second = limiter.reserve(), limiter.reserve()
    assert (first.wait, second.wait) == (1, 2)
    assert second.cancel()
    assert not second.cancel()
    assert limiter.reserve().wait == 2


@pytest.mark.anyio
async def test_an_awaited_reservation_is_cancelled_once(clock: ManualClock) -> None:
    limiter = awaited(GCRA(1, 1, 1), clock)
    await limiter.acquire_async()
    reservation = await limiter.reserve_async()
    assert await reservation.cancel_async()
    assert not await reservation.cancel_async()
    assert (await limiter.reserve_async()).wait == 1


def test_a_refused_reservation_has_nothing_to_cancel(clock: ManualClock) -> None:
    limiter = Limiter(GCRA(1, 1, 1), clock=clock)
    limiter.acquire()
    refused = limiter.reserve(max_wait=0.5)
    assert not refused.allowed
    assert not refused.cancel()
    assert limiter.reserve().wait == 1


def test_more_than_a_bucket_ever_holds_is_never_admitted_not_later(clock: ManualClock) -> None:
    limiter = Limiter(SlidingWindow(5, 60), clock=clock)
    with pytest.raises(NeverAdmittedError, match="6 permits are never admitted together: the limit is 5"):
        limiter.acquire(6)
    assert not limiter.try_acquire(6, timeout=10**6)
    assert limiter.available() == 5


@pytest.mark.parametrize("n", [-1, 1.5, True, "1"])
def test_an_amount_that_makes_no_sense_is_refused(clock: ManualClock, n: int) -> None:
    limiter = Limiter(GCRA(1, 1, 1), clock=clock)
    with pytest.raises(InvalidLimitError, match="n="):
        limiter.reserve(n)


def test_nothing_costs_nothing(clock: ManualClock) -> None:
    limiter = Limiter(GCRA(1, 1, 1), clock=clock)
    assert limiter.acquire(0) == 0
    assert limiter.try_acquire(0)
    assert limiter.available() == 1


def test_keys_have_buckets_of_their_own(clock: ManualClock) -> None:
    limiter = Limiter(SlidingWindow(1, 60), clock=clock)
    assert limiter.try_acquire(key="a")
    assert limiter.try_acquire(key="b")
    assert limiter.try_acquire()
    assert not limiter.try_acquire(key="a")


def test_limiters_of_one_store_share_buckets_only_under_one_name(clock: ManualClock) -> None:
    store = MemoryStore(clock=clock)
    one, same, other = (
        Limiter(SlidingWindow(1, 60), name=name, store=store, clock=clock) for name in ("a", "a", "a|=b")
    )
    assert one.try_acquire(key="b")
    assert not same.try_acquire(key="b")
    assert other.try_acquire()


def test_available_counts_what_can_be_taken_now(clock: ManualClock) -> None:
    limiter = Limiter(SlidingWindow(3, 60), clock=clock)
    assert [limiter.available(), limiter.acquire(2), limiter.available()] == [3, 0, 1]
    limiter.acquire()
    assert limiter.available() == 0


def test_a_rate_can_be_changed_in_flight(clock: ManualClock) -> None:
    limiter = Limiter(SmoothBursty(1), clock=clock)
    limiter.acquire(10)
    limiter.set_rate(10)
    assert limiter.acquire() == 10
    assert limiter.acquire() == pytest.approx(0.1)


def test_an_algorithm_without_a_rate_is_replaced_whole(clock: ManualClock) -> None:
    limiter = Limiter(SlidingWindow(2, 60), clock=clock)
    limiter.acquire(2)
    with pytest.raises(TypeError, match="use set_algorithm"):
        limiter.set_rate(5)
    limiter.set_algorithm(SlidingWindow(4, 60))
    assert limiter.available() == 0
    assert limiter.algorithm == SlidingWindow(4, 60)


def test_as_a_context_and_as_a_decorator_it_takes_one_permit(clock: ManualClock) -> None:
    limiter = Limiter(SlidingWindow(3, 60), clock=clock)

    @limiter
    def double(number: int) -> int:
        """Twice the number."""
        return 2 * number

    with limiter:
        assert double(4) == 8
    assert limiter.available() == 1
    assert (double.__name__, double.__doc__) == ("double", "Twice the number.")


@pytest.mark.anyio
async def test_coroutine_functions_are_decorated_too(clock: ManualClock) -> None:
    limiter = awaited(SlidingWindow(3, 60), clock)

    @limiter
    async def double(number: int) -> int:
        return 2 * number

    async with limiter:
        assert await double(4) == 8
    assert await limiter.available_async() == 1
    assert asyncio.iscoroutinefunction(double)


@pytest.mark.anyio
async def test_an_object_that_is_called_like_a_coroutine_function_is_awaited(clock: ManualClock) -> None:
    """Else its permit would be waited for on the event loop, which stands still meanwhile."""

    class Fetch:
        async def __call__(self, page: int) -> int:
            return page

    limiter = awaited(GCRA(1, 1, 1), clock)
    assert [await limiter(Fetch())(1), await limiter(Fetch())(2)] == [1, 2]
    assert clock.now_ns() == 1001 * SECOND


def test_a_decorated_function_keeps_its_name_its_signature_and_its_kind(clock: ManualClock) -> None:
    limiter = Limiter(GCRA(1, 1, 1), clock=clock)

    def fetch(page: int, *, size: int = 10) -> str:
        """Read a page."""
        return f"{page} {size}"

    async def fetch_async(page: int) -> str:
        return str(page)

    assert inspect.signature(limiter(fetch)) == inspect.signature(fetch)
    assert (limiter(fetch).__name__, limiter(fetch).__doc__) == ("fetch", "Read a page.")
    assert inspect.iscoroutinefunction(limiter(fetch_async))
    assert not inspect.iscoroutinefunction(limiter(fetch))


def test_a_decorated_asynchronous_generator_is_refused(clock: ManualClock) -> None:
    async def numbers():  # type: ignore[no-untyped-def]  # its type does not matter
        yield 1

    with pytest.raises(TypeError, match="asynchronous generator"):
        Limiter(GCRA(1, 1, 1), clock=clock)(numbers)


def test_an_awaited_store_is_refused_by_the_methods_that_cannot_await(clock: ManualClock) -> None:
    with pytest.raises(StoreError, match="end in _async"):
        awaited(GCRA(1, 1, 1), clock).acquire()


class BrokenClock(ManualClock):
    """A clock whose waiting is interrupted."""

    def sleep(self, seconds: float) -> None:
        raise KeyboardInterrupt

    async def sleep_async(self, seconds: float) -> None:
        raise asyncio.CancelledError


def test_a_wait_that_is_interrupted_gives_its_permits_back() -> None:
    limiter = Limiter(GCRA(1, 1, 1), clock=BrokenClock(1000))
    limiter.acquire()
    with pytest.raises(KeyboardInterrupt):
        limiter.acquire()
    assert limiter.reserve().wait == 1


@pytest.mark.anyio
async def test_a_task_that_is_cancelled_while_it_waits_gives_its_permits_back() -> None:
    limiter = Limiter(GCRA(1, 1, 1), clock=BrokenClock(1000))
    await limiter.acquire_async()
    with pytest.raises(asyncio.CancelledError):
        await limiter.acquire_async()
    assert limiter.reserve().wait == 1


def test_threads_share_a_limiter_exactly() -> None:
    limiter = Limiter(SlidingWindow(50, 3600))
    taken: list[bool] = []

    def caller() -> None:
        taken.extend(limiter.try_acquire() for _ in range(10))

    threads = [threading.Thread(target=caller) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(taken) == 50


def test_the_real_clock_waits_really() -> None:
    clock, limiter = SystemClock(), Limiter(GCRA(100, 1, 1))
    before_ns = clock.now_ns()
    waited = limiter.acquire() + limiter.acquire() + limiter.acquire()
    assert 0 < waited <= 0.02
    assert clock.now_ns() - before_ns >= 0.019 * SECOND


@pytest.mark.anyio
async def test_the_real_clock_waits_really_on_the_loop() -> None:
    clock, limiter = SystemClock(), Limiter(GCRA(100, 1, 1))
    before_ns = clock.now_ns()
    waited = sum([await limiter.acquire_async() for _ in range(3)])
    assert 0 < waited <= 0.02
    assert clock.now_ns() - before_ns >= 0.019 * SECOND


def test_a_slot_is_held_for_a_block_and_comes_back(clock: ManualClock) -> None:
    limiter = Limiter(Concurrency(1), clock=clock)
    with limiter.slot(key="ada") as slot:
        assert slot.allowed
        assert not limiter.reserve(key="ada").allowed
        assert limiter.reserve(key="bob").allowed
    with pytest.raises(ValueError, match="inside"), limiter.slot(key="ada"):
        raise ValueError("inside")
    assert limiter.available(key="ada") == 1


def test_who_finds_no_slot_asks_again_each_second(clock: ManualClock) -> None:
    limiter = Limiter(Concurrency(1, lease=3), clock=clock)
    assert limiter.reserve().allowed
    before = clock.now_ns()
    with limiter.slot():
        assert clock.now_ns() - before == 3_000_000_000


@pytest.mark.anyio
async def test_a_slot_is_held_for_a_block_on_an_event_loop(clock: ManualClock) -> None:
    for store in (MemoryStore(clock=clock), AwaitedStore(MemoryStore(clock=clock))):
        limiter = Limiter(Concurrency(1), clock=clock, store=store)
        async with limiter.slot():
            assert not (await limiter.reserve_async()).allowed
        assert await limiter.available_async() == 1


def test_a_decorated_function_holds_a_slot_while_it_runs(clock: ManualClock) -> None:
    limiter = Limiter(Concurrency(2), clock=clock)

    @limiter
    def left() -> int:
        return limiter.available()

    assert [left(), left()] == [1, 1]
    assert limiter.available() == 2


@pytest.mark.anyio
async def test_a_decorated_coroutine_function_holds_a_slot_while_it_runs(clock: ManualClock) -> None:
    limiter = Limiter(Concurrency(2), clock=clock)

    @limiter
    async def left() -> int:
        return limiter.available()

    assert [await left(), await left()] == [1, 1]
    assert limiter.available() == 2


async def _enter(limiter: Limiter) -> None:
    async with limiter:
        pytest.fail("entered")


@pytest.mark.anyio
async def test_a_limiter_of_slots_is_entered_by_slot_only_and_others_have_none() -> None:
    with pytest.raises(TypeError, match=r"with limiter\.slot\(\)"), Limiter(Concurrency(1)):
        pytest.fail("entered")
    with pytest.raises(TypeError, match=r"with limiter\.slot\(\)"):
        await _enter(Limiter(Concurrency(1)))
    with pytest.raises(TypeError, match="no slots"):
        Limiter(GCRA(1, 1, 1)).slot()


@pytest.mark.parametrize("algorithm", ["5/minute", SlidingWindow, None])
def test_what_is_no_algorithm_is_refused_at_once(algorithm: Any) -> None:
    with pytest.raises(TypeError, match=r"SlidingWindow\(5, 60\)"):
        Limiter(algorithm)


def test_a_url_is_no_store(clock: ManualClock) -> None:
    url: Any = "memory://"
    with pytest.raises(TypeError, match=r"MemoryStore\(\)"):
        Limiter(GCRA(1, 1, 1), store=url, clock=clock)
