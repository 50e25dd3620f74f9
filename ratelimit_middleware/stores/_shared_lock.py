"""The lock by which the processes of a host take turns at the shared store's file.

A lock of the kernel, not LMDB's own, a robust mutex in shared memory: a waiter that is killed right after
it was woken takes the wake-up with it, and the next one sleeps on, with the mutex free. What the kernel
holds for a process is handed on whenever the process ends. (It is a lock of the process, not of a
descriptor, which a forked child would share.)
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

__all__ = ["FileLock", "exclusively"]

_TRIES = 20


class FileLock:
    """Keeps other processes (not other threads) out of a file.

    Args:
        descriptor: of the file, open for writing.
    """

    def __init__(self, descriptor: int) -> None:
        import fcntl

        self._sleep = partial(fcntl.lockf, descriptor, fcntl.LOCK_EX)
        self._grab = partial(fcntl.lockf, descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.release = partial(fcntl.lockf, descriptor, fcntl.LOCK_UN)

    def hold(self) -> None:
        """Return when no other process holds it."""
        try:
            self._grab()
        except BlockingIOError:
            self._wait()

    def _wait(self) -> None:
        """Try a few times, then sleep.

        A call takes less time than falling asleep and being woken, and whoever has been woken often finds
        the lock taken again. In the second half of the tries others may have the processor: the one that
        holds the lock may be waiting for it.
        """
        for turn in range(_TRIES):
            if turn >= _TRIES // 2:
                os.sched_yield()
            try:
                self._grab()
            except BlockingIOError:
                continue
            return
        self._sleep()


@contextmanager
def exclusively(descriptor: int) -> Iterator[None]:
    """Hold it for a while, where a few microseconds more do not matter."""
    lock = FileLock(descriptor)
    lock.hold()
    try:
        yield
    finally:
        lock.release()
