"""SmoothBursty: Guava's `RateLimiter.create(rate)`: idle time is stored, debt is paid by the next caller."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from ratelimit_middleware.algorithms._numbers import number, seconds
from ratelimit_middleware.algorithms._smooth import SmoothRate
from ratelimit_middleware.algorithms._smooth_account import US_NS
from ratelimit_middleware.algorithms.base import AdoptMode, State

__all__ = ["SmoothBursty"]

_IDLE_KEPT_NS = 3600 * 10**9


@dataclass(frozen=True, slots=True)
class SmoothBursty(SmoothRate):
    """`permits_per_second`, and what flowed in during the last `max_burst_seconds` of idle time at once.

    A request of any size is granted as soon as the next free ticket has come; what it takes beyond the
    stored permits delays the ones after it. A key starts with nothing stored.

    Bound: in any time t all requests but the last together get at most `max_burst_seconds * rate +
    (t + k us) * rate` permits, k the number of requests; the last one may have any size. (The original
    drops the fraction of a microsecond of each request's cost: 0.1 % of a single permit at 1,000 a
    second, 10 % at 100,000.)

    `quota` is what can be stored (at least 1), `window_ns` the time in which it flows in. `remaining` is
    the whole permits stored; with 0 left and no debt, one more request would still be granted.

    Args:
        permits_per_second: 1e-15 to 10^6, fractions allowed.
        max_burst_seconds: seconds, or a `timedelta`; 0 to 10^8. Guava's public factory has 1.

    Raises:
        InvalidLimitError: a number out of its range.
    """

    max_burst_seconds: float | timedelta = 1.0

    def __post_init__(self) -> None:
        """Refuse numbers that make no sense."""
        rate = self._set_rate()
        burst_s = number("max_burst_seconds", seconds(self.max_burst_seconds), 0, 1e8)
        largest = burst_s * rate
        self._set(max_burst_seconds=burst_s, max_permits=largest, quota=max(1, int(largest)))
        self._set(first_stored=0.0, refill_us=self.stable_us)

    def _free(self, stored: float) -> float:
        return stored

    def _price_us(self, stored: float, taken: float) -> int:  # noqa: ARG002 - stored permits are free
        return 0

    def _carried(self, stored: float, old_max: float, mode: AdoptMode) -> float:
        """Scaled with what can be stored (`scale`), or as it is if there is room (`keep`)."""
        if mode == "keep":
            return min(stored, self.max_permits)
        return stored * self.max_permits / old_max

    def forget_at_ns(self, state: State) -> int:
        """An hour after the last permit was stored.

        A key starts with nothing stored, so a forgotten one has lost its burst: as soon as the bucket is
        full would be too early for a client that comes back after a pause.
        """
        return self._full_us(state) * US_NS + _IDLE_KEPT_NS
