"""Processes for the tests of the shared store: `python -m tests.stores.shared_worker COMMAND PLACE ...`."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import random
import signal
import sys
import threading
import time
from struct import Struct

from ratelimit_middleware.algorithms.concurrency import Concurrency
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.clock import ManualClock, SystemClock
from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.stores.shared import SharedStore

NOON = 1_800_000_000
TWO_AT_A_TIME = Check("slots|1", Concurrency(2), "slots|*")
HUNDRED = Check("hundred|1", SlidingWindow(100, 3600), "hundred|*")
# Nothing comes back in the lifetime of a test, so what is used is what was admitted.
MANY = GCRA(1, 10**9, 10**9)
LEFT, RIGHT = Check("left|1", MANY, "left|*"), Check("right|1", MANY, "right|*")

_COUNT = Struct("<Q")
_MIB = 1 << 20
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


def take(place: str, times: int) -> int:
    """Take from the bucket of a hundred; how many were admitted."""
    store = SharedStore(place, size=_MIB)
    return sum(store.take([HUNDRED])[0].allowed for _ in range(times))


def hold_slots(place: str) -> None:
    """Take all slots and never give them back; stands still until the end of the input."""
    store = SharedStore(place, size=_MIB, clock=ManualClock(NOON))
    print(sum(store.take([TWO_AT_A_TIME])[0].allowed for _ in range(3)), flush=True)  # noqa: T201 - told to the test
    sys.stdin.read()


class _HeldClock(SystemClock):
    """Stands still in the middle of a call until a line comes in. The store's first look is before that."""

    looks = 0

    def now_ns(self) -> int:
        self.looks += 1
        if self.looks == 2:
            print("inside", flush=True)  # noqa: T201 - this is how the test hears of it
            sys.stdin.readline()
        return super().now_ns()


def hold(place: str) -> None:
    """Stop in the middle of a transaction."""
    SharedStore(place, clock=_HeldClock(), size=_MIB).take([HUNDRED])


def preload(place: str, workers: int) -> list[int]:
    """Fork workers from a process that has the store open and in use; what each was admitted."""
    store = SharedStore(place, size=_MIB)
    admitted, over = [store.take([HUNDRED])[0].allowed], threading.Event()

    def keep_busy() -> None:
        while not over.is_set():
            admitted.append(store.take([HUNDRED])[0].allowed)

    busy = threading.Thread(target=keep_busy)
    busy.start()
    children = []
    for _ in range(workers):
        pid = os.fork()
        if not pid:
            mine = sum(store.take([HUNDRED])[0].allowed for _ in range(60))
            store.close()
            os._exit(mine)
        children.append(pid)
    results = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    over.set()
    busy.join()
    store.take([HUNDRED])
    return [sum(admitted), *results]


def chaos(place: str, kills: int, workers: int = 4) -> dict[str, int]:
    """Kill workers at any moment, from the fork on, always under load; what was seen to be admitted."""
    store = SharedStore(place, size=_MIB)
    counts = mmap.mmap(-1, _COUNT.size * (kills + workers))
    slots = iter(range(kills + workers))

    def spawn() -> tuple[int, int]:
        slot = next(slots)
        pid = os.fork()
        if not pid:
            _count_for_ever(store, counts, slot)
        return pid, slot

    alive = [spawn() for _ in range(workers)]
    for _ in range(kills):
        pid, slot = alive.pop(0)
        _wait_for(counts, slot, random.choice([0, random.randrange(1, 60)]))  # noqa: S311 - not a secret
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        alive.append(spawn())
    for pid, slot in alive:
        _wait_for(counts, slot, 10)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    seen = sum(_COUNT.unpack_from(counts, slot * _COUNT.size)[0] for slot in range(kills + workers))
    left, right = (MANY.burst - store.peek(check).remaining - 1 for check in (LEFT, RIGHT))
    return {"seen": seen, "killed": kills + workers, "left": left, "right": right}


def _count_for_ever(store: SharedStore, counts: mmap.mmap, slot: int) -> None:
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)  # whatever becomes of the test
    for count in range(1, sys.maxsize):
        store.take([LEFT, RIGHT])
        _COUNT.pack_into(counts, slot * _COUNT.size, count)


def _wait_for(counts: mmap.mmap, slot: int, count: int) -> None:
    """Until the worker has got so far: none may be locked out."""
    deadline = time.monotonic() + 10
    while _COUNT.unpack_from(counts, slot * _COUNT.size)[0] < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"worker {slot} makes no progress")
        time.sleep(0.0002)  # paces the looks; the count is what is waited for


COMMANDS = {"take": take, "hold": hold, "preload": preload, "chaos": chaos, "hold-slots": hold_slots}

if __name__ == "__main__":
    command, directory, *numbers = sys.argv[1:]
    print(json.dumps(COMMANDS[command](directory, *map(int, numbers))))  # type: ignore[operator]  # noqa: T201
