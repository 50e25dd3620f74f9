"""The shared store between processes: exact, and at work whoever is killed."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.stores._loop_guard import LoopGuard
from ratelimit_middleware.stores.shared import SharedStore
from tests.stores.shared_worker import HUNDRED, NOON, TWO_AT_A_TIME

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20


def start(command: str, place: Path, *numbers: int) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-m", "tests.stores.shared_worker", command, str(place), *map(str, numbers)]
    return subprocess.Popen(
        arguments, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def result(process: subprocess.Popen[str]) -> Any:
    with process:
        try:
            out, errors = process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    assert process.returncode == 0, errors
    return json.loads(out)


@contextmanager
def stuck_worker(place: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that stands still in the middle of a call; it may be let go with a line."""
    process = start("hold", place)
    try:
        assert process.stdout
        assert process.stdout.readline() == "inside\n"
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "limits"


def test_processes_that_know_nothing_of_each_other_get_exactly_the_limit(place: Path) -> None:
    """They start at once, so they also race for making the file."""
    processes = [start("take", place, 60) for _ in range(4)]
    admitted = [result(process) for process in processes]
    assert sum(admitted) == 100
    assert not SharedStore(place).take([HUNDRED])[0].allowed


def test_workers_forked_from_a_process_at_work_get_exactly_the_limit(place: Path) -> None:
    """Preloading: the children inherit a handle, and one thread of the parent is always in a call."""
    assert sum(result(start("preload", place, 4))) == 100


def test_killing_workers_at_any_moment_loses_no_count_and_stops_nobody(place: Path) -> None:
    """What a killed worker had taken but not yet told is the only difference, one call each."""
    told = result(start("chaos", place, 300))
    assert told["left"] == told["right"]
    assert told["seen"] <= told["left"] <= told["seen"] + told["killed"]
    assert told["seen"] > 1000


def test_a_worker_killed_in_the_middle_of_a_call_has_taken_nothing(place: Path) -> None:
    store = SharedStore(place, size=MIB)
    with stuck_worker(place) as worker:
        worker.kill()
        worker.wait()
        assert store.take([HUNDRED])[0].remaining == 99


def test_the_slots_of_a_killed_worker_come_back_when_their_leases_end(place: Path) -> None:
    clock = ManualClock(NOON)
    store = SharedStore(place, size=MIB, clock=clock)
    worker = start("hold-slots", place)
    assert worker.stdout
    assert worker.stdout.readline() == "2\n"
    assert not store.take([TWO_AT_A_TIME])[0].allowed
    worker.kill()
    worker.communicate()
    clock.advance(29.9)
    assert not store.take([TWO_AT_A_TIME])[0].allowed
    clock.advance(0.1)
    assert store.take([TWO_AT_A_TIME])[0].allowed


def test_a_slot_renewed_by_its_worker_outlives_its_first_lease(place: Path) -> None:
    clock = ManualClock(NOON)
    store = SharedStore(place, size=MIB, clock=clock)
    slots = [store.take([TWO_AT_A_TIME])[0].at_ns for _ in range(2)]
    clock.advance(20)
    store.renew(TWO_AT_A_TIME, slots[1])
    clock.advance(15)
    assert store.take([TWO_AT_A_TIME])[0].allowed, "the first is over"
    assert not store.take([TWO_AT_A_TIME])[0].allowed, "the second is renewed"
    store.give_back(TWO_AT_A_TIME, slots[1])
    assert store.take([TWO_AT_A_TIME])[0].allowed


def test_a_worker_that_stands_still_in_a_call_holds_up_the_others(place: Path) -> None:
    """In the thread to which a slow store moves they hear so in time; when it goes on, so do they.

    The call that was not answered in time had begun, so it has taken a permit.
    """
    store = SharedStore(place, size=MIB)
    store._guard = LoopGuard(timeout_s=0.2)
    store._guard.in_thread = True
    with stuck_worker(place) as worker:
        with pytest.raises(StoreError, match=r"has not answered within 0\.2 s"):
            asyncio.run(store.take_async([HUNDRED]))
        worker.communicate("go on\n")
        assert asyncio.run(store.take_async([HUNDRED]))[0].remaining == 97
    store.close()
