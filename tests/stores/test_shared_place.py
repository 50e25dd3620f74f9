"""Where the shared store's file lies: whose it is, how it is made, what happens when it is broken."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import lmdb
import pytest

from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.clock import SystemClock
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.stores import _shared_place
from ratelimit_middleware.stores._shared_place import default_directory
from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.stores.shared import SharedStore

MIB = 1 << 20
ONE = Check("a|1", SlidingWindow(1, 3600), "a|*")
TAKE_A_TURN = """
import fcntl, os, sys
fcntl.lockf(os.open(sys.argv[1], os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "limits"


def opened(place: Path, size: int = MIB) -> SharedStore:
    return SharedStore(place, size=size)


def data_file(place: Path) -> Path:
    return next(place.glob("v3-*.mdb"))


def used(place: Path) -> Path:
    """A file in which the one permit is taken, and that nobody has open."""
    store = opened(place)
    assert store.take([ONE])[0].allowed
    store.close()
    return data_file(place)


def test_files_and_directory_belong_to_the_user_alone(place: Path) -> None:
    before = os.umask(0)
    try:
        opened(place)
    finally:
        os.umask(before)
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    files = list(place.iterdir())
    assert len(files) == 1
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)


def test_the_file_holds_all_its_memory_from_the_beginning(place: Path) -> None:
    opened(place, 4 * MIB)
    assert data_file(place).stat().st_size == 4 * MIB
    assert all(file.stat().st_blocks * 512 >= file.stat().st_size for file in place.iterdir())


def test_the_default_place_is_in_memory_and_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_directory() == Path(f"/dev/shm/ratelimit-middleware-{os.geteuid()}")  # noqa: S108
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr("tempfile.gettempdir", lambda: "/somewhere")
    assert default_directory() == Path(f"/somewhere/ratelimit-middleware-{os.geteuid()}")


def test_a_link_to_a_directory_is_refused(tmp_path: Path, place: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="limits: it is a symbolic link; expected a directory"):
        opened(place)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_link_in_place_of_the_file_is_refused(tmp_path: Path, place: Path) -> None:
    path = used(place)
    path.unlink()
    path.symlink_to(tmp_path / "target")
    with pytest.raises(StoreError, match="is no plain file of this user; remove it"):
        opened(place)
    assert not (tmp_path / "target").exists()


def test_a_file_in_place_of_the_directory_is_refused(place: Path) -> None:
    place.write_text("mine")
    with pytest.raises(StoreError, match="expected a directory of this user"):
        opened(place)
    assert place.read_text() == "mine"


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"missing/limits: No such file or directory"):
        opened(tmp_path / "missing" / "limits")


def test_a_directory_of_another_user_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place.mkdir()
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    with pytest.raises(StoreError, match=f"it belongs to user {me}, expected {me + 1}"):
        opened(place)


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o722])
def test_a_directory_in_which_others_may_write_is_refused(place: Path, mode: int) -> None:
    place.mkdir()
    place.chmod(mode)
    with pytest.raises(StoreError, match=rf"others may write in it \(mode 0{mode:o}\), expected 0700"):
        opened(place)


def foreign_text(path: Path) -> None:
    path.write_text("something else")


def large_foreign_file(path: Path) -> None:
    path.write_bytes(b"something else" * MIB)


