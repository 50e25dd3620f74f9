"""Ports of Penalty and Strike, which share their buckets."""

from __future__ import annotations

from ratelimit_middleware.algorithms.base import Algorithm, State
from ratelimit_middleware.algorithms.penalty import Penalty, Strike
from ratelimit_middleware.stores._redis_port import US_NS, Port, doubles, read_doubles, whole_us

__all__ = ["PenaltyPort", "StrikePort"]


class PenaltyPort(Port):
    """Two counts and two moments."""

    kind = "penalty"

    def numbers(self, algorithm: Penalty | Strike, cost: int, now_us: int) -> tuple[float, ...]:  # noqa: ARG002
        """Refusals borne, the quiet time, the number of blocks, and each of them."""
        blocks_us = [whole_us(block_ns) for block_ns in algorithm.blocks_ns]
        return (algorithm.after, whole_us(algorithm.forget_after_ns), len(blocks_us), *blocks_us)

    def encode(self, algorithm: Penalty | Strike, state: State) -> bytes:  # noqa: ARG002
        """Moments in microseconds."""
        refusals, level, until_ns, last_ns = state
        return doubles((refusals, level, whole_us(until_ns), whole_us(last_ns)))

    def decode(self, algorithm: Penalty | Strike, packed: bytes) -> State:  # noqa: ARG002
        """As `encode`."""
        refusals, level, until_us, last_us = map(int, read_doubles(packed))
        return (refusals, level, until_us * US_NS, last_us * US_NS)


class StrikePort(PenaltyPort):
    """What a strike writes is a penalty's: neither has to adopt what the other has written."""

    kind = "strike"

    def writer(self, algorithm: Strike) -> Algorithm:
        """The penalty with the same numbers."""
        return algorithm.penalty
