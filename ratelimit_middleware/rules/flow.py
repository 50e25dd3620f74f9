"""Flow limits: what passes within a request that has been admitted, messages or bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ratelimit_middleware.rules.limit import Limit

__all__ = ["FlowKind", "FlowLimit", "OnExcess"]

FlowKind: TypeAlias = Literal["messages"]
OnExcess: TypeAlias = Literal["delay", "drop", "close"]


@dataclass(frozen=True, slots=True)
class FlowLimit(Limit):
    """A limit on what flows: a permit is a message that the client sends over a WebSocket.

    It says nothing of how often somebody comes, so `default` counts beside it.

    Attributes:
        kind: what flows.
        on_excess: what becomes of a message over the limit.
        per_connection: each connection has its own count, whoever opened it, in this process alone.
    """

    kind: FlowKind = "messages"
    on_excess: OnExcess = "close"
    per_connection: bool = False

    def __post_init__(self) -> None:
        """As every limit, but that it covers nothing."""
        Limit.__post_init__(self)
        object.__setattr__(self, "covers", False)

    @property
    def told(self) -> str:
        """What it does, in a few words."""
        return f"messages, on excess {self.on_excess}"
