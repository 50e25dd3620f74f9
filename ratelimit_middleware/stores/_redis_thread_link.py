"""ThreadLink: the way of threads to a Redis server. redis-py does the talking."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ratelimit_middleware.redis_url import RedisUrl
from ratelimit_middleware.stores._deadline import Deadline
from ratelimit_middleware.stores._redis_exchange import replies
from ratelimit_middleware.stores._redis_pool import make_pool
from ratelimit_middleware.stores._redis_script import Script
from ratelimit_middleware.stores._redis_thread_pool import ThreadPool
from ratelimit_middleware.stores._redis_trip import Trip, Word, scan, scripted, whole

__all__ = ["ThreadLink"]


class ThreadLink:
    """The connections of threads; a forked process makes its own.

    Args:
        address: the server.
        timeout_s: how long each step of connecting may take, and a page of a listing.

    Attributes:
        pool: of connections.

    Raises:
        StoreError: redis-py does not understand the address.
    """

    def __init__(self, address: RedisUrl, timeout_s: float) -> None:
        from redis import ConnectionPool
        from redis.retry import Retry

        self._place = address.place
        self._timeout_s = timeout_s
        made = make_pool(ConnectionPool, Retry, address, timeout_s)
        self.pool = ThreadPool(lambda: made.connection_class(**made.connection_kwargs))

    def run(self, script: Script, words: Sequence[Word], until: Deadline) -> Any:
        """What the script answers.

        Raises:
            StoreError: the server does not answer in time, or refuses.
        """
        return self._go(Trip(self._place, scripted(script, words), whole(script, words)), until)

    def command(self, *words: Word | str, until: Deadline) -> Any:
        """What a plain command answers.

        Raises:
            StoreError: the server does not answer in time, or refuses.
        """
        return self._go(Trip(self._place, words), until)

    def _go(self, trip: Trip, until: Deadline) -> Any:
        while True:
            [[reply]] = replies([(self.pool, [trip.command])], until)
            if not isinstance(reply, Exception):
                return reply
            trip.again(reply)

    def scan(self, pattern: bytes) -> Iterator[list[bytes]]:
        """The keys that match, some at a time.

        Raises:
            StoreError: the server does not answer in time.
        """
        cursor = 0
        while True:
            cursor, found = self.command(*scan(cursor, pattern), until=Deadline(self._timeout_s))
            yield found
            cursor = int(cursor)
            if not cursor:
                return

    def close(self) -> None:
        """Close the connections that no thread is using; a call after that opens new ones."""
        self.pool.close()
