"""Talk: commands for any number of servers and their replies, without the sockets."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple, TypeAlias, TypeVar

from ratelimit_middleware.redis_url import Node
from ratelimit_middleware.stores._redis_trip import Command

__all__ = ["Batch", "Talk"]

_T = TypeVar("_T")


class Batch(NamedTuple):
    """Commands that go to one server together."""

    node: Node
    commands: list[Command]


Talk: TypeAlias = "Generator[list[Batch], list[list[Any]], _T]"
"""Gives batches, which go out at the same time; is sent a list of replies for each; ends with a result."""
