"""Flow limits: what passes within a request that has been admitted, messages or bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ratelimit_middleware.rules.limit import Limit

__all__ = ["FlowKind", "FlowLimit", "OnExcess"]

FlowKind: TypeAlias = Literal["messages", "response", "request"]
OnExcess: TypeAlias = Literal["delay", "drop", "close"]


@dataclass(frozen=True, slots=True)
class FlowLimit(Limit):
    """A limit on what flows: a permit is a message that a client sends over a WebSocket, or a byte of a body.

    It says nothing of how often somebody comes, so `default` counts beside it.

    Attributes:
        kind: what flows: messages, or the body of the response or request.
        on_excess: what becomes of a message over the limit; bytes wait.
        per_connection: each connection has its own count, whoever opened it, in this process alone.
        piece: permits that are taken at a time, at most.
    """

    kind: FlowKind = "messages"
    on_excess: OnExcess = "close"
    per_connection: bool = False
    piece: int = 1

    def __post_init__(self) -> None:
        """As every limit, but that it covers nothing."""
        Limit.__post_init__(self)
        object.__setattr__(self, "covers", False)

    @property
    def told(self) -> str:
        """What it does, in a few words."""
        if self.kind == "messages":
            return f"messages, on excess {self.on_excess}"
        return f"{self.kind} bodies, in pieces of {self.piece} bytes"
