"""Talk: commands for any number of servers and their replies, without the sockets."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple, TypeAlias, TypeVar

from ratelimit_middleware.redis_url import Node
from ratelimit_middleware.stores._redis_trip import Command

__all__ = ["TO_LOOK", "Batch", "Talk"]

TO_LOOK = 0.5
"""The patience of those who ask who is the server while they know one: there must be time to ask that one."""

_T = TypeVar("_T")


class Batch(NamedTuple):
    """Commands that go to one server together.

    Attributes:
        node: the server.
        commands: what goes out.
        patience: the share of a call's time that may be spent on it; what comes later is unanswered.
    """

    node: Node
    commands: list[Command]
    patience: float = 1.0


Talk: TypeAlias = "Generator[list[Batch], list[list[Any]], _T]"
"""Gives batches, which go out at the same time; is sent a list of replies for each; ends with a result."""
