"""ThreadLink: the way of threads to a Redis server. redis-py does the talking."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ratelimit_middleware.redis_url import RedisUrl
from ratelimit_middleware.stores._redis_pool import make_pool
from ratelimit_middleware.stores._redis_script import Script
from ratelimit_middleware.stores._redis_trip import Command, ConnectError, Trip, Word, scan, scripted, whole

__all__ = ["Exchange", "ThreadLink"]


class ThreadLink:
    """A pool of connections for threads; a forked process makes its own.

    Args:
        address: the server.
        timeout_s: how long connecting and each reply may take.

    Raises:
        StoreError: redis-py does not understand the address.
    """

    def __init__(self, address: RedisUrl, timeout_s: float) -> None:
        from redis import ConnectionPool, exceptions
        from redis.retry import Retry

        self._place = address.place
        self._pool = make_pool(ConnectionPool, Retry, address, timeout_s)
        self._nothing_ran = (exceptions.BusyLoadingError, exceptions.ReadOnlyError)

    def run(self, script: Script, words: Sequence[Word]) -> Any:
        """What the script answers.

        Raises:
            StoreError: the server does not answer, or refuses.
        """
        return self._go(Trip(self._place, scripted(script, words), whole(script, words)))

    def command(self, *words: Word | str) -> Any:
        """What a plain command answers.

        Raises:
            StoreError: the server does not answer, or refuses.
        """
        return self._go(Trip(self._place, words))

    def _go(self, trip: Trip) -> Any:
        try:
            return self._once(trip.command)
        except Exception as error:  # noqa: BLE001 - it knows which ones it takes
            trip.again(error)
        return self._go(trip)

    def _once(self, command: Sequence[Any]) -> Any:
        try:
            connection = self._pool.get_connection()
        except Exception as error:
            raise ConnectError from error
        try:
            connection.send_command(*command)
            return connection.read_response()
        except self._nothing_ran:
            connection.disconnect()  # the name may lead to another server now
            raise
        finally:
            self._pool.release(connection)

    def scan(self, pattern: bytes) -> Iterator[list[bytes]]:
        """The keys that match, some at a time.

        Raises:
            StoreError: the server does not answer.
        """
        cursor = 0
        while True:
            cursor, found = self.command(*scan(cursor, pattern))
            yield found
            cursor = int(cursor)
            if not cursor:
                return

    def begin(self, commands: Sequence[Command]) -> Exchange:
        """Send commands together, and leave their replies to be read."""
        return Exchange(self._pool, commands)

    def close(self) -> None:
        """Close the connections that no thread is using; a call after that opens new ones."""
        self._pool.disconnect(inuse_connections=False)


class Exchange:
    """Commands that have gone out together over one connection of a thread, and their replies.

    Args:
        pool: where the connection is from, and goes when this is closed.
        commands: what goes out.
    """

    def __init__(self, pool: Any, commands: Sequence[Command]) -> None:
        self._pool = pool
        self._left = len(commands)
        self._error: Exception | None = None
        self._connection = None
        try:
            self._connection = pool.get_connection()
        except Exception as error:  # noqa: BLE001 - it is the reply
            self._error = ConnectError()
            self._error.__cause__ = error
            return
        try:
            self._connection.send_packed_command(self._connection.pack_commands(commands))
        except Exception as error:  # noqa: BLE001 - it is the reply
            self._error = error

    def read(self) -> list[Any]:
        """The replies, errors among them; what has none has the error that ended the connection."""
        from redis.exceptions import ResponseError

        replies: list[Any] = []
        while self._left and not self._error and self._connection is not None:
            try:
                replies.append(self._connection.read_response())
            except ResponseError as error:
                replies.append(error)
            except Exception as error:  # noqa: BLE001 - it is the reply
                self._error = error
                break
            self._left -= 1
        return replies + [self._error] * self._left

    def close(self) -> None:
        """Hand the connection back; one with replies that nobody has read is closed."""
        if self._connection is not None:
            if self._left:
                self._connection.disconnect()
            self._pool.release(self._connection)
            self._connection = None
