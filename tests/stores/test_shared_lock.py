"""The lock between processes: tried for a moment, then slept for."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ratelimit_middleware.stores._shared_lock import _TRIES, FileLock, exclusively


class HeldLock(FileLock):
    """Free after so many tries.

    Attributes:
        slept: whether somebody has slept for it.
    """

    def __init__(self, tries: int) -> None:
        self._left = tries
        self.slept = False
        self._grab = self._try  # type: ignore[assignment]  # stands for a call of the kernel
        self._sleep = self._fall_asleep  # type: ignore[assignment]

    def _try(self) -> None:
        self._left -= 1
        if self._left >= 0:
            raise BlockingIOError

    def _fall_asleep(self) -> None:
        self.slept = True


@pytest.fixture
def yields(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """One entry for each time that others were given the processor."""
    given: list[bool] = []
    monkeypatch.setattr(os, "sched_yield", lambda: given.append(True))
    return given


def test_a_lock_that_comes_free_at_once_is_taken_without_giving_up_the_processor(yields: list[bool]) -> None:
    lock = HeldLock(_TRIES // 2)
    lock.hold()
    assert not lock.slept
    assert not yields


def test_whoever_holds_it_may_have_the_processor_before_anybody_sleeps(yields: list[bool]) -> None:
    lock = HeldLock(_TRIES)
    lock.hold()
    assert not lock.slept
    assert len(yields) == _TRIES // 2


def test_a_lock_that_is_held_for_long_is_slept_for(yields: list[bool]) -> None:
    lock = HeldLock(_TRIES + 1)
    lock.hold()
    assert lock.slept
    assert len(yields) == _TRIES // 2


def child(work: Callable[[], bool]) -> int:
    """A process that ends with 1 if `work` was true, with 0 if not."""
    pid = os.fork()
    if not pid:
        os._exit(work())
    return pid


def test_one_process_at_a_time_holds_it_and_a_fork_does_not_inherit_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    lock = FileLock(os.open(path, os.O_RDWR))

    def is_held() -> bool:
        try:
            lock._grab()
        except BlockingIOError:
            return True
        return False

    answers = []
    lock.hold()
    answers.append(os.waitpid(child(is_held), 0)[1])
    lock.release()
    answers.append(os.waitpid(child(is_held), 0)[1])
    with exclusively(os.open(path, os.O_RDWR)):
        answers.append(os.waitpid(child(is_held), 0)[1])
    assert [os.waitstatus_to_exitcode(answer) for answer in answers] == [1, 0, 1]
