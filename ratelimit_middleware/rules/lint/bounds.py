"""What one limit can still refuse when another one holds: from the algorithms' proven bounds.

Nothing is guessed: where a bound is not known the answer is no. Requests are decided at once here (no
queue), and time does not go back.
"""

from __future__ import annotations

from ratelimit_middleware.algorithms.base import Algorithm, ceil_div
from ratelimit_middleware.algorithms.fixed_window import FixedWindow
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.algorithms.warm_up_window import WarmUpWindow

__all__ = ["admits_all_of", "is_plain_window", "most_within"]

# A sliding window is exact up to so many entries; then permits come back up to this part of a period late.
_EXACT = 64
_DAY_NS = 86_400 * 10**9
_UTC = (None, "UTC")
# Units of the calendar that are always equally long, in UTC.
_EVEN_UNITS = (None, "minute", "hour", "day", "week")


def is_plain_window(algorithm: Algorithm) -> bool:
    """Whether fewer requests never make the algorithm stricter (a warm-up cools down)."""
    return isinstance(algorithm, (SlidingWindow, GCRA, FixedWindow))


def admits_all_of(loose: Algorithm, tight: Algorithm, *, same_history: bool) -> bool:
    """Whether `loose` admits every request that `tight` admits.

    Args:
        loose: counts some or all of the requests that `tight` counts, at the same or a lower cost.
        tight: is kept by all of them.
        same_history: both count the same requests at the same cost, in the same buckets.
    """
    if isinstance(loose, SlidingWindow):
        if same_history and isinstance(tight, SlidingWindow) and loose.period_ns == tight.period_ns:
            return loose.limit >= tight.limit  # their logs are the same, merged entries included
        return _covers(loose.limit, most_within(tight, _remembered_ns(loose)))
    if isinstance(loose, FixedWindow):
        if isinstance(tight, FixedWindow) and _grid(loose) == _grid(tight):
            return loose.limit >= tight.limit
        return _covers(loose.limit, most_within(tight, _longest_ns(loose)))
    return isinstance(loose, GCRA) and _has_room_for(loose, tight)


def most_within(algorithm: Algorithm, span_ns: int) -> int | None:
    """The most permits in any half-open stretch of `span_ns` (above 0); None where no bound is known."""
    if isinstance(algorithm, (SlidingWindow, WarmUpWindow)):
        return ceil_div(span_ns, algorithm.window_ns) * algorithm.limit
    if isinstance(algorithm, FixedWindow) and _is_even(algorithm):
        # A stretch that begins inside a window touches one more.
        return (ceil_div(span_ns, algorithm.window_ns) + 1) * algorithm.limit
    if isinstance(algorithm, GCRA):
        return algorithm.burst + (span_ns - 1) * algorithm.limit // algorithm.period_ns
    return None


def _covers(limit: int, most: int | None) -> bool:
    return most is not None and most <= limit


def _has_room_for(loose: GCRA, tight: Algorithm) -> bool:
    """Whether the line `burst + t * rate` of `loose` lies nowhere below that of `tight`."""
    line = _line(tight)
    if line is None:
        return False
    burst, limit, period_ns = line
    return burst <= loose.burst and limit * loose.period_ns <= loose.limit * period_ns


def _line(algorithm: Algorithm) -> tuple[int, int, int] | None:
    """A burst and a rate (permits, in so many ns) that bound the permits of any stretch of time."""
    if isinstance(algorithm, GCRA):
        return algorithm.burst, algorithm.limit, algorithm.period_ns
    if isinstance(algorithm, (SlidingWindow, WarmUpWindow)):
        return algorithm.limit, algorithm.limit, algorithm.window_ns
    if isinstance(algorithm, FixedWindow) and _is_even(algorithm):
        return 2 * algorithm.limit, algorithm.limit, algorithm.window_ns
    return None


def _remembered_ns(window: SlidingWindow) -> int:
    """How long a permit may count."""
    late_ns = ceil_div(window.period_ns, _EXACT) if window.limit > _EXACT else 0
    return window.period_ns + late_ns


def _longest_ns(window: FixedWindow) -> int:
    """No window is longer; no time zone has ever moved by more than a day."""
    moves = window.timezone not in _UTC and window.unit is not None
    return window.window_ns + (_DAY_NS if moves else 0)


def _is_even(window: FixedWindow) -> bool:
    return window.timezone in _UTC and window.unit in _EVEN_UNITS


def _grid(window: FixedWindow) -> tuple[object, ...]:
    """Equal for windows that begin and end together."""
    return window.period_ns, window.unit, window.timezone or "UTC"
