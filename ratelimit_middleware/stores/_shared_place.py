"""Where the shared store's file lies: made safely, allocated in full, replaced when it is broken.

The directory belongs to the user and only the user may write in it, so nobody else can put a link or a
file there. The file's name holds the version of the layout and the id of the boot: another version is
another file, and what is left from before a reboot (it may be torn, and its clock has ended) is removed
unread. All of this happens under a lock on the directory.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from mmap import PAGESIZE
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ratelimit_middleware.clock import SystemClock
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.stores._packing import pack, unpack
from ratelimit_middleware.stores._shared_lock import exclusively

if TYPE_CHECKING:
    import lmdb

__all__ = [
    "HEADER",
    "LEAST_BYTES",
    "Opened",
    "default_directory",
    "is_set_aside",
    "open_database",
    "set_aside",
]

logger = logging.getLogger("ratelimit_middleware.stores")

HEADER = b"\0"
"""Key of the one record that is no bucket: the file's size, and the offset of its clock."""

LEAST_BYTES = 1 << 20
"""The smallest file, bytes."""

_LAYOUT = 3
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_SETTINGS: dict[str, Any] = {"subdir": False, "mode": 0o600, "sync": False, "lock": False}
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class _BrokenError(StoreError):
    """The file is not one of ours, or not whole."""


def default_directory() -> Path:
    """The user's own place in memory, or among the temporary files."""
    memory = Path("/dev/shm")  # noqa: S108 - what is made in it is checked for its owner
    parent = memory if os.access(memory, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())
    return parent / f"ratelimit-middleware-{os.geteuid()}"


class Opened(NamedTuple):
    """A database that has been opened.

    Attributes:
        path: the data file.
        descriptor: an open descriptor of it, for locking it and looking after it.
        env: LMDB's handle.
        offset_ns: wall time minus monotonic time, the same for all who open the file.
    """

    path: Path
    descriptor: int
    env: lmdb.Environment
    offset_ns: int


def open_database(directory: Path, size: int) -> Opened:
    """Open the database in `directory`; made with `size` bytes if there is none.

    Raises:
        StoreError: it cannot be opened, or it would not be safe to.
    """
    with _locked(directory):
        path = _path_of_this_boot(directory)
        try:
            return _open(path, size)
        except _BrokenError as error:
            _move_aside(path, str(error))
        return _open(path, size)


def set_aside(path: Path, descriptor: int, reason: str) -> None:
    """Move a broken file out of the way, unless another worker has done so already.

    Args:
        path: where it was opened.
        descriptor: an open descriptor of it.
        reason: what is wrong with it.

    Raises:
        StoreError: it cannot be moved.
    """
    with _locked(path.parent):
        if path.exists() and os.path.samestat(path.stat(), os.fstat(descriptor)):
            _move_aside(path, reason)


