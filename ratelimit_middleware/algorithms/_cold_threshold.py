"""What WarmUp lets through: the threshold of a calendar second, on the recent passes.

Source: `WarmUpController` and `StatisticNode` of alibaba/Sentinel (1.8.9 line, Apache-2.0), described in
our own words.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ratelimit_middleware.algorithms import _recent_passes as recent
from ratelimit_middleware.algorithms._cold_bucket import MS_NS, ColdBucket, Core
from ratelimit_middleware.algorithms.base import State
from ratelimit_middleware.clock import NS_PER_SECOND

__all__ = ["ColdThreshold"]


@dataclass(frozen=True, slots=True)
class ColdThreshold(ColdBucket):
    """The threshold, and the moments at which it has room; `WarmUp` describes the state."""

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

    def advanced(self, state: State, at_ns: int) -> State:
        """The state as of `at_ns`; itself if that is before its latest half second."""
        half, last_filled_ms = at_ns // recent.HALF_NS, state[1]
        if half < state[2] or (half == state[2] and at_ns // NS_PER_SECOND * 1000 <= last_filled_ms):
            return state
        passes = recent.shifted(state[2:], half)
        core = self.synchronised(state[:2], at_ns // MS_NS, recent.second_before(passes))
        return (*core, *passes)

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
