"""Calendar windows: the hour, day, week, month or year around a moment, in a time zone.

Days begin with the first moment of their date, so a day in which clocks change has 23 or 25 hours. Weeks
begin on Monday (ISO 8601).
"""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone, tzinfo
from typing import Literal, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo, available_timezones

from ratelimit_middleware.algorithms._numbers import positive_ns
from ratelimit_middleware.clock import NS_PER_SECOND
from ratelimit_middleware.errors import InvalidLimitError

__all__ = ["CalendarUnit", "Grid", "grid_of"]

CalendarUnit: TypeAlias = Literal["minute", "hour", "day", "week", "month", "year"]

_MINUTE_NS = 60 * NS_PER_SECOND
_DAY_NS = 1440 * _MINUTE_NS
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

_LONGEST_NS: dict[CalendarUnit, int] = {
    "minute": _MINUTE_NS,
    "hour": 60 * _MINUTE_NS,
    "day": _DAY_NS,
    "week": 7 * _DAY_NS,
    "month": 31 * _DAY_NS,
    "year": 366 * _DAY_NS,
}
"""The length of each unit; the longest, where it varies (changes of clocks left out)."""


def _time_zone(name: str | None) -> tzinfo:
    """The zone of this name in the time zone data base; UTC for None.

    Raises:
        InvalidLimitError: there is no such zone, or no data base on this machine.
    """
    if name is None or name == "UTC":
        return timezone.utc
    try:
        return ZoneInfo(name)
    except Exception:  # noqa: BLE001 - KeyError, ValueError, OSError or TypeError, by the shape of the name
        expected = "a name of the time zone data base, such as 'Europe/Berlin'"
    if not available_timezones():
        expected += "; there is no data base on this machine: install the package tzdata"
    raise InvalidLimitError("timezone", name, expected)


class Grid(NamedTuple):
    """Windows that follow each other without a gap, each a period long.

    Attributes:
        longest_ns: the length of a window; of the longest, where it varies.
        unit: the unit of the calendar that a window is; None: windows are counted from 1970-01-01 00:00 UTC.
        zone: whose calendar.
    """

    longest_ns: int
    unit: CalendarUnit | None
    zone: tzinfo

    def around(self, at_ns: int) -> tuple[int, int]:
        """The first moment of the window in which `at_ns` lies, and the first moment after it; ns."""
        if self.unit is not None:
            return _calendar_window(self.unit, self.zone, at_ns)
        start_ns = at_ns - at_ns % self.longest_ns
        return start_ns, start_ns + self.longest_ns


def grid_of(period: float | timedelta | CalendarUnit, timezone_name: str | None) -> Grid:
    """The grid of a period.

    Raises:
        InvalidLimitError: no length above 0, an unknown unit or zone, a zone without a unit.
    """
    zone = _time_zone(timezone_name)
    if isinstance(period, str):
        if period not in _LONGEST_NS:
            raise InvalidLimitError("period", period, f"seconds, or one of {', '.join(_LONGEST_NS)}")
        return Grid(_LONGEST_NS[period], period, zone)
    if timezone_name is not None:
        raise InvalidLimitError("timezone", timezone_name, f"a single {', '.join(_LONGEST_NS)} as period")
    return Grid(positive_ns("period", period), None, zone)


def _calendar_window(unit: CalendarUnit, zone: tzinfo, at_ns: int) -> tuple[int, int]:
    local = (_EPOCH + timedelta(seconds=at_ns // NS_PER_SECOND)).astimezone(zone)
    if unit in ("minute", "hour"):
        offset_ns = (local.utcoffset() or timedelta()) // timedelta(microseconds=1) * 1000
        start_ns = at_ns - (at_ns + offset_ns) % _LONGEST_NS[unit]
        return start_ns, start_ns + _LONGEST_NS[unit]
    first = _first_day(unit, local.date())
    start_ns, end_ns = _midnight_ns(first, zone), _midnight_ns(_after(unit, first), zone)
    if end_ns <= at_ns:  # clocks went back over midnight: the date before was seen again
        return end_ns, _midnight_ns(_after(unit, _after(unit, first)), zone)
    return start_ns, end_ns


def _first_day(unit: CalendarUnit, day: date) -> date:
    """The first day of the unit that holds `day`."""
    if unit == "week":
        return day - timedelta(days=day.weekday())
    if unit == "month":
        return day.replace(day=1)
    return day.replace(month=1, day=1) if unit == "year" else day


def _after(unit: CalendarUnit, first: date) -> date:
    """The first day of the next unit."""
    if unit == "month":
        return (first + timedelta(days=31)).replace(day=1)
    if unit == "year":
        return first.replace(year=first.year + 1)
    return first + timedelta(days=7 if unit == "week" else 1)


def _midnight_ns(day: date, zone: tzinfo) -> int:
    """The first moment of a date; where midnight is skipped, the moment at which clocks jump over it."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
    return (midnight - _EPOCH) // timedelta(microseconds=1) * 1000
