"""What WarmUpPacing asks of a request: how long after the one before it may start, by how cold it is.

Source: `WarmUpRateLimiterController` of alibaba/Sentinel (1.8.9 line, Apache-2.0), described in our own
words.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from fractions import Fraction

from ratelimit_middleware.algorithms import _slots as slots
from ratelimit_middleware.algorithms._cold_bucket import MS_NS, ColdBucket, Core
from ratelimit_middleware.algorithms._queue import KEPT_NS, round_half_up
from ratelimit_middleware.algorithms.base import State, ceil_div
from ratelimit_middleware.clock import NS_PER_SECOND, to_ns

__all__ = ["ColdPrices"]


@dataclass(frozen=True, slots=True)
class ColdPrices(ColdBucket):
    """The prices, and the bucket from second to second; `WarmUpPacing` describes the state."""

    max_queueing_time: float | timedelta = field(default=0.5, compare=False)
    whole_ms: bool = False
    max_queueing_ns: int = field(init=False, repr=False)
    interval_ns: int = field(init=False, repr=False, compare=False)
    _coldest_ns: int = field(init=False, repr=False, compare=False)
    _warm_ns: int = field(init=False, repr=False, compare=False)
    _divisor: int = field(init=False, repr=False, compare=False)
    _extra: tuple[int, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse numbers that make no sense; bring the prices to whole numbers."""
        ColdBucket.__post_init__(self)
        count, count_of = float(self.count).as_integer_ratio()
        top, bottom = float(self.cold_factor).as_integer_ratio()
        above = (self.max_token - self.warning_token) * bottom
        object.__setattr__(self, "max_queueing_ns", to_ns(self.max_queueing_time, "max_queueing_time"))
        object.__setattr__(self, "_warm_ns", NS_PER_SECOND * count_of)
        object.__setattr__(self, "_divisor", count * max(1, above))
        object.__setattr__(self, "_extra", (max(1, above), top - bottom))
        object.__setattr__(self, "interval_ns", self.least_price_ns(1) if count else NS_PER_SECOND)
        object.__setattr__(self, "_coldest_ns", self.price_ns(self.max_token, 1) if count else NS_PER_SECOND)

    @property
    def quota(self) -> int:
        """Those who may wait when it is warm, and the one who goes at once (0 for count 0)."""
        return 1 + self.max_queueing_ns // self.interval_ns if self.count else 0

    @property
    def window_ns(self) -> int:
        """The time in which a full queue goes when it is warm."""
        return max(1, self.quota) * self.interval_ns

    @property
    def _kept_ns(self) -> int:
        return max(KEPT_NS, self._coldest_ns)

    def price_ns(self, stored_tokens: int, cost: int) -> int:
        """How long after the request before one of this cost may start, with so many tokens stored."""
        if self.whole_ms:
            price_ms = round_half_up(1.0 * cost / self.rate(stored_tokens) * 1000)
            # In the original a price of nothing is no limit at all.
            if price_ms or not cost:
                return price_ms * MS_NS
        above, steeper = self._extra
        above += max(0, stored_tokens - self.warning_token) * steeper
        return ceil_div(cost * self._warm_ns * above, self._divisor)

    @property
    def price_ratio(self) -> tuple[int, int, int, int]:
        """`(base, steeper, times, divisor)`, for a port to do the same steps.

        A permit with n tokens above the line costs `(base + n * steeper) * times / divisor` ns; the last
        two have no common factor, and are 0 and 1 for a count of 0.
        """
        base, steeper = self._extra
        times, divisor = Fraction(self._warm_ns, self._divisor).as_integer_ratio() if self.count else (0, 1)
        return base, steeper, times, divisor

    def single_ns(self, stored_tokens: int) -> int:
        """The price of a single permit; a limit of 0, which admits nobody, still counts by the second."""
        return self.price_ns(stored_tokens, 1) if self.count else self.interval_ns

    def least_price_ns(self, cost: int) -> int:
        """The price when it is warm (rounded, it may be less on the warning line than below)."""
        return min(self.price_ns(0, cost), self.price_ns(self.warning_token, cost))

    def decide(
        self, core: Core, latest_ns: int, now_ns: int, cost: int, passed_before: float
    ) -> tuple[int | None, Core]:
        """Sentinel's own decision, on statistics that somebody else has counted.

        Args:
            core: tokens and the second they were last counted in.
            latest_ns: the moment of the latest request that passed.
            now_ns: the present moment.
            cost: permits wanted.
            passed_before: passes in the calendar second before.

        Returns:
            The moment at which it passes (the latest from then on) or None, and the core to keep.
        """
        core = self._counted(core, latest_ns, now_ns // NS_PER_SECOND, int(passed_before))
        if not self.count:
            return None, core
        at_ns = max(now_ns, latest_ns + self.price_ns(core[0], cost))
        return (at_ns if at_ns - now_ns <= self.max_queueing_ns else None), core

    def _core_in(self, state: State, second: int) -> Core:
        """The bucket in a calendar second, if nobody comes until then."""
        passed_before = slots.count_at(state[4], second - 1)
        return self._counted((state[0], state[1]), state[2], second, passed_before)

    def _counted(self, core: Core, latest_ns: int, second: int, passed_before: int) -> Core:
        """The bucket with the tokens counted in a calendar second.

        Where a cold bucket does not pass one request each second, a second without passes says nothing:
        it is in use as long as the next one could not have started before this second.
        """
        in_use = not self.cold_passes and second * NS_PER_SECOND <= latest_ns + self._coldest_ns
        return self.synchronised(core, second * 1000, passed_before, in_use=in_use)
