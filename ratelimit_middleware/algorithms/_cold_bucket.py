"""What WarmUp and WarmUpPacing share: Sentinel's bucket of cold, and the rate that it allows.

Source: `WarmUpController` of alibaba/Sentinel (1.8.9 line, Apache-2.0), described in our own words. The
bucket is full at the start and when idle, every pass takes one token out, and the more tokens stand
above the warning line, the longer the interval between permits: from `cold_factor / count` seconds
(full) down to `1 / count` (at the line). It is looked at once a calendar second.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeAlias

from ratelimit_middleware.algorithms._numbers import is_number, permits_per_second, positive_ns
from ratelimit_middleware.algorithms.base import ceil_div
from ratelimit_middleware.errors import InvalidLimitError

__all__ = ["MS_NS", "ColdBucket", "Core"]

Core: TypeAlias = tuple[int, int]
"""`(stored_tokens, last_filled_ms)`: all that the original keeps."""

MS_NS = 1_000_000


@dataclass(frozen=True, slots=True)
class ColdBucket:
    """The numbers of the curve, and the count of tokens."""

    count: float
    warm_up_period: float | timedelta = field(compare=False)
    cold_factor: float = 3
    warm_up_ns: int = field(init=False, repr=False)
    warning_token: int = field(init=False, repr=False, compare=False)
    max_token: int = field(init=False, repr=False, compare=False)
    slope: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse numbers that make no sense; draw the curve."""
        permits_per_second("count", self.count)
        if not (is_number(self.cold_factor) and 1 < self.cold_factor <= 1e6):
            raise InvalidLimitError("cold_factor", self.cold_factor, "a number above 1, at most 10^6")
        warm_up_ns = positive_ns("warm_up_period", self.warm_up_period)
        period_s, factor = warm_up_ns / 1e9, float(self.cold_factor)
        warning = int(int(period_s * self.count) // (factor - 1))
        above = int(2 * period_s * self.count / (1.0 + factor))
        object.__setattr__(self, "warm_up_ns", warm_up_ns)
        object.__setattr__(self, "warning_token", warning)
        object.__setattr__(self, "max_token", warning + above)
        # Without a token above the line there is nothing to warm up; the original divides by zero.
        object.__setattr__(self, "slope", (factor - 1.0) / self.count / above if above else 0.0)

    def rate(self, stored_tokens: int) -> float:
        """Permits a second with this many tokens in the bucket."""
        if stored_tokens < self.warning_token or not self.count:
            return float(self.count)
        interval_s = (stored_tokens - self.warning_token) * self.slope + 1.0 / self.count
        # One unit in the last place up, as in the original: 1 / (1 / 49) is below 49.
        return math.nextafter(1.0 / interval_s, math.inf)

    def cold_core(self, now_ns: int) -> Core:
        """A full, cold bucket, whatever the clock says; its first call counts tokens."""
        now_ms = now_ns // MS_NS
        return (self.max_token, now_ms - now_ms % 1000 - 1000)

    @property
    def cold_passes(self) -> int:
        """Passes a second of a cold bucket in use; 0 if it has seconds without any."""
        return int(int(self.count) // self.cold_factor)

    def synchronised(self, core: Core, now_ms: int, passed_before: int, *, in_use: bool = False) -> Core:
        """Count tokens once a calendar second: in after a quiet second, out what passed in it.

        Args:
            core: tokens and the second they were last counted in.
            now_ms: the present moment, milliseconds since the epoch.
            passed_before: passes in the calendar second before.
            in_use: no second is quiet, even if nothing passed in it.
        """
        stored, last_filled_ms = core
        second_ms = now_ms - now_ms % 1000
        if second_ms <= last_filled_ms:
            return core
        # On the line itself the original never refills: an idle bucket would stay warm for ever.
        quiet_below = 1 if stored == self.warning_token else max(1, self.cold_passes)
        if stored < self.warning_token or (passed_before < quiet_below and not in_use):
            stored = int(stored + (second_ms - last_filled_ms) * self.count / 1000)
        return max(0, min(stored, self.max_token) - passed_before), second_ms

    def stored_from(self, old: ColdBucket, stored: int) -> int:
        """As far above (or below) the line as it was in `old`; cold if that had no room above it."""
        above, old_above = self.max_token - self.warning_token, old.max_token - old.warning_token
        if not old_above:
            return self.max_token
        if stored >= old.warning_token:
            return self.warning_token + ceil_div((stored - old.warning_token) * above, old_above)
        return ceil_div(stored * self.warning_token, old.warning_token)
