"""The numbers of the RateLimit fields: permits, and whole seconds.

Source: RFC 9651, section 3.3.1 (integers of structured fields).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ratelimit_middleware.clock import NS_PER_SECOND
from ratelimit_middleware.decision import Decision

__all__ = ["ALMOST_NS", "USUAL", "integer", "left", "numbers_of", "reset_at_s", "seconds_up"]

_LARGEST_INTEGER = 10**15 - 1
USUAL = 10**9  # numbers up to here are compared three times as fast
ALMOST_NS = NS_PER_SECOND - 1  # rounds up


def numbers_of(styles: Sequence[str]) -> Callable[[Decision], tuple[int, ...]]:
    """What gives the numbers that fields of these generations are written from, the policy's aside."""
    return _left_and_reset if "legacy" in styles else left


def left(decision: Decision) -> tuple[int, int]:
    """Permits left, and seconds left, as they are written."""
    remaining, window_ns = decision.remaining, decision.retry_after_ns
    if window_ns is None:
        window_ns = decision.reset_after_ns
    seconds = (window_ns + ALMOST_NS) // NS_PER_SECOND
    if 0 <= remaining <= USUAL and 0 < seconds <= USUAL:
        return remaining, seconds
    return integer(remaining), integer(seconds) or 1


def _left_and_reset(decision: Decision) -> tuple[int, int, int]:
    """The same, and the moment."""
    return *left(decision), reset_at_s(decision)


def reset_at_s(decision: Decision) -> int:
    """The moment of which `legacy` tells, seconds since the epoch."""
    return seconds_up(decision.at_ns + _window_ns(decision))


def _window_ns(decision: Decision) -> int:
    """A refusal names its own wait, even with permits left, or `Retry-After` would end inside the window."""
    own_ns = decision.retry_after_ns
    return decision.reset_after_ns if own_ns is None else own_ns


def integer(number: int) -> int:
    """Within what a structured field can hold."""
    if 0 <= number <= _LARGEST_INTEGER:
        return number
    return 0 if number < 0 else _LARGEST_INTEGER


def seconds_up(duration_ns: int) -> int:
    """Rounded up and at least 1: nothing left for zero seconds would say nothing."""
    seconds = -(-duration_ns // NS_PER_SECOND)
    return seconds if 0 < seconds <= _LARGEST_INTEGER else integer(seconds) or 1
