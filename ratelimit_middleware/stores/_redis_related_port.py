"""Ports of Related and RelatedCharge: that of their limit, with other steps, on the limit's own buckets."""

from __future__ import annotations

from ratelimit_middleware.algorithms.base import Algorithm, State
from ratelimit_middleware.algorithms.related import Related, RelatedCharge
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.stores._redis_port import Port

__all__ = ["RelatedPort"]


class RelatedPort(Port):
    """What the limit's port says, of the limit.

    Args:
        limit: the limit's port.
        steps: the script's name for what is done with it.
    """

    def __init__(self, limit: Port, steps: str) -> None:
        self._limit = limit
        self.kind = f"{steps} {limit.kind}"
        self.tells = limit.tells

    def numbers(self, algorithm: Related | RelatedCharge, cost: int, now_us: int) -> tuple[float, ...]:
        """The limit's, at least eight, and the longest debt behind them."""
        numbers = self._limit.numbers(algorithm.limit, cost, now_us)
        return (*numbers, *(0.0,) * (8 - len(numbers)), 2 * algorithm.quota)

    def encode(self, algorithm: Related | RelatedCharge, state: State) -> bytes:
        """As the limit's."""
        return self._limit.encode(algorithm.limit, state)

    def decode(self, algorithm: Related | RelatedCharge, packed: bytes) -> State:
        """As the limit's."""
        return self._limit.decode(algorithm.limit, packed)

    def writer(self, algorithm: Related | RelatedCharge) -> Algorithm:
        """The one that asks: neither has to adopt what the other has written."""
        return Related(algorithm.limit)

    def holds(self, numbers: tuple[float, ...]) -> tuple[float, float]:
        """As long as those of the limit."""
        return self._limit.holds(numbers)

    def told(self, algorithm: Algorithm, decision: Decision, cost: int) -> Decision:
        """One that asks takes nothing."""
        return algorithm.untaken(decision, cost) if isinstance(algorithm, Related) else decision
