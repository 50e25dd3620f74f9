"""Ways to a Redis server: one for threads, one for an event loop. redis-py does the talking.

redis-py's own retries are off: whether a command may go out twice depends on what it does. A script that
books permits goes out again only after a reply (or a failed connect) which proves that nothing has run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, TypeAlias

from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.redis_url import RedisUrl
from ratelimit_middleware.stores._redis_script import Script

__all__ = ["LoopLink", "ThreadLink", "Word"]

Word: TypeAlias = "bytes | int"

_MAX_TRIES = 3
_MAX_CONNECTIONS = 10_000
# Under TLS 1.3 the server sends tickets after the handshake, which redis-py takes for a left reply. Saying
# a name is a first exchange in which they are read.
_CLIENT = "ratelimit-middleware"
_INSTALL = "pip install 'ratelimit-middleware[redis]'"


class _ConnectError(Exception):
    """No connection could be had (the cause says why): the command has not gone out."""


class _Trip:
    """A command on its way, and whether it may go out again."""

    def __init__(self, place: str, command: Sequence[Any], whole: Sequence[Any] = ()) -> None:
        self.command = command
        self._place = place
        self._whole = whole
        self._tries = 0

    def again(self, error: Exception) -> None:
        """Return if the command may go out once more.

        Raises:
            StoreError: it may have run, or there is no hope.
        """
        from redis import exceptions

        self._tries += 1
        cause = error.__cause__ if isinstance(error, _ConnectError) else error
        if not isinstance(cause, (exceptions.RedisError, OSError)):
            raise cause or error
        slow = isinstance(cause, (exceptions.TimeoutError, exceptions.AuthenticationError))
        not_connected = isinstance(error, _ConnectError) and not slow
        nothing_ran = isinstance(cause, (exceptions.BusyLoadingError, exceptions.ReadOnlyError))
        if self._whole and isinstance(cause, exceptions.NoScriptError):
            self.command, self._whole = self._whole, ()
        elif self._tries >= _MAX_TRIES or not (not_connected or nothing_ran):
            raise StoreError(f"{self._place} cannot answer: {type(cause).__name__}: {cause}") from cause


def _scripted(place: str, script: Script, words: Sequence[Word]) -> _Trip:
    return _Trip(place, ("EVALSHA", script.sha, *words), ("EVAL", script.source, *words))


def _pool(kind: Any, retry: type[Any], address: RedisUrl, timeout_s: float) -> Any:
    """A pool of connections, none made yet.

    Raises:
        StoreError: redis-py does not understand the address.
    """
    from redis.backoff import NoBackoff

    try:
        return kind.from_url(
            address.at(),
            retry=retry(NoBackoff(), 0),
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            max_connections=_MAX_CONNECTIONS,
            protocol=2,
            client_name=_CLIENT if address.scheme == "rediss" else None,
            **_no_name(),
        )
    except (ValueError, TypeError) as error:
        raise StoreError(f"the URL of {address.place} is not understood: {error}") from error


def _no_name() -> dict[str, None]:
    """Keeps redis-py from telling its version, for which it would read files on an event loop."""
    if find_spec("redis.driver_info"):
        return {"driver_info": None}
    return {"lib_name": None, "lib_version": None}


class ThreadLink:
    """A pool of connections for threads; a forked process makes its own.

    Args:
        address: the server.
        timeout_s: how long connecting and each reply may take.

    Raises:
        StoreError: redis-py is not installed, or does not understand the address.
    """

    def __init__(self, address: RedisUrl, timeout_s: float) -> None:
        try:
            from redis import ConnectionPool, exceptions
            from redis.retry import Retry
        except ImportError as error:
            raise StoreError(f"the Redis store needs redis-py: {_INSTALL}") from error
        self._place = address.place
        self._pool = _pool(ConnectionPool, Retry, address, timeout_s)
        self._nothing_ran = (exceptions.BusyLoadingError, exceptions.ReadOnlyError)

    def run(self, script: Script, words: Sequence[Word]) -> Any:
        """What the script answers.

        Raises:
            StoreError: the server does not answer, or refuses.
        """
        return self._go(_scripted(self._place, script, words))

    def command(self, *words: Word | str) -> Any:
        """What a plain command answers.

        Raises:
            StoreError: the server does not answer, or refuses.
        """
        return self._go(_Trip(self._place, words))

    def _go(self, trip: _Trip) -> Any:
        try:
            return self._once(trip.command)
        except Exception as error:  # noqa: BLE001 - it knows which ones it takes
            trip.again(error)
        return self._go(trip)

    def _once(self, command: Sequence[Any]) -> Any:
        try:
            connection = self._pool.get_connection()
        except Exception as error:
            raise _ConnectError from error
        try:
            connection.send_command(*command)
            return connection.read_response()
        except self._nothing_ran:
            connection.disconnect()  # the name may lead to another server now
            raise
        finally:
            self._pool.release(connection)

    def close(self) -> None:
        """Close the connections that no thread is using; a call after that opens new ones."""
        self._pool.disconnect(inuse_connections=False)


def _packer() -> Callable[[tuple[Any, ...]], bytes] | None:
    """A quick way to write commands: redis-py takes it for threads by itself, but not for asyncio."""
    try:
        from hiredis import pack_command
    except ImportError:
        return None
    return pack_command


class LoopLink:
    """The connections of one event loop.

    Args:
        address: the server.
        timeout_s: how long connecting and each reply may take.

    Raises:
        StoreError: redis-py is not installed, or does not understand the address.
    """

    def __init__(self, address: RedisUrl, timeout_s: float) -> None:
        from redis import exceptions
        from redis.asyncio import ConnectionPool
        from redis.asyncio.retry import Retry

        self._place = address.place
        self._pool = _pool(ConnectionPool, Retry, address, timeout_s)
        self._nothing_ran = (exceptions.BusyLoadingError, exceptions.ReadOnlyError)
        self._packed = _packer()

    async def run(self, script: Script, words: Sequence[Word]) -> Any:
        """As `ThreadLink.run`."""
        return await self._go(_scripted(self._place, script, words))

    async def command(self, *words: Word | str) -> Any:
        """As `ThreadLink.command`."""
        return await self._go(_Trip(self._place, words))

    async def _go(self, trip: _Trip) -> Any:
        try:
            return await self._once(trip.command)
        except Exception as error:  # noqa: BLE001 - it knows which ones it takes
            trip.again(error)
        return await self._go(trip)

    async def _once(self, command: Sequence[Any]) -> Any:
        try:
            connection = await self._pool.get_connection()
        except Exception as error:
            raise _ConnectError from error
        try:
            if self._packed:
                await connection.send_packed_command(self._packed(tuple(command)))
            else:
                await connection.send_command(*command)
            return await connection.read_response()
        except self._nothing_ran:
            await connection.disconnect()  # the name may lead to another server now
            raise
        finally:
            await self._pool.release(connection)

    async def close(self) -> None:
        """Close all connections; a call after that opens new ones."""
        await self._pool.disconnect()
