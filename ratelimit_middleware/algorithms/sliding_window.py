"""SlidingWindow: at most `limit` permits in *any* period, in bounded memory.

The log of admissions is exact up to 64 entries. When a 65th comes, neighbours that lie within a 64th of
the period of the first of their group are merged into one entry, which leaves when its *last* hit is one
period old. So the bound stays hard and permits come back at most a 64th of the period late. (The usual
estimate from two counters lets almost twice the limit through inside one period.)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from struct import Struct
from typing import TypeAlias

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
from ratelimit_middleware.clock import to_ns
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.errors import InvalidLimitError

__all__ = ["SlidingWindow"]

_Entry: TypeAlias = tuple[int, int, int]

_EXACT_ENTRIES = 64
_ENTRY = Struct("<qqI")  # first hit (ns), last hit (ns), permits
_FIRST = Struct("<q")
_SIZE = _ENTRY.size
_MAX_PERMITS = 2**32 - 1


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
        object.__setattr__(self, "period_ns", to_ns(self.period, "period"))
        if not self.period_ns:
            raise InvalidLimitError("period", self.period, "a number of seconds above 0")

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
        while gone < len(log):
            _, last_ns, permits = _ENTRY.unpack_from(log, gone)
            if last_ns > horizon_ns:
                break
            used -= permits
            gone += _SIZE
        return (used, log[gone:]) if gone else state

    def take(
        self, state: State, now_ns: int, cost: int = 1, max_wait_ns: int | None = 0, from_ns: int = 0
    ) -> tuple[Decision, State]:
        """Book `cost` permits at the first moment the window has room; see `Algorithm.take`."""
        return self.take_within(self.limit, state, now_ns, cost, max_wait_ns, from_ns)

    def take_within(
        self, limit: int, state: State, now_ns: int, cost: int, max_wait_ns: int | None, from_ns: int
    ) -> tuple[Decision, State]:
        """`take` under another limit, at most the window's own (a warm-up threshold)."""
        state = self.step(state, now_ns)
        used, log = state
        at_ns = from_ns if from_ns > now_ns else now_ns
        excess = used + cost - limit
        if cost > limit:
            return self._refuse(limit, state, now_ns, None), state
        if excess > 0:
            at_ns = max(at_ns, self._free_at_ns(log, excess))
        wait_ns = at_ns - now_ns
        if max_wait_ns is not None and wait_ns > max_wait_ns:
            return self._refuse(limit, state, now_ns, wait_ns - max_wait_ns), state
        new = (used + cost, self._with(log, at_ns, cost))
        remaining, reset_ns = self._left(limit, new, now_ns)
        return granted(at_ns, now_ns, self.limit, remaining, reset_ns), new

    def _refuse(self, limit: int, state: State, now_ns: int, retry_after_ns: int | None) -> Decision:
        remaining, reset_ns = self._left(limit, state, now_ns)
        return refused(now_ns, retry_after_ns, self.limit, remaining, reset_ns)

    def _left(self, limit: int, state: State, now_ns: int) -> tuple[int, int]:
        """Permits left, and the wait for the next one (if none) or for all of them."""
        used, log = state
        if used >= limit:
            return 0, self._free_at_ns(log, used + 1 - limit) - now_ns
        if not log:
            return limit, 0
        newest_ns = _ENTRY.unpack_from(log, len(log) - _SIZE)[1]
        return limit - used, newest_ns + self.period_ns - now_ns

    def _free_at_ns(self, log: bytes, permits: int) -> int:
        """The moment at which the oldest `permits` permits have come back."""
        at_ns = 0
        for _, last_ns, count in _ENTRY.iter_unpack(log):
            at_ns = last_ns
            permits -= count
            if permits <= 0:
                break
        return at_ns + self.period_ns

    def _with(self, log: bytes, at_ns: int, cost: int) -> bytes:
        """The log with `cost` permits booked for `at_ns`."""
        if not log:
            return _ENTRY.pack(at_ns, at_ns, cost)
        tail = len(log) - _SIZE
        first_ns, last_ns, count = _ENTRY.unpack_from(log, tail)
        if at_ns < last_ns:
            return self._packed(_inserted(list(_ENTRY.iter_unpack(log)), at_ns, cost))
        same = at_ns == last_ns
        if (same or self._may_join(log, tail, first_ns, at_ns)) and count + cost <= _MAX_PERMITS:
            return log[:tail] + _ENTRY.pack(first_ns, at_ns, count + cost)
        log += _ENTRY.pack(at_ns, at_ns, cost)
        if len(log) <= _EXACT_ENTRIES * _SIZE:
            return log
        return self._packed(_ENTRY.iter_unpack(log))

    def _may_join(self, log: bytes, tail: int, first_ns: int, at_ns: int) -> bool:
        """Whether a full log may take the hit into its last group without a pass over all of them.

        Groups start more than one grain apart after a pass, which is what bounds their number. Joining
        keeps that true only if the last group already starts a grain after the one before it.
        """
        grain_ns = self._grain_ns
        if tail < (_EXACT_ENTRIES - 1) * _SIZE or at_ns - first_ns > grain_ns:
            return False
        before_ns: int = _FIRST.unpack_from(log, tail - _SIZE)[0]
        return first_ns - before_ns > grain_ns

    @property
    def _grain_ns(self) -> int:
        return ceil_div(self.period_ns, _EXACT_ENTRIES)

    def _packed(self, entries: Iterable[_Entry]) -> bytes:
        """Entries packed, merged if they are more than 64.

        A pass leaves at most 65 in one period. Bookings far ahead stretch the log over more than that:
        then the grain grows, which only makes the window stricter.
        """
        log, grain_ns = list(entries), self._grain_ns
        if len(log) > _EXACT_ENTRIES:
            log = _merged(log, grain_ns)
        while len(log) > _EXACT_ENTRIES + 1:
            grain_ns *= 2
            log = _merged(log, grain_ns)
        return b"".join([_ENTRY.pack(*entry) for entry in log])

    def charge(self, state: State, now_ns: int, cost: int) -> State:
        """Take `cost` permits without asking; the debt ends at one limit beyond the limit."""
        used, log = self.step(state, now_ns)
        cost = min(cost, 2 * self.limit - used)
        return (used + cost, self._with(log, now_ns, cost)) if cost > 0 else (used, log)

    def give_back(self, state: State, now_ns: int, cost: int, at_ns: int) -> State:
        """Take a booking out of its entry; nothing if that has left the window."""
        used, log = self.step(state, now_ns)
        for place, (first_ns, last_ns, count) in enumerate(_ENTRY.iter_unpack(log)):
            if first_ns <= at_ns <= last_ns:
                back = min(cost, count)
                rest = _ENTRY.pack(first_ns, last_ns, count - back) if back < count else b""
                start = place * _SIZE
                return used - back, log[:start] + rest + log[start + _SIZE :]
        return used, log

    def peek(self, state: State, now_ns: int, cost: int = 1) -> Decision:
        """What a request would hear now."""
        return self.take(state, now_ns, cost)[0]

    def scaled(self, factor: float) -> SlidingWindow:
        """The limit times `factor`."""
        return replace(self, limit=scaled_count(self.limit, factor))

    def adopt(self, state: State, now_ns: int, old: Algorithm, mode: AdoptMode) -> State:
        """Carry the hits over: as they are (`keep`), or their counts as a share of the limit (`scale`)."""
        if not isinstance(old, SlidingWindow) or mode == "reset":
            used = min(adopted_use(self, state, now_ns, old, mode), _MAX_PERMITS)
            return (used, _ENTRY.pack(now_ns, now_ns, used)) if used else (0, b"")
        if mode == "keep" or self.limit == old.limit:
            return state
        log = _scaled(list(_ENTRY.iter_unpack(state[1])), self.limit, old.limit)
        return sum(entry[2] for entry in log), b"".join([_ENTRY.pack(*entry) for entry in log])

    def used(self, state: State, now_ns: int) -> int:
        """Permits in the log that are younger than a period."""
        used: int = self.step(state, now_ns)[0]
        return used

    def forget_at_ns(self, state: State) -> int:
        """The moment the newest hit is a period old."""
        log = state[1]
        return int(_ENTRY.unpack_from(log, len(log) - _SIZE)[1]) + self.period_ns if log else 0


