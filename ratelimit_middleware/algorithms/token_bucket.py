"""TokenBucket: juju/ratelimit's bucket, refilled at intervals or without steps, whose takers may queue.

Arithmetic of github.com/juju/ratelimit 1.0.2 on unbounded integers. A take that finds too few tokens
makes the balance negative and waits for the refill that pays for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Literal

from ratelimit_middleware.algorithms._token_balance import MAX_COUNT, TokenBalance, interval_and_quantum
from ratelimit_middleware.algorithms.base import (
    AdoptMode,
    Algorithm,
    State,
    adopted_use,
    ceil_div,
    granted,
    positive_int,
    refused,
    scaled_count,
)
from ratelimit_middleware.clock import NS_PER_SECOND
from ratelimit_middleware.decision import Decision

__all__ = ["TokenBucket"]


@dataclass(frozen=True, slots=True)
class TokenBucket(TokenBalance):
    """`quantum` tokens flow in per `fill_interval`, up to `capacity`.

    Bound: in any time t at most `capacity + quantum * ceil(t / fill_interval)` permits. Requests that
    wait for a refill start together when it comes, and may cost more than the capacity: with them it is
    `max(capacity, quantum + largest cost - 1) + quantum * ceil(t / fill_interval)`. With `greedy` refill
    `quantum * (t + 1 ns) / fill_interval` takes the place of the steps, and `max(capacity, largest cost)`
    that of the burst.

    Any cost is admitted to those who wait long enough. One above the capacity never goes at once.

    State: `(level, edge_ns, booked_ns)`: the balance (below 0 while takers wait) that holds since the
    refill at `edge_ns`, and the moment of the last booking. Together with the refill they draw a straight
    line, which also tells the balance *before* the edge. With `interval` refill the level counts tokens
    and edges are counted from the key's first request; with `greedy` it counts fractions of
    1 / `fill_interval_ns` token, and every nanosecond is an edge, so that nothing is ever rounded.

    Args:
        capacity: tokens in a full bucket, 1 to 2^63 - 1.
        fill_interval: seconds, or a `timedelta`; above 0.
        quantum: tokens per interval, 1 to 2^63 - 1.
        refill: `interval` adds the whole quantum at the end of each interval, `greedy` adds it evenly.

    Raises:
        InvalidLimitError: a number out of its range.
    """

    @classmethod
    def from_rate(
        cls, rate: float, capacity: int, refill: Literal["interval", "greedy"] = "interval"
    ) -> TokenBucket:
        """The bucket that juju/ratelimit builds for a rate: its own rate is up to 1 % above the one asked.

        Args:
            rate: tokens per second.
            capacity: tokens in a full bucket.
            refill: as for the class.

        Raises:
            InvalidLimitError: the capacity is out of its range, or no interval and quantum give the rate.
        """
        capacity = positive_int("capacity", capacity, MAX_COUNT)
        fill_interval_ns, quantum = interval_and_quantum(rate)
        return cls.of_ns(capacity, fill_interval_ns, quantum, refill)

    @classmethod
    def of_ns(
        cls, capacity: int, fill_interval_ns: int, quantum: int, refill: Literal["interval", "greedy"]
    ) -> TokenBucket:
        """A bucket whose interval is told in whole nanoseconds: a long float of seconds would be rounded."""
        bucket = cls(capacity, fill_interval_ns / NS_PER_SECOND, quantum, refill)
        bucket._fill_every_ns(fill_interval_ns)
        return bucket

    @property
    def quota(self) -> int:
        """The capacity: what can be had at once."""
        return self.capacity

    @property
    def window_ns(self) -> int:
        """The time in which an empty bucket fills."""
        return ceil_div(self.full, self.quantum) * self.grain_ns

    @property
    def smallest_full_take(self) -> int:
        """The capacity: what goes at once; more is admitted to those who wait."""
        return self.capacity

    def start(self, now_ns: int) -> State:
        """A full bucket."""
        return (self.full, now_ns, 0)

    def take(
        self, state: State, now_ns: int, cost: int = 1, max_wait_ns: int | None = 0, from_ns: int = 0
    ) -> tuple[Decision, State]:
        """Take `cost` tokens at the first moment they are there; see `Algorithm.take`."""
        state = self.step(state, now_ns)
        at_ns = from_ns if from_ns > now_ns else now_ns
        ahead = self.step(state, at_ns) if at_ns > now_ns else state
        asked = cost * self.unit
        due_ns = self._reaches_ns(ahead, asked)
        wait_ns = (due_ns if due_ns > at_ns else at_ns) - now_ns
        if max_wait_ns is not None and wait_ns > max_wait_ns:
            never = cost > self.capacity and max_wait_ns - (at_ns - now_ns) <= self._least_wait_ns(cost)
            remaining, reset_ns = self._left(state, now_ns)
            retry_ns = None if never else wait_ns - max_wait_ns
            return refused(now_ns, retry_ns, self.capacity, remaining, reset_ns), state
        at_ns = now_ns + wait_ns
        state = (ahead[0] - asked, ahead[1], at_ns)
        remaining, reset_ns = self._left(state, now_ns)
        return granted(at_ns, now_ns, self.capacity, remaining, reset_ns), state

    def take_available(self, state: State, now_ns: int, most: int) -> tuple[int, State]:
        """Take what is there at once, up to `most` tokens: how many, and the state to keep."""
        state = self.step(state, now_ns)
        count = min(most, self.level(state, now_ns) // self.unit)
        return (count, self.take(state, now_ns, count)[1]) if count > 0 else (0, state)

    def charge(self, state: State, now_ns: int, cost: int) -> State:
        """Take `cost` tokens without asking; the debt ends at one bucket below empty."""
        state = self.step(state, now_ns)
        level, edge_ns, _ = state
        lowest = -self.full - (self.level(state, now_ns) - level)
        return (min(level, max(level - cost * self.unit, lowest)), edge_ns, now_ns)

    def give_back(self, state: State, now_ns: int, cost: int, at_ns: int) -> State:
        """Put `cost` tokens back if no booking was made after the one for `at_ns`.

        With a later booking behind it the tokens are lost: those who wait behind cannot move up, and the
        bucket may have been full between the two, so that giving all back would mint. Once the last
        waiter has left, the one before it is the last: its moment is the one at which the balance is 0.
        """
        if at_ns != state[2]:
            return state
        level, edge_ns, _ = self.step(state, now_ns)
        level = min(level + cost * self.unit, self.full)
        last_ns = self._reaches_ns((level, edge_ns), 0)
        return (level, edge_ns, last_ns if last_ns > now_ns else at_ns)

    def peek(self, state: State, now_ns: int, cost: int = 1) -> Decision:
        """What a request would hear now."""
        return self.take(state, now_ns, cost)[0]

    def scaled(self, factor: float) -> TokenBucket:
        """Capacity and rate times `factor`: the interval takes up what a whole quantum cannot express."""
        capacity, quantum = scaled_count(self.capacity, factor), scaled_count(self.quantum, factor)
        fill_interval_ns = ceil(self.fill_interval_ns * quantum / (self.quantum * Fraction(factor)))
        return self.of_ns(capacity, fill_interval_ns, quantum, self.refill)

    def adopt(self, state: State, now_ns: int, old: Algorithm, mode: AdoptMode) -> State:
        """Carry over what is missing, in tokens (`keep`) or as a share; and the part of an interval gone."""
        if not isinstance(old, TokenBucket) or mode == "reset":
            return (self.full - adopted_use(self, state, now_ns, old, mode) * self.unit, now_ns, 0)
        state = old.step(state, now_ns)
        missing = old.full - old.level(state, now_ns)
        gone_ns = min((now_ns - state[1]) % old.grain_ns, self.grain_ns - 1)
        edge_ns = now_ns - gone_ns
        if mode == "keep":
            return (self.full - ceil_div(missing * self.unit, old.unit), edge_ns, state[2])
        return (self.full - ceil_div(missing * self.full, old.full), edge_ns, 0)
