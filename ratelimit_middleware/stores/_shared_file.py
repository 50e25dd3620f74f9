"""The file behind `SharedStore`: an LMDB database that all workers of a host have mapped.

Two rules shape this module. LMDB's: a file is opened once in a process, and a handle is not used after a
fork. And that of file locks: closing *any* descriptor of a file drops the process's locks on it. So all
stores of a process share one `SharedFile`, and whoever finds it inherited closes it before opening anew.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from mmap import PAGESIZE
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakValueDictionary, finalize

from ratelimit_middleware.clock import SystemClock
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.stores._shared_lock import FileLock
from ratelimit_middleware.stores._shared_place import Opened, is_set_aside, open_database, set_aside
from ratelimit_middleware.stores._shared_room import Room

if TYPE_CHECKING:
    import lmdb

__all__ = ["FullError", "ReplacedError", "SharedFile", "shared_file"]

_T = TypeVar("_T")

_LOOK_EVERY = 256


class FullError(StoreError):
    """There is no room for what has to be written."""


class ReplacedError(StoreError):
    """The file is no longer the one to use: it was closed, removed or set aside. Ask for it again."""


class SharedFile:
    """One opened database; its calls are serialised, within the process and between processes.

    Attributes:
        path: the data file.
        pid: the process that opened it.
        lock: held while the database is worked on.
        now_ns: the time of all processes that have the file open.
        room: what is left of its pages.
    """

    def __init__(self, opened: Opened) -> None:
        import lmdb

        self.path, self._descriptor, env, offset_ns = opened
        self.pid = os.getpid()
        self.lock = threading.Lock()
        self.now_ns = SystemClock(offset_ns).now_ns
        self.room = Room(os.fstat(self._descriptor).st_size // PAGESIZE)
        self._env: lmdb.Environment | None = env
        self._shut = finalize(self, _shut, env, self._descriptor)
        self._shut.atexit = False
        self._turn = FileLock(self._descriptor)
        self._calls = 0
        self._lmdb_error = lmdb.Error
        self._full = (lmdb.MapFullError, lmdb.TxnFullError)
        self._hosed = (lmdb.PanicError, lmdb.BadTxnError)
        self._broken = (lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.InvalidError)

    def run(
        self,
        enter: Callable[[lmdb.Transaction[bytes]], object],
        work: Callable[..., _T],
        arguments: tuple[object, ...],
    ) -> _T:
        """Call `enter(transaction)`, then `work(*arguments)`.

        All that they write is kept, or after an exception nothing.

        Raises:
            ReplacedError: the file has to be asked for again.
            FullError: there is no room.
            StoreError: the database refuses.
        """
        with self.lock:
            env = self._current()
            try:
                self._turn.hold()
                try:
                    transaction = env.begin(write=True)  # as a context manager it would cost a third more
                    try:
                        enter(transaction)
                        result = work(*arguments)
                        transaction.commit()
                    except BaseException:
                        transaction.abort()
                        raise
                    return result
                finally:
                    self._turn.release()
            except self._full as error:
                raise FullError(f"shared store {self.path}: {error}") from error
            except self._broken as error:
                set_aside(self.path, self._descriptor, str(error))
                self._let_go()
                raise self._replaced() from error
            except self._hosed as error:
                self._let_go()
                raise self._replaced() from error
            except self._lmdb_error as error:
                raise StoreError(f"shared store {self.path}: {error}") from error

    def _current(self) -> lmdb.Environment:
        """The handle, looked after now and then: other workers may have gone on to another file."""
        if self._env is None:
            raise self._replaced()
        self._calls += 1
        if not self._calls % _LOOK_EVERY and not self._in_place():
            self._let_go()
            raise self._replaced()
        return self._env

    def _replaced(self) -> ReplacedError:
        return ReplacedError(f"shared store {self.path} was closed, removed or set aside")

    def _let_go(self) -> None:
        self._env = None
        self._shut()

    def _in_place(self) -> bool:
        """Whether the file is neither removed nor set aside; asks the descriptor, so it never waits."""
        found = os.fstat(self._descriptor)
        return found.st_nlink > 0 and not is_set_aside(found)

    @property
    def is_open(self) -> bool:
        """Whether this process may use it."""
        return self.pid == os.getpid() and self._env is not None and self._in_place()

    def close(self) -> None:
        """Close the handle; in a child process it may be one that the parent opened.

        Raises:
            StoreError: the process was forked, without Python's knowledge, in the middle of a call.
        """
        if self.pid != os.getpid() and self.lock.locked():
            raise StoreError(f"shared store {self.path}: the process was forked while the store was at work")
        with self.lock:
            self._let_go()


def _shut(env: lmdb.Environment, descriptor: int) -> None:
    env.close()
    os.close(descriptor)


# By directory. The rules of LMDB hold for the process, so this cannot live in an object.
_files: WeakValueDictionary[Path, SharedFile] = WeakValueDictionary()
_files_lock = threading.Lock()
_held: list[threading.Lock] = []


def shared_file(directory: Path, size: int) -> SharedFile:
    """The file in `directory`, opened for this process; made with `size` bytes if there is none.

    Raises:
        StoreError: it cannot be opened, or it would not be safe to.
    """
    _watch_forks()
    with _files_lock:
        file = _files.get(directory)
        if file is not None and file.is_open:
            return file
        if file is not None:
            file.close()
        file = _files[directory] = SharedFile(open_database(directory, size))
        return file


@functools.cache
def _watch_forks() -> None:
    """Let no fork happen while a thread is at work: the child could not close what it inherits."""
    os.register_at_fork(before=_hold_all, after_in_parent=_release_all, after_in_child=_release_all)


def _hold_all() -> None:
    _files_lock.acquire()
    _held.append(_files_lock)
    for file in list(_files.values()):
        file.lock.acquire()
        _held.append(file.lock)


def _release_all() -> None:
    while _held:
        _held.pop().release()
