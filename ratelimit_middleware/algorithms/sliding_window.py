"""SlidingWindow: at most `limit` permits in *any* period, in bounded memory.

The log of admissions (`_hit_log`) is exact up to 64 entries; then neighbours share an entry, which leaves
when its *last* hit is one period old. So the bound stays hard and permits come back at most a 64th of the
period late. (The usual estimate from two counters lets almost twice the limit through inside one period.)
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta

from ratelimit_middleware.algorithms import _hit_log as hits
from ratelimit_middleware.algorithms._numbers import positive_ns
from ratelimit_middleware.algorithms.base import (
    AdoptMode,
    Algorithm,
    State,
    adopted_use,
    granted,
    positive_int,
    refused,
    scaled_count,
)
from ratelimit_middleware.decision import Decision

__all__ = ["SlidingWindow"]

_SIZE, _pack, _end = hits.SIZE, hits.ENTRY.pack, hits.END.unpack_from
_new = tuple.__new__
"""Past the constructor of `Decision`, which costs as much as the arithmetic before it."""


@dataclass(frozen=True, slots=True)
class SlidingWindow:
    """`limit` permits in any `period`.

    Bound: in any half-open stretch of time as long as the period at most `limit` permits.

    State: `(used, log)`: permits in the log, and its entries packed oldest first. Bookings ahead stand
    in the log too, so the log may reach beyond the present moment.

    Args:
        limit: permits per period, 1 to 10^9.
        period: seconds, or a `timedelta`; above 0.

    Raises:
        InvalidLimitError: a number out of its range.
    """

    limit: int
    period: float | timedelta = field(compare=False)
    period_ns: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse numbers that make no sense."""
        object.__setattr__(self, "limit", positive_int("limit", self.limit, 10**9))
        object.__setattr__(self, "period_ns", positive_ns("period", self.period))

    @property
    def quota(self) -> int:
        """The limit."""
        return self.limit

    @property
    def window_ns(self) -> int:
        """The period."""
        return self.period_ns

    @property
    def smallest_full_take(self) -> int:
        """The limit."""
        return self.limit

    def start(self, now_ns: int) -> State:  # noqa: ARG002 - an empty log knows no time
        """An empty log."""
        return (0, b"")

    def step(self, state: State, now_ns: int) -> State:
        """Drop the entries that are a period old."""
        used, log = state
        gone, permits = hits.gone(log, now_ns - self.period_ns)
        return (used - permits, log[gone:]) if gone else state

    def take(
        self,
        state: State,
        now_ns: int,
        cost: int = 1,
        max_wait_ns: int | None = 0,
        from_ns: int = 0,
        within: int | None = None,
    ) -> tuple[Decision, State]:
        """Book `cost` permits at the first moment the window has room; see `Algorithm.take`.

        `within` is another limit, at most the window's own (a warm-up threshold).
        """
        limit = self.limit if within is None else within
        used, log = state
        period_ns, newest_ns = self.period_ns, 0
        # As `step`, without calls. Who has been away for a period gets a new log at once.
        if log:
            horizon_ns = now_ns - period_ns
            newest_ns = _end(log, len(log) - _SIZE)[0]
            if newest_ns <= horizon_ns:
                used, log = 0, b""
            else:
                gone, (last_ns, permits) = 0, _end(log)
                while last_ns <= horizon_ns:
                    used -= permits
                    gone += _SIZE
                    last_ns, permits = _end(log, gone)
                if gone:
                    log = log[gone:]
        if used + cost > limit or from_ns > now_ns:
            return self._book(limit, (used, log), now_ns, cost, max_wait_ns, from_ns)
        used += cost
        if newest_ns < now_ns and len(log) <= hits.FULL:
            log, newest_ns = log + _pack(now_ns, now_ns, cost), now_ns
        else:
            log, newest_ns = hits.with_hit(log, now_ns, cost, period_ns)
        if used < limit:
            remaining, reset_ns = limit - used, newest_ns + period_ns - now_ns
        else:
            remaining, reset_ns = self._left(limit, (used, log), now_ns)
        return _new(Decision, (True, now_ns, 0, None, self.limit, remaining, reset_ns)), (used, log)

    def _book(
        self, limit: int, state: State, now_ns: int, cost: int, max_wait_ns: int | None, from_ns: int
    ) -> tuple[Decision, State]:
        """`take` where it cannot be now: a booking ahead, or a refusal."""
        if cost > limit:
            return refused(now_ns, None, self.limit, *self._left(limit, state, now_ns)), state
        used, log = state[0] + cost, state[1]
        room_ns = hits.last_of_oldest_ns(log, used - limit) + self.period_ns if used > limit else 0
        at_ns = from_ns if from_ns > now_ns else now_ns
        at_ns = room_ns if room_ns > at_ns else at_ns
        wait_ns = at_ns - now_ns
        if max_wait_ns is not None and wait_ns > max_wait_ns:
            retry_ns = wait_ns - max_wait_ns
            if room_ns and cost == 1:  # it waits for the next permit
                return refused(now_ns, retry_ns, self.limit, 0, room_ns - now_ns), state
            return refused(now_ns, retry_ns, self.limit, *self._left(limit, state, now_ns)), state
        log, _ = hits.with_hit(log, at_ns, cost, self.period_ns)
        return granted(at_ns, now_ns, self.limit, *self._left(limit, (used, log), now_ns)), (used, log)

    def _left(self, limit: int, state: State, now_ns: int) -> tuple[int, int]:
        """Permits left, and the wait for the next one (if none) or for all of them."""
        used, log = state
        if used >= limit:
            return 0, hits.last_of_oldest_ns(log, used + 1 - limit) + self.period_ns - now_ns
        return limit - used, hits.newest_ns(log) + self.period_ns - now_ns if log else 0

    def charge(self, state: State, now_ns: int, cost: int) -> State:
        """Take `cost` permits without asking; the debt ends at one limit beyond the limit."""
        used, log = self.step(state, now_ns)
        cost = min(cost, 2 * self.limit - used)
        return (used + cost, hits.with_hit(log, now_ns, cost, self.period_ns)[0]) if cost > 0 else (used, log)

    def give_back(self, state: State, now_ns: int, cost: int, at_ns: int) -> State:
        """Take a booking out of its entry; nothing if that has left the window."""
        used, log = self.step(state, now_ns)
        back, log = hits.without_hit(log, at_ns, cost)
        return used - back, log

    def without_oldest(self, state: State, permits: int) -> State:
        """Without the oldest `permits` permits of the log (for `RelatedCharge`)."""
        used, log = state
        gone = min(max(0, permits), used)
        return (used - gone, hits.without_oldest(log, gone)) if gone else state

    def peek(self, state: State, now_ns: int, cost: int = 1) -> Decision:
        """What a request would hear now."""
        return self.take(state, now_ns, cost)[0]

    def scaled(self, factor: float) -> SlidingWindow:
        """The limit times `factor`."""
        return replace(self, limit=scaled_count(self.limit, factor))

    def adopt(self, state: State, now_ns: int, old: Algorithm, mode: AdoptMode) -> State:
        """Carry the hits over: as they are (`keep`), or their counts as a share of the limit (`scale`)."""
        if not isinstance(old, SlidingWindow) or mode == "reset":
            return self.holding(adopted_use(self, state, now_ns, old, mode), now_ns)
        if mode == "keep" or self.limit == old.limit:
            return state
        return hits.scaled(state[1], self.limit, old.limit)

    def holding(self, used: int, now_ns: int) -> State:
        """A window in which so many permits were taken now."""
        used = min(used, hits.MAX_PERMITS)
        return (used, _pack(now_ns, now_ns, used)) if used else (0, b"")

    def used(self, state: State, now_ns: int) -> int:
        """Permits in the log that are younger than a period."""
        return int(self.step(state, now_ns)[0])

    def forget_at_ns(self, state: State) -> int:
        """The moment the newest hit is a period old."""
        return hits.newest_ns(state[1]) + self.period_ns if state[1] else 0
