"""WarmUp: Sentinel's warm-up controller, in its own arithmetic.

Source: `WarmUpController` and `StatisticNode` of alibaba/Sentinel (1.8.9 line, Apache-2.0), described
in our own words. A bucket holds *cold*: it is full at the start and when idle, every pass takes one
token out, and the more tokens stand above the warning line, the longer the interval between permits:
from `cold_factor / count` seconds (full) down to `1 / count` (at the line). It is looked at once a
calendar second. Where the original never admits, never cools or lets twice its count through, this
class does not follow; docs/deviations.md has the table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ratelimit_middleware.algorithms import _recent_passes as recent
from ratelimit_middleware.algorithms._cold_bucket import MS_NS, ColdBucket, Core
from ratelimit_middleware.algorithms.base import (
    AdoptMode,
    Algorithm,
    State,
    adopted_use,
    ceil_div,
    granted,
    refused,
)
from ratelimit_middleware.clock import NS_PER_SECOND
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.errors import InvalidLimitError

__all__ = ["Core", "WarmUp"]


@dataclass(frozen=True, slots=True)
class WarmUp(ColdBucket):
    """`count` permits a second when warm, `count / cold_factor` when cold, as in Sentinel.

    Bound: at most `count` permits (rounded down) in any second; below one a second, one permit in any
    `1 / count` seconds. Sentinel's own two half-second counters alone would let `count` through twice
    within 501 ms. At least one permit a second is to be had however cold the bucket is, so every count
    above 0 is reached. A threshold holds for a calendar second; all its permits may go at once.

    State: `(stored_tokens, last_filled_ms, ...)`, followed by the recent passes (`_recent_passes`). A
    moment before the latest booking is decided by the log of the whole window under the threshold of
    that booking.

    Args:
        count: permits per second, fractions allowed, 0 to 10^9; 0 refuses everything.
        warm_up_period: seconds, or a `timedelta`; above 0.
        cold_factor: how much slower a cold bucket is; above 1, fractions allowed, at most 10^6.

    Raises:
        InvalidLimitError: a number out of its range.
    """

    @property
    def quota(self) -> int:
        """The count in whole permits, at least 1 (0 for count 0)."""
        return int(self.count) if self.count >= 1 else math.ceil(self.count)

    @property
    def window_ns(self) -> int:
        """A second; below one permit a second, the time of one permit."""
        return math.ceil(NS_PER_SECOND / self.count) if 0 < self.count < 1 else NS_PER_SECOND

    @property
    def smallest_full_take(self) -> int:
        """What a cold bucket lets through at once."""
        return self.permits(self.max_token)

    def permits(self, stored_tokens: int) -> int:
        """The threshold with this many tokens in the bucket, in whole permits a second."""
        return min(self.quota, max(1, int(self.rate(stored_tokens))))

    def decide(
        self, core: Core, now_ms: int, cost: int, passed: float, passed_before: float
    ) -> tuple[bool, Core]:
        """Sentinel's own decision, on statistics that somebody else has counted.

        Args:
            core: tokens and the second they were last counted in.
            now_ms: the present moment, milliseconds since the epoch.
            cost: permits wanted.
            passed: passes per second as of now.
            passed_before: passes in the calendar second before.

        Returns:
            Whether it passes, and the core to keep, pass or refuse alike.
        """
        core = self.synchronised(core, now_ms, int(passed_before))
        return int(passed) + cost <= self.permits(core[0]), core

    def start(self, now_ns: int) -> State:
        """A full, cold bucket, whatever the clock says; its first call counts tokens."""
        return (*self.cold_core(now_ns), *recent.empty(now_ns))

    def step(self, state: State, now_ns: int) -> State:
        """Count tokens if a new second began; forget passes that have left the window."""
        state = self.advanced(state, now_ns)
        return (*state[:2], *recent.pruned(state[2:], now_ns - self.window_ns))

    def advanced(self, state: State, at_ns: int) -> State:
        """The state as of `at_ns`; itself if that is before its latest half second."""
        half, last_filled_ms = at_ns // recent.HALF_NS, state[1]
        if half < state[2] or (half == state[2] and at_ns // NS_PER_SECOND * 1000 <= last_filled_ms):
            return state
        passes = recent.shifted(state[2:], half)
        core = self.synchronised(state[:2], at_ns // MS_NS, recent.second_before(passes))
        return (*core, *passes)

    def take(
        self, state: State, now_ns: int, cost: int = 1, max_wait_ns: int | None = 0, from_ns: int = 0
    ) -> tuple[Decision, State]:
        """Book `cost` permits at the first moment they are to be had; see `Algorithm.take`.

        `retry_after_ns` is None for a cost that this bucket, left alone, never lets through: a cold one
        admits `count / cold_factor` at once, and only the traffic of others warms it up.
        """
        state = self.step(state, now_ns)
        at_ns = self._first_ns(state, max(now_ns, from_ns), cost)
        if at_ns is None or (max_wait_ns is not None and at_ns - now_ns > max_wait_ns):
            remaining, reset_ns = self._left(
                state, now_ns, at_ns if cost == 1 and from_ns <= now_ns else None
            )
            retry_ns = None if at_ns is None else at_ns - now_ns - (max_wait_ns or 0)
            return refused(now_ns, retry_ns, self.quota, remaining, reset_ns), state
        state = self._booked(state, at_ns, cost)
        remaining, reset_ns = self._left(state, now_ns)
        return granted(at_ns, now_ns, self.quota, remaining, reset_ns), state

    def _booked(self, state: State, at_ns: int, cost: int) -> State:
        state = self.advanced(state, at_ns)
        return (*state[:2], *recent.booked(state[2:], at_ns, cost))

    def _first_ns(self, state: State, from_ns: int, cost: int) -> int | None:
        """The first moment from `from_ns` on at which `cost` permits are to be had if nobody comes.

        Two half seconds later the counters are empty, the log has room and the tokens of this second's
        passes are out of the bucket. From then on it only cools, so later moments need no look.
        """
        if cost > self.quota:
            return None
        latest, half = state[2], from_ns // recent.HALF_NS
        if half < latest:
            at_ns = max(from_ns, self._room_ns(state, cost, self.permits(state[0])))
            if at_ns // recent.HALF_NS < latest and cost <= self.permits(state[0]):
                return at_ns
            half = latest
        room_ns = self._room_ns(state, cost, self.quota)
        for ahead in (half, half + 1, half + 2):
            at_ns = max(from_ns, ahead * recent.HALF_NS, room_ns)
            in_time = at_ns // recent.HALF_NS == ahead or ahead == half + 2
            if in_time and self._passes(self.advanced(state, at_ns), at_ns, cost):
                return at_ns
        return None

    def _room_ns(self, state: State, cost: int, limit: int) -> int:
        return recent.room_at_ns(state[2:], state[7] + cost - limit, self.window_ns)

    def _passes(self, state: State, at_ns: int, cost: int) -> bool:
        passes = state[2:]
        before = recent.second_before(passes)
        return self.decide(state[:2], at_ns // MS_NS, cost, passes[1] + passes[2], before)[0]

    def _left(self, state: State, now_ns: int, next_ns: int | None = None) -> tuple[int, int]:
        """Permits left, and the wait for the next one (if none; `next_ns` if known) or for all of them."""
        permits, (half, here, before, _, _, in_log, log) = self.permits(state[0]), state[2:]
        left = min(permits - here - before, self.quota - in_log)
        if now_ns // recent.HALF_NS < half:
            left = permits - in_log
        if left > 0:
            return left, log[-2] + self.window_ns - now_ns if log else 0
        next_ns = next_ns or self._first_ns(state, now_ns, 1)
        return 0, self.window_ns if next_ns is None else next_ns - now_ns

    def charge(self, state: State, now_ns: int, cost: int) -> State:
        """Take `cost` permits without asking; the debt ends at one count beyond the count."""
        state = self.step(state, now_ns)
        cost = min(cost, 2 * self.quota - state[7])
        return self._booked(state, now_ns, cost) if cost > 0 else state

    def give_back(self, state: State, now_ns: int, cost: int, at_ns: int) -> State:
        """Take a booking out of the log and of the half seconds that still hold it.

        Tokens that it has already taken out of the bucket stay out.
        """
        state = self.step(state, now_ns)
        return (*state[:2], *recent.unbooked(state[2:], at_ns, cost))

    def peek(self, state: State, now_ns: int, cost: int = 1) -> Decision:
        """What a request would hear now."""
        return self.take(state, now_ns, cost)[0]

    def scaled(self, factor: float) -> WarmUp:
        """The count times `factor`; it may become a fraction, the quota is at least 1."""
        if not 0 < factor < 1e9:
            raise InvalidLimitError("factor", factor, "a finite number above 0")
        return replace(self, count=self.count * factor)

    def adopt(self, state: State, now_ns: int, old: Algorithm, mode: AdoptMode) -> State:
        """Carry over how cold the bucket is (as a share, rounded to colder) and the passes."""
        if not isinstance(old, WarmUp) or mode == "reset":
            used = adopted_use(self, state, now_ns, old, mode)
            fresh = self.start(now_ns)
            return self._booked(fresh, now_ns, used) if used else fresh
        state = old.advanced(state, now_ns)
        stored, passes = self.stored_from(old, state[0]), state[2:]
        if mode == "scale" and self.quota != old.quota:
            passes = recent.scaled(passes, self.quota, max(1, old.quota))
        return (stored, state[1], *passes)

    def used(self, state: State, now_ns: int) -> int:
        """Permits in the log that are younger than the window."""
        return recent.pruned(state[2:], now_ns - self.window_ns)[5]

    def forget_at_ns(self, state: State) -> int:
        """The moment the window is empty and, left alone, the bucket is full again."""
        stored, last_filled_ms, half, here, before, _, _, _, log = state
        missing = self.max_token - stored + here + before
        if not missing or not self.count:
            return log[-2] + self.window_ns if log else 0
        refill_ms = last_filled_ms + math.ceil(missing * 1000 / self.count)
        cold_s: int = max(ceil_div(refill_ms, 1000), half // 2 + 2)
        return max(cold_s * NS_PER_SECOND, log[-2] + self.window_ns if log else 0)
