"""LoopGuard: on the loop while it is quick, in a thread when it is slow."""

from __future__ import annotations

import logging
import threading

import pytest

from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.stores._loop_guard import LoopGuard

pytestmark = pytest.mark.anyio


@pytest.fixture
def guard(clock: ManualClock) -> LoopGuard:
    return LoopGuard(clock=clock, timeout_s=5)


async def calls(guard: LoopGuard, clock: ManualClock, *took_ms: float) -> set[bool]:
    """Make calls that take so long; whether they ran in this thread."""

    def call(ms: float) -> bool:
        clock.advance(ms / 1000)
        return threading.current_thread() is threading.main_thread()

    return {await guard.call(call, ms) for ms in took_ms}


async def test_quick_calls_stay_on_the_loop(guard: LoopGuard, clock: ManualClock) -> None:
    assert await calls(guard, clock, *[4.9] * 20) == {True}


async def test_three_slow_calls_in_a_row_move_it_to_a_thread(
    guard: LoopGuard, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    assert await calls(guard, clock, 5, 5, 1, 5, 5, 1) == {True}
    with caplog.at_level(logging.WARNING):
        assert await calls(guard, clock, 5, 5, 7) == {True}
    assert await calls(guard, clock, 1, 5, 1) == {False}
    assert [record.message for record in caplog.records] == [
        "the store is slow (7 ms): it is asked from a thread now"
    ]
    guard.close()


async def test_a_thousand_quick_calls_bring_it_back(guard: LoopGuard, clock: ManualClock) -> None:
    await calls(guard, clock, 5, 5, 5, *[1] * 999, 5)
    assert await calls(guard, clock, *[1] * 1000) == {False}
    assert await calls(guard, clock, 1) == {True}
    guard.close()


async def test_a_call_that_fails_counts_and_its_error_comes_through(
    guard: LoopGuard, clock: ManualClock
) -> None:
    def fail() -> None:
        clock.advance(1)
        raise LookupError("here")

    for _ in range(4):
        with pytest.raises(LookupError, match="here"):
            await guard.call(fail)
    assert guard.in_thread
    guard.close()


async def test_a_call_whose_turn_does_not_come_in_time_is_dropped(clock: ManualClock) -> None:
    guard, go_on, made = LoopGuard(clock=clock, timeout_s=0.05), threading.Event(), list[str]()
    guard.in_thread = True

    def stuck() -> None:
        go_on.wait(10)
        made.append("stuck")

    with pytest.raises(StoreError, match=r"has not answered within 0\.05 s"):
        await guard.call(stuck)
    with pytest.raises(StoreError):
        await guard.call(made.append, "too late")
    go_on.set()
    await guard.call(made.append, "next")
    assert made == ["stuck", "next"]
    guard.close()
