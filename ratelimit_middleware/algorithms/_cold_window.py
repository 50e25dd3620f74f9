"""The curve of WarmUpWindow: how cold a limit is from period to period, and what it lets through.

Sentinel's, with two changes: fractions are kept, and the limit's own period stands in the place of the
second. All numbers are integers, cold in thousandths of a permit, so that a port can do the same steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from fractions import Fraction

from ratelimit_middleware.algorithms._numbers import is_number
from ratelimit_middleware.algorithms.base import State
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.clock import to_ns
from ratelimit_middleware.errors import InvalidLimitError

__all__ = ["MILLI", "ColdWindow"]

MILLI = 1000


@dataclass(frozen=True, slots=True)
class ColdWindow:
    """The numbers of the curve, and the count of cold; `WarmUpWindow` describes the state."""

    limit: int
    period: float | timedelta = field(compare=False)
    warm_up_period: float | timedelta = field(compare=False)
    cold_factor: float = 3
    window: SlidingWindow = field(init=False, repr=False)
    warm_up_ns: int = field(init=False, repr=False)
    cold_limit: int = field(init=False, repr=False, compare=False)
    full_cold: int = field(init=False, repr=False, compare=False)
    factor: tuple[int, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse numbers that make no sense; draw the curve."""
        window = SlidingWindow(self.limit, self.period)
        limit, period_ns = window.limit, window.period_ns
        warm_up_ns = to_ns(self.warm_up_period, "warm_up_period")
        if warm_up_ns < 2 * period_ns:
            least = f"at least two periods of the limit ({2 * period_ns / 1e9:g} s)"
            advice = "for a shorter warm-up write the limit per second"
            raise InvalidLimitError("warm_up_period", self.warm_up_period, f"{least}; {advice}")
        top, bottom = _fraction(self.cold_factor)
        object.__setattr__(self, "limit", limit)
        object.__setattr__(self, "window", window)
        object.__setattr__(self, "warm_up_ns", warm_up_ns)
        object.__setattr__(self, "factor", (top, bottom))
        object.__setattr__(self, "cold_limit", max(1, limit * bottom // top))
        full_cold = 2 * MILLI * limit * warm_up_ns * bottom // (period_ns * (top + bottom))
        object.__setattr__(self, "full_cold", max(1, full_cold))

    @property
    def quota(self) -> int:
        """The full limit."""
        return self.limit

    @property
    def window_ns(self) -> int:
        """The period."""
        return self.window.period_ns

    @property
    def smallest_full_take(self) -> int:
        """The cold limit."""
        return self.cold_limit

    def limit_at(self, cold: int) -> int:
        """The threshold with this much cold left (thousandths of a permit), in permits per period."""
        if not cold:
            return self.limit
        top, bottom = self.factor
        warm = self.full_cold * bottom
        return max(1, self.limit * warm // (warm + cold * (top - bottom)))

    def cold_in(self, state: State, index: int) -> int:
        """The cold left in period number `index`, if nobody comes until then."""
        counted: int = state[0]
        cold: int = state[1]
        if index <= counted:
            return cold
        quiet = self.limit * MILLI
        if state[3] < self.cold_limit:
            cold = min(self.full_cold, cold + quiet)
        cold = max(0, cold - state[2] * MILLI)
        return min(self.full_cold, cold + (index - counted - 1) * quiet)


def _fraction(cold_factor: float) -> tuple[int, int]:
    """The cold factor as numerator and denominator.

    Raises:
        InvalidLimitError: it is not a number above 1 and at most 1000.
    """
    if not (is_number(cold_factor) and 1 < cold_factor <= 1000):
        raise InvalidLimitError("cold_factor", cold_factor, "a number above 1, at most 1000")
    fraction = Fraction(cold_factor).limit_denominator(1000)
    if fraction <= 1:
        raise InvalidLimitError("cold_factor", cold_factor, "a number above 1 by at least a thousandth")
    return fraction.numerator, fraction.denominator
