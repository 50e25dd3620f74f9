from __future__ import annotations

import time
from datetime import timedelta

import pytest

from ratelimit_middleware.clock import ManualClock, SystemClock, reading, steady, to_ns
from ratelimit_middleware.errors import InvalidLimitError

pytestmark = pytest.mark.arithmetic

SECOND = 1_000_000_000


def test_the_system_clock_tells_the_wall_time() -> None:
    assert abs(SystemClock().now_ns() - time.time_ns()) < SECOND


def test_a_step_of_the_wall_clock_does_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SystemClock()
    before = clock.now_ns()
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert before <= clock.now_ns() < before + SECOND


def test_a_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock(100)
    assert clock.now_ns() == clock.now_ns() == 100 * SECOND
    clock.advance(1.5)
    clock.advance(timedelta(milliseconds=250))
    assert clock.now_ns() == 101_750_000_000
    with pytest.raises(InvalidLimitError, match="seconds=-1"):
        clock.advance(-1)


def test_a_step_back_is_absorbed_and_time_runs_on() -> None:
    clock = ManualClock(100)
    now_ns = steady(clock)
    clock.set_ns(40 * SECOND)
    assert now_ns() == 100 * SECOND
    clock.advance(5)
    assert now_ns() == 105 * SECOND
    clock.set_ns(0)
    assert now_ns() == 105 * SECOND
    clock.advance(1)
    assert now_ns() == 106 * SECOND


def test_a_store_reads_the_time_of_its_clock_or_of_the_system() -> None:
    clock = ManualClock(100)
    read, offset_ns = reading(clock)
    clock.set_ns(40 * SECOND)
    assert read() + offset_ns == 100 * SECOND
    read, offset_ns = reading(None)
    assert abs(SystemClock().now_ns() - (read() + offset_ns)) < SECOND


@pytest.mark.parametrize(
    ("duration", "nanoseconds"),
    [(0, 0), (1, SECOND), (0.1, 100_000_000), (timedelta(days=30), 30 * 86_400 * SECOND), (1e-9, 1)],
)
def test_durations_become_whole_nanoseconds(duration: float | timedelta, nanoseconds: int) -> None:
    assert to_ns(duration) == nanoseconds


@pytest.mark.parametrize("duration", [-1, -0.5, float("nan"), float("inf"), 1e12, True, "1", timedelta(-1)])
def test_a_duration_that_is_none_is_refused_by_name(duration: float) -> None:
    with pytest.raises(InvalidLimitError, match="max_wait="):
        to_ns(duration, "max_wait")
