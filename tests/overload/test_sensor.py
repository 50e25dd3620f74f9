"""The lag of real event loops by a clock that the test moves, and what the system is asked."""

from __future__ import annotations

import asyncio
import os
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.overload.adaptive import Senses
from ratelimit_middleware.overload.loop_lag import LoopLag
from ratelimit_middleware.overload.sensor import SystemSensor

MS = 10**6


class _Loop:
    """Keeps the timers of an event loop, to be called by the test."""

    def __init__(self) -> None:
        self.timers: list[tuple[float, Callable[..., None], Any]] = []

    def call_later(self, delay_s: float, callback: Callable[..., None], argument: Any) -> None:
        self.timers.append((delay_s, callback, argument))

    def come(self) -> None:
        """The next timer comes."""
        _, callback, argument = self.timers.pop(0)
        callback(argument)


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> _Loop:
    found = _Loop()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: found)
    return found


@pytest.mark.arithmetic
def test_a_timer_that_comes_late_twice_is_lag(loop: _Loop, clock: ManualClock) -> None:
    lag = LoopLag(clock)
    lag.request_came()
    assert loop.timers[0][0] == 0.05
    for expected_ms in (0, 150, 150):
        clock.advance(0.2)
        loop.come()
        assert lag.at() == expected_ms * MS
    clock.advance(0.05)
    loop.come()
    assert lag.at() == 0


@pytest.mark.arithmetic
def test_a_timer_that_is_overdue_is_lag_before_it_comes(loop: _Loop, clock: ManualClock) -> None:
    lag = LoopLag(clock)
    lag.request_came()
    clock.advance(0.2)
    loop.come()
    clock.advance(0.15)
    assert lag.at() == 100 * MS


@pytest.mark.arithmetic
def test_one_timer_runs_until_a_second_without_requests(loop: _Loop, clock: ManualClock) -> None:
    lag = LoopLag(clock)
    for _ in range(5):
        lag.request_came()
    assert len(loop.timers) == 1
    for _ in range(20):
        clock.advance(0.05)
        loop.come()
    assert len(loop.timers) == 1
    clock.advance(0.05)
    loop.come()
    assert loop.timers == []
    lag.request_came()
    assert len(loop.timers) == 1


@pytest.mark.arithmetic
def test_another_loop_is_watched_from_its_first_request_on(
    monkeypatch: pytest.MonkeyPatch, loop: _Loop, clock: ManualClock
) -> None:
    lag = LoopLag(clock)
    lag.request_came()
    other = _Loop()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: other)
    lag.request_came()
    assert len(other.timers) == 1
    loop.come()
    assert loop.timers == []


def test_no_task_is_left_on_asyncio(clock: ManualClock) -> None:
    async def main() -> None:
        LoopLag(clock).request_came()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_on_trio_it_is_the_wait_for_what_the_loop_has_to_do(clock: ManualClock) -> None:
    lag = LoopLag(clock)

    async def main() -> None:
        before = trio.lowlevel.current_statistics().tasks_living
        seen = []
        for _ in range(3):
            lag.request_came()
            clock.advance(0.15)  # what another request keeps the loop busy with
            await trio.testing.wait_all_tasks_blocked()
            seen.append(lag.at())
        assert seen == [0, 150 * MS, 150 * MS]
        lag.request_came()
        await trio.testing.wait_all_tasks_blocked()
        assert lag.at() == 0
        assert trio.lowlevel.current_statistics().tasks_living == before

    trio.run(main)


def test_on_trio_a_loop_that_does_not_come_to_it_is_late(clock: ManualClock) -> None:
    lag = LoopLag(clock)

    async def main() -> None:
        lag.request_came()
        clock.advance(0.15)
        await trio.testing.wait_all_tasks_blocked()
        lag.request_came()
        clock.advance(0.12)
        assert lag.at() == 120 * MS

    trio.run(main)


@pytest.fixture
def psutil(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A stand-in, whose processors are in use as the test says."""
    module: Any = types.ModuleType("psutil")
    module.use = 0.0
    module.asked = 0

    def cpu_percent(interval: float | None) -> float:
        assert interval is None
        module.asked += 1
        return float(module.use)

    module.cpu_percent = cpu_percent
    monkeypatch.setitem(sys.modules, "psutil", module)
    return module


@pytest.mark.arithmetic
def test_the_processors_are_asked_twice_a_second_at_most(psutil: Any, clock: ManualClock) -> None:
    sensor = SystemSensor({"cpu"}, clock)
    psutil.use = 93.0
    assert sensor.request_came().cpu == 0.0
    clock.advance(0.5)
    assert [sensor.request_came() for _ in range(50)] == [Senses(cpu=0.93)] * 50
    assert psutil.asked == 2
    clock.advance(0.5)
    psutil.use = 12.0
    assert sensor.request_came().cpu == 0.12


@pytest.mark.arithmetic
def test_the_load_is_told_for_each_processor(monkeypatch: pytest.MonkeyPatch, clock: ManualClock) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (6.0, 1.0, 1.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    sensor = SystemSensor({"load"}, clock)
    clock.advance(0.5)
    assert sensor.request_came() == Senses(load=1.5)


@pytest.mark.arithmetic
def test_without_psutil_the_load_stands_for_the_use_and_that_is_told(
    monkeypatch: pytest.MonkeyPatch, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)
    monkeypatch.setattr(os, "getloadavg", lambda: (6.0, 1.0, 1.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    sensor = SystemSensor({"cpu"}, clock)
    clock.advance(0.5)
    assert sensor.request_came().cpu == 1.0
    assert len(caplog.messages) == 1
    assert "pip install ratelimit-middleware[overload]" in caplog.messages[0]


@pytest.mark.arithmetic
def test_a_system_that_tells_no_load_needs_psutil(
    monkeypatch: pytest.MonkeyPatch, clock: ManualClock
) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)
    monkeypatch.delattr(os, "getloadavg")
    for wanted in ("load", "cpu"):
        with pytest.raises(ImportError, match="overload"):
            SystemSensor({wanted}, clock)


@pytest.mark.arithmetic
def test_what_no_rule_asks_for_is_not_measured(monkeypatch: pytest.MonkeyPatch, clock: ManualClock) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)
    monkeypatch.delattr(os, "getloadavg")
    assert SystemSensor(set(), clock).request_came() == Senses()
