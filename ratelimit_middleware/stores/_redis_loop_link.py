"""LoopLink: the way of one event loop to a Redis server. redis-py does the talking."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from ratelimit_middleware.redis_url import RedisUrl
from ratelimit_middleware.stores._redis_pool import make_pool
from ratelimit_middleware.stores._redis_script import Script
from ratelimit_middleware.stores._redis_trip import Command, ConnectError, Trip, Word, scan, scripted, whole

__all__ = ["LoopLink"]


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
        self._pool = make_pool(ConnectionPool, Retry, address, timeout_s)
        self._nothing_ran = (exceptions.BusyLoadingError, exceptions.ReadOnlyError)
        self._packed = _packer()
        self._is_retired = False

    async def run(self, script: Script, words: Sequence[Word]) -> Any:
        """As `ThreadLink.run`."""
        return await self._go(Trip(self._place, scripted(script, words), whole(script, words)))

    async def command(self, *words: Word | str) -> Any:
        """As `ThreadLink.command`."""
        return await self._go(Trip(self._place, words))

    async def _go(self, trip: Trip) -> Any:
        try:
            return await self._once(trip.command)
        except Exception as error:  # noqa: BLE001 - it knows which ones it takes
            trip.again(error)
        return await self._go(trip)

    async def _once(self, command: Sequence[Any]) -> Any:
        try:
            connection = await self._pool.get_connection()
        except Exception as error:
            raise ConnectError from error
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

    async def scan(self, pattern: bytes) -> AsyncIterator[list[bytes]]:
        """As `ThreadLink.scan`."""
        cursor = 0
        while True:
            cursor, found = await self.command(*scan(cursor, pattern))
            yield found
            cursor = int(cursor)
            if not cursor:
                return

    async def exchange(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands together: their replies, errors among them, as `Exchange.read` has them."""
        try:
            connection = await self._pool.get_connection()
        except Exception as error:  # noqa: BLE001 - it is the reply
            failed = ConnectError()
            failed.__cause__ = error
            return [failed] * len(commands)
        try:
            return await self._exchanged(connection, commands)
        finally:
            if self._is_retired:
                await connection.disconnect()
            await self._pool.release(connection)

    async def _exchanged(self, connection: Any, commands: Sequence[Command]) -> list[Any]:
        replies: list[Any] = []
        try:
            pack = self._packed or (lambda command: b"".join(connection.pack_command(*command)))
            await connection.send_packed_command(b"".join(pack(tuple(command)) for command in commands))
            for _ in commands:
                replies.append(await _reply(connection))  # noqa: PERF401 - those before a failure count
        except Exception as error:  # noqa: BLE001 - it is the reply
            await connection.disconnect(nowait=True)
            replies += [error] * (len(commands) - len(replies))
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return replies

    async def retire(self) -> None:
        """Close each connection as soon as it is not used any more."""
        self._is_retired = True
        await self._pool.disconnect(inuse_connections=False)

    async def close(self) -> None:
        """Close all connections; a call after that opens new ones."""
        await self._pool.disconnect()


async def _reply(connection: Any) -> Any:
    """A reply; an error that the server has sent is one."""
    from redis.exceptions import ResponseError

    try:
        return await connection.read_response()
    except ResponseError as error:
        return error