def _inserted(log: list[_Entry], at_ns: int, cost: int) -> list[_Entry]:
    """The log with a hit that lies before its end (others are booked ahead)."""
    for place, (first_ns, last_ns, count) in enumerate(log):
        if at_ns < first_ns or count + cost > _MAX_PERMITS:
            return [*log[:place], (at_ns, at_ns, cost), *log[place:]]
        if at_ns <= last_ns:
            return [*log[:place], (first_ns, last_ns, count + cost), *log[place + 1 :]]
    return [*log, (at_ns, at_ns, cost)]


def _merged(log: list[_Entry], grain_ns: int) -> list[_Entry]:
    """Neighbours merged, oldest first, while their last hit lies within a grain of the group's first."""
    merged = [log[0]]
    for first_ns, last_ns, count in log[1:]:
        group_ns, _, permits = merged[-1]
        if last_ns - group_ns <= grain_ns and permits + count <= _MAX_PERMITS:
            merged[-1] = (group_ns, last_ns, permits + count)
        else:
            merged.append((first_ns, last_ns, count))
    return merged


def _scaled(log: list[_Entry], limit: int, old_limit: int) -> list[_Entry]:
    """Counts scaled so that the newest k hits together are rounded up once: there and back never mints."""
    scaled: list[_Entry] = []
    seen = given = 0
    for first_ns, last_ns, count in reversed(log):
        seen += count
        permits = ceil_div(seen * limit, old_limit) - given
        given += permits
        if permits:
            scaled.append((first_ns, last_ns, permits))
    return scaled[::-1]