def nothing_but_zeros(path: Path) -> None:
    path.write_bytes(bytes(MIB))


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def cut_off(path: Path) -> None:
    os.truncate(path, MIB // 2)


def other_size(path: Path) -> None:
    os.truncate(path, 2 * MIB)


def garbage_in_all_pages(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[2 * 4096 :] = os.urandom(len(data) - 2 * 4096)
    path.write_bytes(data)


def other_program(path: Path) -> None:
    path.unlink()
    with (
        lmdb.open(str(path), map_size=MIB, subdir=False, writemap=True, lock=False) as env,
        env.begin(write=True) as txn,
    ):
        txn.put(b"theirs", b"data")


@pytest.mark.parametrize(
    "breaking",
    [
        foreign_text,
        large_foreign_file,
        nothing_but_zeros,
        emptied,
        cut_off,
        other_size,
        garbage_in_all_pages,
        other_program,
    ],
    ids=lambda breaking: breaking.__name__,
)
def test_a_foreign_or_broken_file_is_set_aside(
    place: Path, caplog: pytest.LogCaptureFixture, breaking: object
) -> None:
    assert callable(breaking)
    path = used(place)
    breaking(path)
    content = path.read_bytes()
    with caplog.at_level(logging.WARNING):
        store = opened(place)
    assert "counting starts afresh" in caplog.text
    assert path.with_suffix(".broken").read_bytes()[:64] == content[:64]
    assert [store.take([ONE])[0].allowed for _ in range(2)] == [True, False]


def test_only_the_latest_broken_file_is_kept(place: Path) -> None:
    path = used(place)
    for _ in range(3):
        foreign_text(path)
        opened(place).close()
    assert len(list(place.iterdir())) == 2


def test_a_file_that_breaks_while_it_is_open_is_set_aside_by_whoever_sees_it(
    place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The page that holds the buckets is overwritten; the other user of the file goes on with the new one."""
    store = opened(place)
    store.take([ONE])
    with data_file(place).open("r+b") as file:
        for page in range(2, MIB // 4096):
            file.seek(page * 4096)
            file.write(b"\xff" * 4096)
    with caplog.at_level(logging.WARNING):
        answers = [store.take([ONE])[0].allowed for _ in range(2)]
    assert answers == [True, False]
    assert "counting starts afresh" in caplog.text
    assert data_file(place).with_suffix(".broken").exists()


@pytest.mark.parametrize("removed", ["files", "directory"])
def test_workers_notice_that_their_file_is_gone(place: Path, removed: str) -> None:
    """Otherwise those who are there count in the old file and those who come in a new one."""
    store = opened(place)
    store.take([ONE])
    if removed == "directory":
        shutil.rmtree(place)
    else:
        for file in place.iterdir():
            file.unlink()
    answers = [store.take([ONE])[0].allowed for _ in range(600)]
    assert sum(answers) == 1
    assert data_file(place).exists()


def test_a_reboot_starts_afresh(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = used(place)
    boot_id = tmp_path / "boot_id"
    boot_id.write_text(f"{uuid4()}\n")
    monkeypatch.setattr(_shared_place, "_BOOT_ID", boot_id)
    (place / "v3-notes.txt").write_text("mine")
    store = opened(place)
    assert store.take([ONE])[0].allowed
    assert not old.exists()
    assert data_file(place).stem == f"v3-{boot_id.read_text().strip()}"
    assert (place / "v3-notes.txt").exists()


def test_another_layout_is_another_file(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used(place)
    monkeypatch.setattr(_shared_place, "_LAYOUT", _shared_place._LAYOUT + 1)
    assert opened(place).take([ONE])[0].allowed
    assert len(list(place.glob("v?-*.mdb"))) == 2


@pytest.mark.parametrize("is_there", [True, False])
def test_whoever_opens_the_file_reads_it_when_nobody_writes(
    place: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    """Otherwise what it reads may be half written, and a file in use would be set aside."""
    if is_there:
        used(place)
    agree, errors = _shared_place._agree, list[str]()

    def look(env: lmdb.Environment, size: int, *, is_new: bool) -> int:
        asked = [sys.executable, "-c", TAKE_A_TURN, str(data_file(place))]
        errors.append(subprocess.run(asked, capture_output=True, text=True, check=False).stderr)
        return agree(env, size, is_new=is_new)

    monkeypatch.setattr(_shared_place, "_agree", look)
    opened(place)
    assert len(errors) == 1
    assert "BlockingIOError" in errors[0]


def test_the_clock_stays_that_of_the_first_opener(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wall clock is put back an hour meanwhile: the store's time goes on."""
    first = opened(place).take([ONE])[0].at_ns
    offset_ns = SystemClock().offset_ns
    monkeypatch.setattr(_shared_place, "SystemClock", lambda: SystemClock(offset_ns - 3600 * 10**9))
    again = opened(place).take([ONE])[0]
    assert not again.allowed
    assert 0 <= again.at_ns - first < 60 * 10**9
    assert abs(first - SystemClock().now_ns()) < 60 * 10**9


def only(free: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system with so many bytes free."""
    real, taken = os.posix_fallocate, dict[int, int]()

    def allocate(descriptor: int, offset: int, size: int) -> None:
        inode = os.fstat(descriptor).st_ino
        if sum(taken.values()) - taken.get(inode, 0) + size > free:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken[inode] = size
        real(descriptor, offset, size)

    monkeypatch.setattr(os, "posix_fallocate", allocate)


def test_where_there_is_less_room_the_file_is_halved(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    only(5 * MIB, monkeypatch)
    with caplog.at_level(logging.WARNING):
        store = opened(place, 16 * MIB)
    assert data_file(place).stat().st_size == 4 * MIB
    assert f"no room for {16 * MIB} bytes, made with {4 * MIB}" in caplog.text
    assert store.take([ONE])[0].allowed


@pytest.mark.parametrize("free", [0, MIB // 2, MIB - 1])
def test_where_there_is_no_room_it_is_refused_and_nothing_is_left(
    place: Path, monkeypatch: pytest.MonkeyPatch, free: int
) -> None:
    only(free, monkeypatch)
    with pytest.raises(StoreError, match=f"no room for even {MIB} bytes; make room, or name another place"):
        opened(place, 16 * MIB)
    assert not list(place.iterdir())


def test_an_error_of_the_file_system_is_a_store_error(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "posix_fallocate", fail)
    with pytest.raises(StoreError, match="Input/output error"):
        opened(place)


def test_a_later_opener_takes_the_size_that_is_there(place: Path) -> None:
    opened(place, 2 * MIB).close()
    store = opened(place, 4 * MIB)
    assert data_file(place).stat().st_size == 2 * MIB
    assert store.take([ONE])[0].allowed
