"""The contract of a port, and how numbers go to the script."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable
from math import inf
from typing import Any

from ratelimit_middleware.algorithms.base import Algorithm, State, ceil_div
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.errors import StoreError

__all__ = ["LARGEST", "LAST_US", "US_NS", "Port", "doubles", "exact", "read_doubles", "whole_us"]

US_NS = 1000

LAST_US = 2**52
"""The last moment the script knows, in the year 2112; a debt that is longer ends there."""

LARGEST = 2**51
"""With numbers up to this one the script counts exactly."""


class Port(ABC):
    """One algorithm's side of the conversation.

    Attributes:
        kind: the name of the script's port.
        tells: whether the script's answer holds the numbers for headers; if not, it holds the state that
            the decision was taken on, and they are worked out from it.
    """

    kind: str
    tells: bool = False

    @abstractmethod
    def numbers(self, algorithm: Any, cost: int, now_us: int) -> tuple[float, ...]:
        """The limit's numbers, and those of `cost` permits: the fewer, the sooner the script has read them.

        Args:
            algorithm: the limit.
            cost: permits.
            now_us: about the present moment.

        Raises:
            StoreError: they would not be exact.
        """

    @abstractmethod
    def encode(self, algorithm: Any, state: State) -> bytes:
        """A state as the script keeps it; what is finer than a microsecond is rounded to fewer permits."""

    @abstractmethod
    def decode(self, algorithm: Any, packed: bytes) -> State:
        """The state that the script has packed."""

    def writer(self, algorithm: Any) -> Algorithm:
        """Whose name its entries bear: another one's where two work on the same buckets."""
        return algorithm  # type: ignore[no-any-return]

    def told(self, algorithm: Any, decision: Decision, cost: int) -> Decision:  # noqa: ARG002
        """The decision, where the script has told its numbers."""
        return decision

    def holds(self, numbers: tuple[float, ...]) -> tuple[float, float]:  # noqa: ARG002
        """The moments between which the numbers may be used, us."""
        return -inf, inf


def exact(algorithm: Algorithm, numbers: Iterable[float]) -> bytes:
    """The numbers packed.

    Raises:
        StoreError: one of them is too large for the script to count with exactly.
    """
    numbers = list(numbers)
    if any(abs(number) > LARGEST for number in numbers):
        raise StoreError(f"{algorithm!r} cannot be counted in Redis: its times or amounts exceed 2^51")
    return doubles(numbers)


def doubles(numbers: Iterable[float]) -> bytes:
    """Numbers as the script reads them."""
    numbers = tuple(numbers)
    return struct.pack(f"<{len(numbers)}d", *numbers)


def read_doubles(packed: bytes) -> tuple[float, ...]:
    """Numbers that the script has packed."""
    return struct.unpack(f"<{len(packed) // 8}d", packed)


def whole_us(time_ns: int) -> int:
    """Nanoseconds as microseconds, rounded up."""
    return ceil_div(time_ns, US_NS)
