"""Commands on their way to Redis: pure, for threads and event loops alike.

redis-py's own retries are off: whether a command may go out twice depends on what it does. A script that
books permits goes out again only after a reply (or a failed connect) which proves that nothing has run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from ratelimit_middleware.errors import StoreError, UnreadableBucketError
from ratelimit_middleware.stores._redis_script import Script

__all__ = [
    "Command",
    "ConnectError",
    "LateReplyError",
    "Trip",
    "Word",
    "cannot_answer",
    "is_slow",
    "no_connection",
    "scan",
    "scripted",
    "whole",
]

Word: TypeAlias = "bytes | int"
Command: TypeAlias = "Sequence[Any]"

_MAX_TRIES = 3
_SCAN_COUNT = 500


class ConnectError(Exception):
    """No connection could be had (the cause says why): the command has not gone out."""


def no_connection() -> ConnectError:
    """There was no time to connect, or nobody waits for it any more."""
    from redis.exceptions import TimeoutError as RedisTimeoutError

    error = ConnectError()
    error.__cause__ = RedisTimeoutError("Timeout connecting to server")
    return error


class LateReplyError(StoreError, TimeoutError):
    """There was no connection, or no reply, in time."""


class Trip:
    """A command on its way to one server, and whether it may go out again."""

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
        cause = error.__cause__ if isinstance(error, ConnectError) else error
        if not isinstance(cause, (exceptions.RedisError, OSError)):
            raise cause or error
        not_connected = isinstance(error, ConnectError) and not is_slow(error)
        nothing_ran = isinstance(cause, (exceptions.BusyLoadingError, exceptions.ReadOnlyError))
        if self._whole and isinstance(cause, exceptions.NoScriptError):
            self.command, self._whole = self._whole, ()
        elif self._tries >= _MAX_TRIES or not (not_connected or nothing_ran):
            raise cannot_answer(self._place, error) from cause


def is_slow(error: ConnectError) -> bool:
    """Whether another try would cost as much time, or fail as this one has."""
    from redis import exceptions

    return isinstance(error.__cause__, (exceptions.TimeoutError, exceptions.AuthenticationError))


def cannot_answer(place: str, error: Exception) -> StoreError:
    """The error for whoever has asked."""
    from redis.exceptions import TimeoutError as RedisTimeoutError

    cause = error.__cause__ if isinstance(error, ConnectError) else error
    kind = LateReplyError if isinstance(cause, RedisTimeoutError) else StoreError
    if str(cause).startswith("WRONGTYPE"):
        kind = UnreadableBucketError  # a key of another type is no fault of the server's
    return kind(f"{place} cannot answer: {type(cause).__name__}: {cause}")


def scan(cursor: int, pattern: bytes) -> tuple[Any, ...]:
    """The command that lists some of the keys that match."""
    return ("SCAN", cursor, "MATCH", pattern, "COUNT", _SCAN_COUNT)


def scripted(script: Script, words: Sequence[Word]) -> tuple[Any, ...]:
    """The command that runs a script which the server has."""
    return ("EVALSHA", script.sha, *words)


def whole(script: Script, words: Sequence[Word]) -> tuple[Any, ...]:
    """The command that brings the script along."""
    return ("EVAL", script.source, *words)
