"""What a token bucket is, apart from its takers: a balance that grows with each refill, up to its capacity.

Arithmetic of github.com/juju/ratelimit 1.0.2 on unbounded integers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from ratelimit_middleware.algorithms._numbers import is_number, positive_ns
from ratelimit_middleware.algorithms.base import State, ceil_div, positive_int
from ratelimit_middleware.errors import InvalidLimitError

__all__ = ["MAX_COUNT", "TokenBalance", "interval_and_quantum"]

MAX_COUNT = 2**63 - 1
_MAX_QUANTUM = 2**50


@dataclass(frozen=True, slots=True)
class TokenBalance:
    """The numbers of the refill, and the balance at any moment; `TokenBucket` describes the state."""

    capacity: int
    fill_interval: float | timedelta = field(compare=False)
    quantum: int = 1
    refill: Literal["interval", "greedy"] = "interval"
    fill_interval_ns: int = field(init=False, repr=False)
    grain_ns: int = field(init=False, repr=False, compare=False)
    unit: int = field(init=False, repr=False, compare=False)
    full: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse numbers that make no sense."""
        fill_interval_ns = positive_ns("fill_interval", self.fill_interval)
        object.__setattr__(self, "capacity", positive_int("capacity", self.capacity, MAX_COUNT))
        object.__setattr__(self, "quantum", positive_int("quantum", self.quantum, MAX_COUNT))
        if self.refill not in ("interval", "greedy"):
            raise InvalidLimitError("refill", self.refill, "'interval' or 'greedy'")
        self._fill_every_ns(fill_interval_ns)

    def _fill_every_ns(self, fill_interval_ns: int) -> None:
        stepwise = self.refill == "interval"
        unit = 1 if stepwise else fill_interval_ns
        object.__setattr__(self, "fill_interval_ns", fill_interval_ns)
        object.__setattr__(self, "grain_ns", fill_interval_ns if stepwise else 1)
        object.__setattr__(self, "unit", unit)
        object.__setattr__(self, "full", self.capacity * unit)

    def step(self, state: State, now_ns: int) -> State:
        """Add what has flowed in; a moment before the state's changes nothing."""
        level, edge_ns, booked_ns = state
        grains = (now_ns - edge_ns) // self.grain_ns
        if grains <= 0:
            return state
        level += grains * self.quantum
        full = self.full
        return (level if level < full else full, edge_ns + grains * self.grain_ns, booked_ns)

    def level(self, state: State, now_ns: int) -> int:
        """The balance at `now_ns` of a state that has been stepped to it, in units of a token's fraction."""
        level: int = state[0]
        edge_ns: int = state[1]
        return level + (now_ns - edge_ns) // self.grain_ns * self.quantum

    def _reaches_ns(self, state: State, level: int) -> int:
        """The refill that brings the balance to `level`, or brought it there."""
        edge_ns: int = state[1]
        missing: int = level - state[0]
        return edge_ns + ceil_div(missing, self.quantum) * self.grain_ns

    def _least_wait_ns(self, cost: int) -> int:
        """What a full bucket asks even of the luckiest who want more than it holds, less one nanosecond."""
        return (ceil_div((cost - self.capacity) * self.unit, self.quantum) - 1) * self.grain_ns

    def _left(self, state: State, now_ns: int) -> tuple[int, int]:
        """Tokens there, and the wait for the next one (if none) or for all of them."""
        remaining = self.level(state, now_ns) // self.unit
        if remaining > 0:
            reset_ns = self._reaches_ns(state, self.full) - now_ns
            return remaining, (reset_ns if reset_ns > 0 else 0)
        return 0, self._reaches_ns(state, self.unit) - now_ns

    def used(self, state: State, now_ns: int) -> int:
        """Tokens missing from a full bucket: `capacity` less juju's `available`."""
        return self.capacity - self.level(self.step(state, now_ns), now_ns) // self.unit

    def forget_at_ns(self, state: State) -> int:
        """The moment the bucket is full again."""
        return self._reaches_ns(state, self.full)


def interval_and_quantum(rate: float) -> tuple[int, int]:
    """The first pair whose rate is within 1 % of the one asked, searched in doubles as the original does.

    Raises:
        InvalidLimitError: there is none.
    """
    if is_number(rate) and 0 < rate < float("inf"):
        quantum = 1
        while quantum < _MAX_QUANTUM:
            interval = 1e9 * quantum / rate
            if 1 <= interval < 2**63 and abs(1e9 * quantum / int(interval) - rate) / rate <= 0.01:
                return int(interval), quantum
            quantum = max(quantum + 1, quantum * 11 // 10)
    raise InvalidLimitError("rate", rate, "tokens per second that fit an interval of 1 ns to 2^63 ns")
