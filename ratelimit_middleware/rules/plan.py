"""What counts for the requests of one target, and what of it is the same for many of them."""

from __future__ import annotations

from typing import TypeAlias

from ratelimit_middleware.rules.limit import Limit

__all__ = ["Counted", "Plan"]

Counted: TypeAlias = tuple[tuple[Limit, str], ...]
"""The limits that count, in order, each with the pattern of the route that matched (empty for `always`
and `default`)."""


class Plan:
    """What counts for the requests of one target; two of them are the same if they are one object.

    Args:
        counted: the limits.

    Attributes:
        counted: the limits.
        limits: the limits alone.
        by_address: what the store is asked depends on the address of the client and on nothing else.
    """

    __slots__ = ("by_address", "counted", "limits")

    def __init__(self, counted: Counted) -> None:
        self.counted = counted
        self.limits = tuple(limit for limit, _ in counted)
        self.by_address = all(limit.by_address for limit in self.limits)
