"""LeakyBucket: nginx's `limit_req`, a queue that drains at a steady rate.

Arithmetic of nginx 1.22 `ngx_http_limit_req_module`, in exact integers instead of whole milliseconds. In
nginx's words: the *excess* is how many requests are in the bucket besides the one that is let through.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from ratelimit_middleware.algorithms._numbers import is_number, whole_from_zero
from ratelimit_middleware.algorithms.base import (
    AdoptMode,
    Algorithm,
    State,
    adopted_use,
    ceil_div,
    granted,
    refused,
    scaled_count,
)
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.errors import InvalidLimitError

__all__ = ["LeakyBucket"]

_MAX_COUNT = 10**9
# A bucket drains by `rate_milli` ticks a nanosecond: one permit at a thousandth of a permit per second.
_PERMIT = 1000 * 10**9


@dataclass(frozen=True, slots=True)
class LeakyBucket:
    """`rate` permits per second leave the bucket; `burst` more may stand in it.

    Whoever finds more than `burst` in front of it is refused, however long it would wait. Of those let in,
    the first `delay` above the rate go at once and the others wait for their turn, 1 / `rate` apart.

    Bound: in any time t at most `min(burst, delay) + 1 + t * rate` permits start; a single waiting
    request that costs more takes the place of the first part. The moments of those that wait are rounded
    up to the clock's nanosecond, so for them t counts to within 1 ns.

    State: `(drained, booked_ns)`: the moment at which the bucket will have drained, in *ticks*
    (nanoseconds times thousandths of a permit per second), and the moment of the last booking.

    Args:
        rate: permits per second, 0.001 to 10^9; cut to thousandths, as nginx does (100 a minute: 1.666).
        burst: permits that may stand above the rate, 0 to 10^9.
        delay: how many of the burst go at once, 0 to 10^9, or `nodelay`: all of them.

    Raises:
        InvalidLimitError: a number out of its range.
    """

    rate: float = field(compare=False)
    burst: int
    delay: int | Literal["nodelay"] = 0
    rate_milli: int = field(init=False, repr=False)
    _depth: int = field(init=False, repr=False, compare=False)
    _at_once: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse numbers that make no sense."""
        object.__setattr__(self, "rate_milli", _rate_milli(self.rate))
        object.__setattr__(self, "burst", whole_from_zero("burst", self.burst, _MAX_COUNT))
        if self.delay != "nodelay":
            object.__setattr__(
                self, "delay", whole_from_zero("delay", self.delay, _MAX_COUNT, ", or 'nodelay'")
            )
        at_once = self.burst if self.delay == "nodelay" else min(self.burst, self.delay)
        object.__setattr__(self, "_depth", (self.burst + 1) * _PERMIT)
        object.__setattr__(self, "_at_once", (at_once + 1) * _PERMIT)

    @property
    def quota(self) -> int:
        """The burst and the one that is let through."""
        return self.burst + 1

    @property
    def window_ns(self) -> int:
        """The time in which a full bucket drains."""
        return ceil_div(self._depth, self.rate_milli)

    @property
    def smallest_full_take(self) -> int:
        """The burst and one; without waiting only `delay` and one."""
        return self.burst + 1

    def start(self, now_ns: int) -> State:
        """A drained bucket."""
        return (now_ns * self.rate_milli, 0)

    def step(self, state: State, now_ns: int) -> State:  # noqa: ARG002 - time is in the number itself
        """The state itself: it needs no upkeep."""
        return state

    def take(
        self, state: State, now_ns: int, cost: int = 1, max_wait_ns: int | None = 0, from_ns: int = 0
    ) -> tuple[Decision, State]:
        """Stand in the bucket if it has room and the turn comes in time; see `Algorithm.take`."""
        drained, rate = state[0], self.rate_milli
        asked_ns = from_ns if from_ns > now_ns else now_ns
        start = asked_ns * rate
        new = (drained if drained > start else start) + cost * _PERMIT
        at_ns = max(asked_ns, ceil_div(new - self._at_once, rate))
        late_ns = ceil_div(new - self._depth, rate) - asked_ns
        if max_wait_ns is not None:
            late_ns = max(late_ns, at_ns - now_ns - max_wait_ns)
        if late_ns > 0:
            patience_ns = None if max_wait_ns is None else max_wait_ns - (asked_ns - now_ns)
            retry_ns = late_ns if self._fits(cost, patience_ns) else None
            remaining, reset_ns = self._left(drained, now_ns, max_wait_ns)
            return refused(now_ns, retry_ns, self.quota, remaining, reset_ns), state
        remaining, reset_ns = self._left(new, now_ns, max_wait_ns)
        return granted(at_ns, now_ns, self.quota, remaining, reset_ns), (new, at_ns)

    def _fits(self, cost: int, patience_ns: int | None) -> bool:
        """Whether a drained bucket admits the cost."""
        size = cost * _PERMIT
        in_time = patience_ns is None or size - self._at_once <= patience_ns * self.rate_milli
        return size <= self._depth and in_time

    def _left(self, drained: int, now_ns: int, max_wait_ns: int | None) -> tuple[int, int]:
        """Permits left to those as patient as the asker, and the wait for the next or for all of them."""
        reach, rate = self._depth, self.rate_milli
        if max_wait_ns is not None:
            reach = min(reach, self._at_once + max_wait_ns * rate)
        content = max(0, drained - now_ns * rate)
        remaining = (reach - content) // _PERMIT
        if remaining > 0:
            return remaining, ceil_div(content, rate)
        return 0, ceil_div(content + _PERMIT - reach, rate)

    def charge(self, state: State, now_ns: int, cost: int) -> State:
        """Put `cost` permits in without asking; the debt ends at one bucket beyond the brim."""
        now = now_ns * self.rate_milli
        base = max(state[0], now)
        return (max(base, min(base + cost * _PERMIT, now + 2 * self._depth)), now_ns)

    def give_back(self, state: State, now_ns: int, cost: int, at_ns: int) -> State:
        """Take `cost` permits out again if no booking was made after the one for `at_ns`.

        Those who stand behind cannot move up, so with a later booking the place stays taken (nginx leaves
        it taken always). Once the last one has left, the one before it is the last.
        """
        drained, booked_ns = state
        if at_ns != booked_ns:
            return state
        drained -= cost * _PERMIT
        turn_ns = ceil_div(drained - self._at_once, self.rate_milli)
        return (drained, turn_ns if turn_ns > now_ns else booked_ns)

    def peek(self, state: State, now_ns: int, cost: int = 1) -> Decision:
        """What a request that does not wait would hear now."""
        return self.take(state, now_ns, cost)[0]

    def scaled(self, factor: float) -> LeakyBucket:
        """The rate, and the permits admitted from cold in all and at once, times `factor`."""
        rate = scaled_count(self.rate_milli, factor) / 1000
        burst = scaled_count(self.burst + 1, factor) - 1
        if self.delay == "nodelay":
            return replace(self, rate=rate, burst=burst)
        return replace(self, rate=rate, burst=burst, delay=scaled_count(self.delay + 1, factor) - 1)

    def adopt(self, state: State, now_ns: int, old: Algorithm, mode: AdoptMode) -> State:
        """Carry the content over: in permits (`keep`) or as a share of the bucket (`scale`)."""
        now = now_ns * self.rate_milli
        if not isinstance(old, LeakyBucket) or mode == "reset":
            return (now + adopted_use(self, state, now_ns, old, mode) * _PERMIT, 0)
        content = max(0, state[0] - now_ns * old.rate_milli)
        if mode == "keep":
            return (now + content, state[1])
        return (now + ceil_div(content * self.quota, old.quota), 0)

    def used(self, state: State, now_ns: int) -> int:
        """Permits in the bucket; nginx's excess is one less."""
        return ceil_div(max(0, state[0] - now_ns * self.rate_milli), _PERMIT)

    def forget_at_ns(self, state: State) -> int:
        """The moment the bucket has drained."""
        return ceil_div(state[0], self.rate_milli)


def _rate_milli(rate: float) -> int:
    """Thousandths of a permit per second, cut.

    Raises:
        InvalidLimitError: not a number in its range.
    """
    if not (is_number(rate) and 0.001 <= rate <= _MAX_COUNT):
        raise InvalidLimitError("rate", rate, f"permits per second, from 0.001 to {_MAX_COUNT}")
    # Rounded before the cut: 1.001 * 1000 is a hair below 1001 in doubles.
    return int(round(rate * 1000, 6))
