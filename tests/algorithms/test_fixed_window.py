"""FixedWindow: plain grids, the calendar, clocks that change."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from ratelimit_middleware.algorithms import _calendar
from ratelimit_middleware.algorithms.fixed_window import FixedWindow
from ratelimit_middleware.errors import InvalidLimitError

pytestmark = pytest.mark.arithmetic

SECOND = 1_000_000_000
HOUR = 3600 * SECOND


def ns(text: str, zone: str = "UTC") -> int:
    """A moment of a wall clock."""
    moment = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone))
    return round(moment.timestamp()) * SECOND


def window(unit: str, at: str, zone: str | None = None) -> tuple[int, int]:
    """The window around a moment told by the zone's own clock."""
    start_ns, end_ns, _, _ = FixedWindow(1, unit, zone).start(ns(at, zone or "UTC"))  # type: ignore[arg-type]  # any text
    return start_ns, end_ns


def test_plain_windows_are_counted_from_the_epoch() -> None:
    assert FixedWindow(5, 60).start(125 * SECOND) == (120 * SECOND, 180 * SECOND, 0, 0)


@pytest.mark.parametrize(
    ("unit", "at", "start", "end"),
    [
        ("minute", "2024-02-29 12:34:56", "2024-02-29 12:34", "2024-02-29 12:35"),
        ("hour", "2024-02-29 12:34", "2024-02-29 12:00", "2024-02-29 13:00"),
        ("day", "2024-02-29 12:34", "2024-02-29 00:00", "2024-03-01 00:00"),
        ("week", "2024-02-29 12:34", "2024-02-26 00:00", "2024-03-04 00:00"),
        ("week", "2024-03-03 23:59:59", "2024-02-26 00:00", "2024-03-04 00:00"),
        ("month", "2024-02-29 12:34", "2024-02-01 00:00", "2024-03-01 00:00"),
        ("month", "2023-12-31 23:59:59", "2023-12-01 00:00", "2024-01-01 00:00"),
        ("year", "2024-12-31 23:59:59", "2024-01-01 00:00", "2025-01-01 00:00"),
    ],
)
@pytest.mark.parametrize("zone", [None, "Europe/Berlin", "Asia/Kolkata", "America/New_York"])
def test_windows_of_the_calendar(unit: str, at: str, start: str, end: str, zone: str | None) -> None:
    assert window(unit, at, zone) == (ns(start, zone or "UTC"), ns(end, zone or "UTC"))


@pytest.mark.parametrize(
    ("at", "zone", "hours"),
    [
        ("2024-03-31 12:00", "Europe/Berlin", 23),
        ("2024-10-27 12:00", "Europe/Berlin", 25),
        ("2024-10-26 12:00", "Europe/Berlin", 24),
        ("2024-04-26 12:00", "Africa/Cairo", 23),  # midnight itself is skipped
        ("2024-10-31 12:00", "Africa/Cairo", 25),  # 23:00 to 24:00 comes twice
    ],
)
def test_a_day_in_which_clocks_change_has_23_or_25_hours(at: str, zone: str, hours: int) -> None:
    start_ns, end_ns = window("day", at, zone)
    assert end_ns - start_ns == hours * HOUR


def test_an_hour_that_comes_twice_is_two_windows() -> None:
    first = FixedWindow(1, "hour", "Europe/Berlin").start(ns("2024-10-27 00:30"))
    second = FixedWindow(1, "hour", "Europe/Berlin").start(ns("2024-10-27 01:30"))
    assert first[1] == second[0]


def test_a_date_that_is_seen_again_is_not_counted_again() -> None:
    """St. John's, 2006-10-29: at 00:01 the clocks went back to 23:01 of the day before."""
    day = FixedWindow(1, "day", "America/St_Johns")
    state = day.start(ns("2006-10-29 02:31:30"))
    assert state[0] <= ns("2006-10-29 02:31:30") < state[1]
    assert day.start(state[1])[0] == state[1]


