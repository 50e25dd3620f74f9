"""SmoothWarmingUp: Guava's `RateLimiter.create(rate, warmupPeriod)`: after idle time permits cost more."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from ratelimit_middleware.algorithms._numbers import number
from ratelimit_middleware.algorithms._smooth import SmoothRate
from ratelimit_middleware.algorithms._smooth_account import US_NS
from ratelimit_middleware.algorithms.base import AdoptMode
from ratelimit_middleware.clock import to_ns
from ratelimit_middleware.errors import InvalidLimitError

__all__ = ["SmoothWarmingUp"]

_LONGEST_US = 10**14


@dataclass(frozen=True, slots=True)
class SmoothWarmingUp(SmoothRate):
    """`permits_per_second` when warm; `cold_factor` times slower when cold, linear in between.

    Here stored permits are *cold*: idle time stores them, and those above the threshold cost more than
    fresh ones. A key starts cold; requests without a pause bring it from cold to warm in
    `warm_up_period`, and so much idle time from empty to cold. A request of any size is granted as soon
    as the next free ticket has come; all that it costs delays the ones after it.

    Bound: in any time t all requests but the last together get at most `(t + 3 k us) * rate` permits, k
    the number of requests; there are no bursts, but the last request may have any size. (The original
    drops the fractions of a microsecond of up to three parts of each request's cost.)

    `quota` is the permits of a second (at least 1), `window_ns` the time in which they flow in when
    warm. `remaining` is 0: nothing can be had without delay for the next caller.

    Args:
        permits_per_second: 1e-15 to 10^6, fractions allowed.
        warm_up_period: seconds, or a `timedelta`; 0 to 10^8, in whole microseconds (fractions are
            dropped). 0 = always warm: one permit per interval, nothing stored.
        cold_factor: how many times longer the interval is when cold; 1 to 10^6. Guava's public factory
            has 3.

    Raises:
        InvalidLimitError: a number out of its range.
    """

    warm_up_period: float | timedelta = field(compare=False)
    cold_factor: float = 3.0
    warm_up_us: int = field(init=False, repr=False)
    threshold: float = field(init=False, repr=False, compare=False)
    slope: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse numbers that make no sense; draw the curve."""
        rate, factor = self._set_rate(), number("cold_factor", self.cold_factor, 1, 1e6)
        warm_up_us = to_ns(self.warm_up_period, "warm_up_period") // US_NS
        if warm_up_us > _LONGEST_US:
            raise InvalidLimitError("warm_up_period", self.warm_up_period, "at most 10^8 seconds")
        stable_us = self.stable_us
        cold_us = stable_us * factor
        threshold = 0.5 * warm_up_us / stable_us
        largest = threshold + 2.0 * warm_up_us / (stable_us + cold_us)
        self._set(cold_factor=factor, warm_up_us=warm_up_us, threshold=threshold, quota=max(1, int(rate)))
        self._set(max_permits=largest, first_stored=largest)
        # Without a warm-up the original divides by zero, and NaN permits are never used up.
        self._set(slope=(cold_us - stable_us) / (largest - threshold) if warm_up_us else 0.0)
        self._set(refill_us=warm_up_us / largest if warm_up_us else stable_us)

    def _free(self, stored: float) -> float:  # noqa: ARG002 - stored permits cost at least as much as fresh ones
        return 0.0

    def _price_us(self, stored: float, taken: float) -> int:
        """The area under the line above the threshold, then the stable interval; each part truncated."""
        above, price_us = stored - self.threshold, 0
        if above > 0:
            cold = min(above, taken)
            first_us = self.stable_us + above * self.slope
            last_us = self.stable_us + (above - cold) * self.slope
            price_us = int(cold * (first_us + last_us) / 2.0)
            taken -= cold
        return price_us + int(self.stable_us * taken)

    def _carried(self, stored: float, old_max: float, mode: AdoptMode) -> float:  # noqa: ARG002
        """As cold as before, as a share, in both modes: fewer permits stored would be a warmer bucket."""
        return stored * self.max_permits / old_max
