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
from ratelimit_middleware.algorithms._cold_bucket import Core
from ratelimit_middleware.algorithms._cold_threshold import ColdThreshold
from ratelimit_middleware.algorithms._numbers import factor_above_zero
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

__all__ = ["Core", "WarmUp"]


@dataclass(frozen=True, slots=True)
class WarmUp(ColdThreshold):
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

    def start(self, now_ns: int) -> State:
        """A full, cold bucket, whatever the clock says; its first call counts tokens."""
        return (*self.cold_core(now_ns), *recent.empty(now_ns))

    def step(self, state: State, now_ns: int) -> State:
        """Count tokens if a new second began; forget passes that have left the window."""
        state = self.advanced(state, now_ns)
        return (*state[:2], *recent.pruned(state[2:], now_ns - self.window_ns))

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
        return replace(self, count=self.count * factor_above_zero(factor))

    def adopt(self, state: State, now_ns: int, old: Algorithm, mode: AdoptMode) -> State:
        """Carry over how cold the bucket is (as a share, rounded to colder) and the passes."""
        if not isinstance(old, WarmUp) or mode == "reset":
            used = adopted_use(self, state, now_ns, old, mode)
            fresh = self.start(now_ns)
            return self._booked(fresh, now_ns, used) if used else fresh
        state = old.advanced(state, now_ns)
        stored, passes = self.stored_from(old, state[0]), state[2:]
        if mode == "scale" and self.quota != old.quota and self.quota and old.quota:
            passes = recent.scaled(passes, self.quota, old.quota)
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
