"""ThreadPool: connections of threads to one Redis server, made aside."""

from __future__ import annotations

import os
from _thread import start_new_thread
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

__all__ = ["ThreadPool"]


class ThreadPool:
    """Connections that nobody uses now; a forked process begins with none.

    redis-py's own pool connects where the connection is needed, and no time that it is given holds for all of
    it: the name is looked up, each address of the host is tried, and the handshake takes several replies.
    Here a thread of its own connects, and whoever needs the connection waits only as long as it can.

    Args:
        make: makes a connection of redis-py that is not connected yet.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._idle: list[Any] = []
        self._pid = os.getpid()

    def idle(self) -> Any:
        """A connection that is there and in order; None if there is none."""
        if self._pid != os.getpid():
            self._idle, self._pid = [], os.getpid()
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if _is_in_order(connection):
                return connection
            connection.disconnect()

    def connect(self) -> Future[Any]:
        """A new connection, soon; one that comes after the future was cancelled waits for the next caller."""
        future: Future[Any] = Future()
        # Thread.start() waits until the thread runs, which has been seen to take a second on a busy machine.
        start_new_thread(self._connect, (future, self._idle))
        return future

    def _connect(self, future: Future[Any], idle: list[Any]) -> None:
        try:
            connection = self._make()
            connection.connect()
        except Exception as error:  # noqa: BLE001 - it is for the caller
            if future.set_running_or_notify_cancel():
                future.set_exception(error)
            return
        if future.set_running_or_notify_cancel():
            future.set_result(connection)
        else:
            idle.append(connection)  # if the pool was closed meanwhile, nobody has the list any more

    def put_back(self, connection: Any) -> None:
        """Keep a connection on which nothing is outstanding."""
        self._idle.append(connection)

    def close(self) -> None:
        """Close the connections that nobody uses; a call after that opens new ones."""
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.disconnect()


def _is_in_order(connection: Any) -> bool:
    """Whether the server has neither closed it nor sent anything that nobody has asked for."""
    with suppress(Exception):
        return not connection.can_read()
    return False