def is_set_aside(found: os.stat_result) -> bool:
    """Whether somebody has moved the file out of the way since it was opened."""
    return not found.st_mode & stat.S_IWUSR


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Keep other processes from opening, making or moving files in the directory."""
    if sys.platform != "linux":
        raise StoreError("shared:// needs Linux; elsewhere use memory:// with one worker, or a server")
    if find_spec("lmdb") is None:
        raise StoreError('shared:// needs lmdb: pip install "ratelimit-middleware[shared]"')
    import fcntl

    descriptor = _trusted(directory)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    except OSError as error:
        raise StoreError(f"shared store {directory}: {error}") from error
    finally:
        os.close(descriptor)


def _trusted(directory: Path) -> int:
    """A descriptor of the directory, made if it is missing, in which only this user can write."""
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        is_link = directory.is_symlink()
        reason = "it is a symbolic link" if is_link else error.strerror
        raise StoreError(f"shared store {directory}: {reason}; expected a directory of this user") from error
    found = os.fstat(descriptor)
    problem = None
    if found.st_uid != os.geteuid():
        problem = f"it belongs to user {found.st_uid}, expected {os.geteuid()}, who runs this process"
    elif found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        problem = f"others may write in it (mode {stat.S_IMODE(found.st_mode):04o}), expected 0700"
    if problem:
        os.close(descriptor)
        raise StoreError(f"shared store {directory}: {problem}")
    return descriptor


def _path_of_this_boot(directory: Path) -> Path:
    """The data file; those of earlier boots are removed."""
    boot = _BOOT_ID.read_text().strip()
    for old in directory.glob(f"v*-{'?' * len(boot)}.*"):
        if boot not in old.name:
            old.unlink()
    return directory / f"v{_LAYOUT}-{boot}.mdb"


def _move_aside(path: Path, reason: str) -> None:
    """Keep the file (the latest one) for whoever wants to know."""
    kept = path.with_suffix(".broken")
    logger.warning("%s: %s; it is kept as %s, counting starts afresh", path, reason, kept.name)
    path.chmod(0o400)  # whoever still has it open sees it by this
    path.replace(kept)


def _open(path: Path, size: int) -> Opened:
    """The database at `path`.

    Raises:
        _BrokenError: the file is not one of ours, or not whole.
    """
    import lmdb

    is_new = not _exists(path)
    if is_new:
        _make(path, size)
    size = path.stat().st_size
    if size < LEAST_BYTES or size % PAGESIZE:
        raise _BrokenError(f"it has {size} bytes")
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        env = lmdb.open(str(path), map_size=size, writemap=True, **_SETTINGS)
        try:
            with exclusively(
                descriptor
            ):  # not before: lmdb opens the file once more, and closing drops locks
                return Opened(path, descriptor, env, _agree(env, size, is_new=is_new))
        except BaseException:
            env.close()
            raise
    except (lmdb.Error, ValueError) as error:
        os.close(descriptor)
        raise _BrokenError(f"it cannot be read ({error})") from error


def _agree(env: lmdb.Environment, size: int, *, is_new: bool) -> int:
    """The clock's offset, as the first opener wrote it.

    Raises:
        ValueError: the header is missing or wrong.
    """
    with env.begin(write=True) as transaction:
        if is_new:
            transaction.put(HEADER, pack((size, SystemClock().offset_ns)))
        values = unpack(transaction.get(HEADER) or b"")
    if len(values) != 2 or values[0] != size or type(values[1]) is not int:
        raise ValueError(f"its header is {values}, its size {size}")
    return values[1]


def _exists(path: Path) -> bool:
    """Whether the data file is there.

    Raises:
        StoreError: a link, or something of another user, is in its place.
    """
    if not os.path.lexists(path):
        return False
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        raise StoreError(f"shared store: {path} is no plain file of this user; remove it")
    return True


def _make(path: Path, size: int) -> None:
    """An empty database whose file holds all the memory it will ever need.

    Without that a file system that fills up later (Docker gives /dev/shm 64 MB) ends whoever touches a
    missing page with SIGBUS.

    Raises:
        StoreError: there is no room.
    """
    got = size if _is_written(path) else 0
    while got >= LEAST_BYTES:
        if _is_allocated(path, got):
            if got < size:
                logger.warning("%s: no room for %d bytes, made with %d", path, size, got)
            return
        got = got // 2 // PAGESIZE * PAGESIZE
    path.unlink(missing_ok=True)
    raise StoreError(
        f"shared store {path.parent}: no room for even {LEAST_BYTES} bytes; make room, or name another "
        "place: shared:///DIRECTORY"
    )


def _is_written(path: Path) -> bool:
    """Begin an empty database; False if there is no room.

    It is written, not mapped: so a lack of room is an error here, and not a SIGBUS.
    """
    import lmdb

    try:
        lmdb.open(str(path), map_size=LEAST_BYTES, **_SETTINGS).close()
    except lmdb.DiskError:
        return False
    return True


def _is_allocated(path: Path, size: int) -> bool:
    """Give the file real memory for `size` bytes; False if there is no room."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        if error.errno in _NO_ROOM:
            return False
        raise
    finally:
        os.close(descriptor)
    return True
