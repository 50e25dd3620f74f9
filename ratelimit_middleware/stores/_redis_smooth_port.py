"""Port of Guava's limiters: doubles here and there, microseconds already."""

from __future__ import annotations

from ratelimit_middleware.algorithms.base import State
from ratelimit_middleware.algorithms.smooth_bursty import SmoothBursty
from ratelimit_middleware.algorithms.smooth_warming_up import SmoothWarmingUp
from ratelimit_middleware.stores._redis_port import LAST_US, US_NS, Port, doubles, read_doubles, whole_us

__all__ = ["SmoothPort"]


class SmoothPort(Port):
    """SmoothBursty and SmoothWarmingUp."""

    kind = "smooth"

    def numbers(
        self,
        algorithm: SmoothBursty | SmoothWarmingUp,
        cost: int,  # noqa: ARG002
        now_us: int,  # noqa: ARG002
    ) -> tuple[float, ...]:
        """The rate, what is stored, the cold and the quota."""
        cold = (0.0, 0.0, 0.0)
        if isinstance(algorithm, SmoothWarmingUp):
            cold = (1.0, algorithm.threshold, algorithm.slope)
        stored = (algorithm.max_permits, algorithm.first_stored, algorithm.refill_us)
        return (algorithm.stable_us, *stored, *cold, algorithm.quota)

    def encode(self, algorithm: SmoothBursty | SmoothWarmingUp, state: State) -> bytes:  # noqa: ARG002
        """The five numbers, the moment of the last taker in microseconds too."""
        stored, next_free_us, run_us, before, taker_ns = state
        taker_us = -1 if taker_ns < 0 else whole_us(taker_ns)
        return doubles((stored, min(next_free_us, LAST_US), min(run_us, LAST_US), before, taker_us))

    def decode(self, algorithm: SmoothBursty | SmoothWarmingUp, packed: bytes) -> State:  # noqa: ARG002
        """As `encode`."""
        stored, next_free_us, run_us, before, taker_us = read_doubles(packed)
        taker_ns = -1 if taker_us < 0 else int(taker_us) * US_NS
        return (stored, int(next_free_us), int(run_us), before, taker_ns)
