"""Exchange: commands that go to one server together, and their replies, for a thread."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, as_completed
from concurrent.futures import TimeoutError as NotInTimeError
from contextlib import suppress
from typing import Any

from ratelimit_middleware.stores._deadline import Deadline
from ratelimit_middleware.stores._redis_thread_pool import ThreadPool
from ratelimit_middleware.stores._redis_trip import Command, ConnectError, no_connection

__all__ = ["Exchange", "replies"]


class Exchange:
    """Commands over one connection. They go out at once if there is one, else when it is there.

    Args:
        pool: where the connection is from, and goes when this is closed.
        commands: what goes out.

    Attributes:
        connecting: the connection that is being made, if there was none.
    """

    def __init__(self, pool: ThreadPool, commands: Sequence[Command]) -> None:
        self._pool = pool
        self._commands = commands
        self._left = len(commands)
        self._error: Exception | None = None
        self._leads_astray = (
            False  # the name of a server that is no primary any more may lead to another one now
        )
        self._connection = pool.idle()
        self.connecting: Future[Any] | None = None
        if self._connection is None:
            self.connecting = pool.connect()
        else:
            self._send()

    def connected(self) -> None:
        """Send, now that it is known how connecting has ended, or that there is no time for it any more."""
        connecting, self.connecting = self.connecting, None
        if connecting is None:
            return
        if connecting.cancel():
            self._error = no_connection()
            return
        try:
            self._connection = connecting.result()
        except Exception as error:  # noqa: BLE001 - it is the reply
            self._error = ConnectError()
            self._error.__cause__ = error
        else:
            self._send()

    def keep(self) -> None:
        """Keep the connection that is there now for the next call: too little time is left in this one."""
        if self.connecting is not None and not self.connecting.exception():
            self._pool.put_back(self.connecting.result())
            self.connecting, self._error = None, no_connection()

    def _send(self) -> None:
        try:
            self._connection.send_packed_command(self._connection.pack_commands(self._commands))
        except Exception as error:  # noqa: BLE001 - it is the reply
            self._error = error

    def read(self, until: Deadline) -> list[Any]:
        """The replies, errors among them; what has none has the error that ended the connection."""
        from redis.exceptions import ReadOnlyError, ResponseError

        self.connected()
        answers: list[Any] = []
        while self._left and not self._error:
            try:
                answers.append(self._reply(until))
            except ResponseError as error:
                answers.append(error)
                # The name of a server that is no primary any more may lead to another one now.
                self._leads_astray |= isinstance(error, ReadOnlyError)
            except Exception as error:  # noqa: BLE001 - it is the reply
                self._error = error
                break
            self._left -= 1
        return answers + [self._error] * self._left

    def _reply(self, until: Deadline) -> Any:
        from redis.exceptions import TimeoutError as RedisTimeoutError

        if not self._connection.can_read(until.left_s()):
            raise RedisTimeoutError("Timeout reading from socket")
        return self._connection.read_response()

    def close(self) -> None:
        """Hand the connection back; one with replies that nobody has read is closed."""
        if self.connecting is not None:
            self.connecting.cancel()
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._left or self._leads_astray:
            connection.disconnect()
        else:
            self._pool.put_back(connection)


def replies(asked: Sequence[tuple[ThreadPool, Sequence[Command]]], until: Deadline) -> list[list[Any]]:
    """The replies to commands that go to several servers at the same time, as `Exchange.read` has them."""
    if not until.left_s():
        return [[no_connection()] * len(commands) for _, commands in asked]
    exchanges: list[Exchange] = []
    try:
        exchanges.extend(Exchange(pool, commands) for pool, commands in asked)
        _connect(exchanges, until)
        return [exchange.read(until) for exchange in exchanges]
    finally:
        for exchange in exchanges:
            exchange.close()


def _connect(exchanges: Sequence[Exchange], until: Deadline) -> None:
    """Wait for connections; each sends as soon as it is there, so that a slow server holds up no other.

    One that has used up half of the time is kept for the next call. Else a server that takes nearly all of it
    to connect would be connected to in each call, and never be heard.
    """
    half_s = until.left_s() / 2
    waiting = {exchange.connecting: exchange for exchange in exchanges if exchange.connecting}
    if waiting:
        with suppress(NotInTimeError):
            for connecting in as_completed(waiting, until.left_s()):
                if until.left_s() < half_s:
                    waiting[connecting].keep()
                waiting[connecting].connected()