def test_a_month_begins_anew_in_its_own_time_zone() -> None:
    quota = FixedWindow(1, "month", "Europe/Berlin")
    late, new_year = ns("2023-12-31 22:59:59"), ns("2023-12-31 23:00")
    decision, state = quota.take(quota.start(late), late)
    assert decision.allowed
    refusal, state = quota.take(state, late)
    assert (refusal.retry_after_ns, refusal.remaining, refusal.reset_after_ns) == (SECOND, 0, SECOND)
    assert quota.take(state, new_year)[0].allowed


def test_a_booking_may_lie_in_the_next_window_and_counts_there() -> None:
    minute = FixedWindow(2, 60)
    state = minute.start(0)
    state = minute.take(state, 0, 2)[1]
    waiting, state = minute.take(state, 0, 1, None)
    assert waiting.at_ns == 60 * SECOND
    assert minute.take(state, 60 * SECOND)[0].remaining == 0


def test_nothing_is_booked_beyond_the_next_window() -> None:
    minute = FixedWindow(1, 60)
    state = minute.take(minute.start(0), 0)[1]
    state = minute.take(state, 0, 1, None)[1]
    refusal, _ = minute.take(state, 5 * SECOND, 1, None)
    assert refusal.retry_after_ns == 55 * SECOND
    assert minute.take(state, 60 * SECOND, 1, None)[0].at_ns == 120 * SECOND


def test_a_joint_start_beyond_the_next_window_is_refused() -> None:
    minute = FixedWindow(1, 60)
    refusal, _ = minute.take(minute.start(0), 0, 1, None, 500 * SECOND)
    assert not refusal.allowed
    assert refusal.retry_after_ns == 500 * SECOND


def test_a_debt_is_carried_into_the_next_window_only() -> None:
    minute = FixedWindow(4, 60)
    state = minute.charge(minute.start(0), 0, 100)
    assert minute.used(state, 0) == 8
    assert minute.used(state, 60 * SECOND) == 4
    assert minute.used(state, 120 * SECOND) == 0


def test_plans_scale_and_stay_at_least_one() -> None:
    assert FixedWindow(10, "month", "Europe/Berlin").scaled(2.5) == FixedWindow(25, "month", "Europe/Berlin")
    assert FixedWindow(1, "day").scaled(0.1).limit == 1


@pytest.mark.parametrize("period", [60, 60.0, timedelta(minutes=1)])
def test_spellings_of_one_period_are_equal(period: Any) -> None:
    assert FixedWindow(5, period) == FixedWindow(5, 60)
    assert FixedWindow(5, period) != FixedWindow(5, "minute")


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ((0, 60), "limit"),
        ((5, 0), "period"),
        ((5, "fortnight"), "period"),
        ((5, "month", "Europe/Atlantis"), "timezone"),
        ((5, "month", ""), "timezone"),
        ((5, "month", "/etc/localtime"), "timezone"),
        ((5, "month", "Europe"), "timezone"),
        ((5, "month", 5), "timezone"),
        ((5, 60, "Europe/Berlin"), "timezone"),
    ],
)
def test_nonsense_is_refused(arguments: tuple[Any, ...], what: str) -> None:
    with pytest.raises(InvalidLimitError) as error:
        FixedWindow(*arguments)
    assert error.value.what == what


def test_utc_needs_no_data_base_and_others_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(key: str) -> timezone:
        raise KeyError(key)

    monkeypatch.setattr(_calendar, "ZoneInfo", missing)
    monkeypatch.setattr(_calendar, "available_timezones", set)
    assert FixedWindow(5, "month").start(0)[0] == 0
    assert FixedWindow(5, "month", "UTC").start(0)[0] == 0
    with pytest.raises(InvalidLimitError, match="install the package tzdata"):
        FixedWindow(5, "month", "Europe/Berlin")
