"""FixedWindow: at most `limit` permits in each window of a fixed grid, such as a calendar month.

The right thing for quotas that are sold or billed by the calendar. For everything else `SlidingWindow`
keeps the harder bound: here a client may take one window's permits at its end and the next one's at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta

from ratelimit_middleware.algorithms._calendar import CalendarUnit, Grid, grid_of
from ratelimit_middleware.algorithms.base import (
    AdoptMode,
    Algorithm,
    State,
    adopted_use,
    ceil_div,
    granted,
    positive_int,
    refused,
    scaled_count,
)
from ratelimit_middleware.decision import Decision

__all__ = ["CalendarUnit", "FixedWindow"]


@dataclass(frozen=True, slots=True)
class FixedWindow:
    """`limit` permits in each window.

    Bound: at most `limit` permits in each window of the grid; so up to twice the limit in a stretch of
    time as long as a window.

    Bookings ahead go into the present window or the next one, never further: whoever would have to wait
    longer is refused until the window before its own has begun. A debt (`charge`) is carried into the
    next window, one limit at most.

    State: `(start_ns, end_ns, used, booked)`: the window, the permits taken in it and those booked in
    the next one. At a moment before `start_ns` nothing is to be had until then.

    Args:
        limit: permits per window, 1 to 10^9.
        period: seconds or a `timedelta`, above 0: windows are counted from 1970-01-01 00:00 UTC. Or
            `minute`, `hour`, `day`, `week` (from Monday), `month`, `year`: windows of the calendar.
        timezone: whose calendar (a name such as `Europe/Berlin`); None = UTC.

    Raises:
        InvalidLimitError: a number out of its range, an unknown unit or time zone, a time zone for
            windows that are not of the calendar.
    """

    limit: int
    period: float | timedelta | CalendarUnit = field(compare=False)
    timezone: str | None = None
    grid: Grid = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse numbers that make no sense."""
        object.__setattr__(self, "limit", positive_int("limit", self.limit, 10**9))
        object.__setattr__(self, "grid", grid_of(self.period, self.timezone))

    @property
    def quota(self) -> int:
        """The limit."""
        return self.limit

    @property
    def period_ns(self) -> int:
        """The window; the longest, where the calendar's vary."""
        return self.grid.longest_ns

    window_ns = period_ns

    @property
    def unit(self) -> CalendarUnit | None:
        """The unit of the calendar that a window is, if it is one."""
        return self.grid.unit

    @property
    def smallest_full_take(self) -> int:
        """The limit."""
        return self.limit

    def start(self, now_ns: int) -> State:
        """Nothing taken in the window around `now_ns`."""
        return (*self.grid.around(now_ns), 0, 0)

    def step(self, state: State, now_ns: int) -> State:
        """Go on to the window around `now_ns`, with what was booked in it and the debt of the one before."""
        _, end_ns, used, booked = state
        if now_ns < end_ns:
            return state
        window = self.grid.around(now_ns)
        following = self.grid.around(end_ns)
        carried = booked + self._debt(used)
        if now_ns < following[1]:
            return (*window, carried, 0)
        return (*window, self._debt(carried) if now_ns < self.grid.around(following[1])[1] else 0, 0)

    def _debt(self, used: int) -> int:
        """What a window hands on to the next."""
        return min(max(0, used - self.limit), self.limit)

    def take(
        self, state: State, now_ns: int, cost: int = 1, max_wait_ns: int | None = 0, from_ns: int = 0
    ) -> tuple[Decision, State]:
        """Book `cost` permits in the present window or the next one; see `Algorithm.take`."""
        state = self.step(state, now_ns)
        start_ns, end_ns, used, booked = state
        asked_ns = max(now_ns, from_ns, start_ns)
        if cost > self.limit:
            return self._refuse(state, now_ns, None), state
        at_ns, opens_ns = self._room(state, asked_ns, cost)
        due_ns = opens_ns if max_wait_ns is None else max(opens_ns, at_ns - max_wait_ns)
        if due_ns > now_ns:
            return self._refuse(state, now_ns, due_ns - now_ns), state
        new = (start_ns, end_ns, used + cost, booked)
        if at_ns >= end_ns:
            new = (start_ns, end_ns, used, booked + cost)
        remaining, reset_ns = self._left(new, now_ns)
        return granted(at_ns, now_ns, self.limit, remaining, reset_ns), new

    def _room(self, state: State, asked_ns: int, cost: int) -> tuple[int, int]:
        """The first moment from `asked_ns` on that has room, and the one from which it may be booked.

        A window may be booked when the one before has begun. Where only `asked_ns` lies beyond the next
        window, it may be booked when it comes.
        """
        start_ns, end_ns, used, booked = state
        if asked_ns >= end_ns and asked_ns >= self.grid.around(end_ns)[1]:
            return asked_ns, asked_ns
        opens_ns = 0
        while asked_ns >= end_ns or used + cost > self.limit:
            opens_ns = start_ns
            start_ns, end_ns = self.grid.around(end_ns)
            used, booked = booked + self._debt(used), 0
            asked_ns = max(asked_ns, start_ns)
        return asked_ns, opens_ns

    def _refuse(self, state: State, now_ns: int, retry_after_ns: int | None) -> Decision:
        remaining, reset_ns = self._left(state, now_ns)
        return refused(now_ns, retry_after_ns, self.limit, remaining, reset_ns)

    def _left(self, state: State, now_ns: int) -> tuple[int, int]:
        """Permits left in the window, and the wait for the next one (if none) or for all of them."""
        start_ns, end_ns, used, booked = state
        if used >= self.limit or now_ns < start_ns:
            return 0, self._room(state, max(now_ns, start_ns), 1)[0] - now_ns
        return self.limit - used, (self.grid.around(end_ns)[1] if booked else end_ns) - now_ns

    def charge(self, state: State, now_ns: int, cost: int) -> State:
        """Take `cost` permits without asking; the debt ends at one limit beyond the limit."""
        start_ns, end_ns, used, booked = self.step(state, now_ns)
        return (start_ns, end_ns, max(used, min(used + cost, 2 * self.limit - booked)), booked)

    def give_back(self, state: State, now_ns: int, cost: int, at_ns: int) -> State:
        """Take a booking out of its window; nothing if that is over."""
        start_ns, end_ns, used, booked = self.step(state, now_ns)
        if start_ns <= at_ns < end_ns:
            return (start_ns, end_ns, max(0, used - cost), booked)
        if end_ns <= at_ns < self.grid.around(end_ns)[1]:
            return (start_ns, end_ns, used, max(0, booked - cost))
        return (start_ns, end_ns, used, booked)

    def peek(self, state: State, now_ns: int, cost: int = 1) -> Decision:
        """What a request would hear now."""
        return self.take(state, now_ns, cost)[0]

    def scaled(self, factor: float) -> FixedWindow:
        """The limit times `factor`."""
        return replace(self, limit=scaled_count(self.limit, factor))

    def adopt(self, state: State, now_ns: int, old: Algorithm, mode: AdoptMode) -> State:
        """Carry over what was taken, as it is (`keep`) or as a share of the limit (`scale`).

        Under another calendar, what is booked ahead may fall in either window: it counts in both.
        """
        if not isinstance(old, FixedWindow) or mode == "reset":
            return (*self.grid.around(now_ns), adopted_use(self, state, now_ns, old, mode), 0)
        start_ns, end_ns, used, booked = old.step(state, now_ns)
        if mode == "scale":
            used, booked = (ceil_div(count * self.limit, old.limit) for count in (used, booked))
        if self.grid == old.grid:
            return (start_ns, end_ns, used, booked)
        return (*self.grid.around(max(now_ns, start_ns)), used + booked, booked)

    def used(self, state: State, now_ns: int) -> int:
        """Permits taken in this window, and those booked in the next."""
        _, _, used, booked = self.step(state, now_ns)
        return int(used + booked)

    def forget_at_ns(self, state: State) -> int:
        """The end of the window; of the next one too, if something is booked there or owed."""
        _, end_ns, used, booked = state
        while booked or used > self.limit:
            used, booked = booked + self._debt(used), 0
            end_ns = self.grid.around(end_ns)[1]
        return int(end_ns)
