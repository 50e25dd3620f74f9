"""What a Redis store keeps for threads: its connections to one server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from ratelimit_middleware.decision import Decision
from ratelimit_middleware.stores._deadline import Deadline
from ratelimit_middleware.stores._redis_plan import Ask, Planner, whole_time_us
from ratelimit_middleware.stores._redis_script import Script
from ratelimit_middleware.stores._redis_trip import Word
from ratelimit_middleware.stores.base import Check

__all__ = ["ThreadSide", "Threads"]


class Threads(Protocol):
    """The half of a `RedisStore` that is called from threads."""

    def take(self, checks: Sequence[Check]) -> list[Decision]:
        """The decisions of one request."""

    def call(self, name: str, ask: Ask, detail: bytes = b"") -> tuple[int, Any]:
        """Do one thing for one bucket: the moment and the reply."""

    def read(self, key: str) -> tuple[bytes | None, int]:
        """The entry of a bucket, if it has one, and its server's time in us."""

    def delete(self, key: str) -> bool:
        """Forget a bucket; True if it was there."""

    def scan(self, beginning: str) -> Iterator[str]:
        """The buckets whose keys begin so."""

    def size(self) -> int:
        """Keys in the database."""

    def close(self) -> None:
        """Close the connections."""


class _Link(Protocol):
    """A way to one server, as `ThreadLink`."""

    def run(self, script: Script, words: Sequence[Word], until: Deadline) -> Any:
        """What the script answers."""

    def command(self, *words: Word | str, until: Deadline) -> Any:
        """What a plain command answers."""

    def scan(self, pattern: bytes) -> Iterator[list[bytes]]:
        """The keys that match, some at a time."""

    def close(self) -> None:
        """Close the connections."""


class ThreadSide:
    """The threads' half of a store with one server.

    Args:
        planner: makes calls and reads replies.
        script: what the server runs.
        link: the connections.
        time_us: the time for tests; None = the server's.
        timeout_s: how long a call may take, whatever belongs to it.
    """

    def __init__(
        self,
        planner: Planner,
        script: Script,
        link: _Link,
        time_us: Callable[[], int | None],
        timeout_s: float,
    ) -> None:
        self._planner = planner
        self._script = script
        self._link = link
        self._time_us = time_us
        self._timeout_s = timeout_s

    def take(self, checks: Sequence[Check]) -> list[Decision]:
        """The decisions of one request."""
        ask = self._planner.ask(checks)
        return self._planner.decisions(ask, *self.call("take", ask, bytes([len(checks)])))

    def call(self, name: str, ask: Ask, detail: bytes = b"") -> tuple[int, Any]:
        """Do one thing for one request: the moment and the reply."""
        until = Deadline(self._timeout_s)
        while True:
            action = self._planner.call(name, [ask], detail, self._time_us())
            now_us, reply = self._link.run(self._script, action.words(), until)
            if self._planner.is_settled(ask, reply, now_us):
                return now_us, reply

    def read(self, key: str) -> tuple[bytes | None, int]:
        """The entry of a bucket, if it has one, and its server's time in us."""
        until = Deadline(self._timeout_s)
        entry = self._link.command("GET", self._planner.keys.key(key), until=until)
        return entry, whole_time_us(self._link.command("TIME", until=until))

    def delete(self, key: str) -> bool:
        """Forget a bucket; True if it was there."""
        key_there = self._planner.keys.key(key)
        return bool(self._link.command("DEL", key_there, until=Deadline(self._timeout_s)))

    def scan(self, beginning: str) -> Iterator[str]:
        """The buckets whose keys begin so."""
        keys = self._planner.keys
        for found in self._link.scan(keys.pattern(beginning)):
            yield from keys.names(found)

    def size(self) -> int:
        """Keys in the database."""
        return int(self._link.command("DBSIZE", until=Deadline(self._timeout_s)))

    def close(self) -> None:
        """Close the connections that no thread is using; a call after that opens new ones."""
        self._link.close()
