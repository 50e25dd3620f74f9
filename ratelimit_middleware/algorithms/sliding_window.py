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
    positive_int,
    refused,
    scaled_count,
)
from ratelimit_middleware.decision import Decision

__all__ = ["SlidingWindow"]

_ENTRY, _SIZE = hits.ENTRY, hits.SIZE
_entries = _ENTRY.iter_unpack
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
        horizon_ns = now_ns - self.period_ns
        gone = 0
        for _, last_ns, permits in _entries(log):
            if last_ns > horizon_ns:
                break
            used -= permits
            gone += _SIZE
        return (used, log[gone:]) if gone else state

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
        state = used, log = self.step(state, now_ns)
        at_ns = from_ns if from_ns > now_ns else now_ns
        used += cost
        if used > limit:
            if cost > limit:
                return self._refuse(limit, state, now_ns, None), state
            at_ns = max(at_ns, hits.last_of_oldest_ns(log, used - limit) + self.period_ns)
        wait_ns = at_ns - now_ns
        if wait_ns and max_wait_ns is not None and wait_ns > max_wait_ns:
            return self._refuse(limit, state, now_ns, wait_ns - max_wait_ns), state
        log, newest_ns = hits.with_hit(log, at_ns, cost, self.period_ns)
        state = (used, log)
        if used < limit:
            remaining, reset_ns = limit - used, newest_ns + self.period_ns - now_ns
        else:
            remaining, reset_ns = self._left(limit, state, now_ns)
        return _new(Decision, (True, at_ns, wait_ns, None, self.limit, remaining, reset_ns)), state

    def _refuse(self, limit: int, state: State, now_ns: int, retry_after_ns: int | None) -> Decision:
        remaining, reset_ns = self._left(limit, state, now_ns)
        return refused(now_ns, retry_after_ns, self.limit, remaining, reset_ns)

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
        return (used, _ENTRY.pack(now_ns, now_ns, used)) if used else (0, b"")

    def used(self, state: State, now_ns: int) -> int:
        """Permits in the log that are younger than a period."""
        used: int = self.step(state, now_ns)[0]
        return used

    def forget_at_ns(self, state: State) -> int:
        """The moment the newest hit is a period old."""
        log = state[1]
        return hits.newest_ns(log) + self.period_ns if log else 0
