"""How it grows: time and memory against clients and rules, plotted; cold import time; stores of one host."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from statistics import median

import psutil
from calls import addresses
from figures import match
from limiters import ALGORITHMS, ours
from report import Goal, Section, without
from shared_store import GOAL, Result, measure
from timing import interleaved

from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.stores.memory import MemoryStore

_CLIENTS = (1_000, 10_000, 100_000, 1_000_000)
_RULES = (1, 10, 100, 1_000, 10_000)
_FORMS = {"plain": "SlidingWindow", "burst": "GCRA"}
_IMPORTS = {
    "ours, asgi": "import ratelimit_middleware.asgi",
    "ours, wsgi": "import ratelimit_middleware.wsgi",
    "slowapi": "import slowapi",
    "flask-limiter": "import flask_limiter",
    "fastapi-limiter": "import fastapi_limiter.depends",
    "limits": "import limits, limits.storage, limits.strategies",
    "throttled-py": "import throttled",
    "pyrate-limiter": "import pyrate_limiter",
}
_IMPORT_ROUNDS = 5
_FULL_CLIENTS = 1_000
_SHARED_ROUNDS = 3
_SHARED_SECONDS = 1.0
_PRIME = 7919  # steps through all clients, far from each other
_START = "import time; t = time.perf_counter_ns(); {}; print(time.perf_counter_ns() - t)"


def clients() -> Section:
    """Ours, from a thousand to a million clients."""
    columns = [_in_a_new_process(name) for name in _FORMS.values()]
    rows = {
        f"{count:,} clients": tuple(number for column in columns for number in column[place])
        for place, count in enumerate(_CLIENTS)
    }
    heads = tuple(f"{form}, {unit}" for form in _FORMS for unit in ("µs", "MB"))
    slope, full = columns[0][-1][1] / columns[0][-2][1], _bytes_of_a_full_window()
    goals = (
        Goal("memory, 1,000,000 clients / 100,000, plain", slope, 11),
        Goal("memory per client, full window", full, 1536, unit="B"),
    )
    note = (
        "A decision, and how much the process has grown, in a memory store that fills up. A client whose"
        f" window is full, 65 entries, takes {full:,.0f} B."
    )
    return Section("clients", "Growing number of clients", heads, rows, "", goals, note, "plain, MB")


def _in_a_new_process(name: str) -> list[tuple[float, float]]:
    """Where no memory is left over from what ran before."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_grown, name).result()


def _grown(name: str) -> list[tuple[float, float]]:
    """µs a decision and MB at each number of clients, one store growing."""
    take, process = ours(ALGORITHMS[name](), ManualClock()), psutil.Process()
    names, made, before = addresses(_CLIENTS[-1]), 0, process.memory_info().rss
    found = []
    for count in _CLIENTS:
        for client in names[made:count]:
            take(client)
        made = count
        do = {"take": lambda turn, count=count: take(names[turn * _PRIME % count])}
        grown = process.memory_info().rss - before
        found.append((interleaved(do)["take"] / 1000, grown / 1e6))
    return found


def _bytes_of_a_full_window() -> float:
    """Of a client that has come as often as its window can tell apart, the key included."""
    clock, window = ManualClock(), SlidingWindow(100, 65)
    store = MemoryStore(clock=clock)
    tracemalloc.start()
    names = [f"client {number}" for number in range(_FULL_CLIENTS)]
    for _ in range(100):
        clock.advance(1)
        for name in names:
            store.take([Check(name, window, "*")])
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return taken / _FULL_CLIENTS


def rules() -> Section:
    """Matching a path, met before or not, with a growing number of rules."""
    subjects = {(count, cached): match(count, cached=cached) for count in _RULES for cached in (False, True)}
    times = interleaved({f"{count} {cached}": do for (count, cached), do in subjects.items()})
    rows = {
        _rules(count): (times[f"{count} False"] / 1000, times[f"{count} True"] / 1000) for count in _RULES
    }
    first, last = rows[_rules(1)], rows[_rules(_RULES[-1])]
    goals = (Goal("matching a new path, 10,000 rules / 1", last[0] / first[0], 1.5),)
    note = "Rules with templates; regular expressions are tried one after the other."
    return Section(
        "rules", "Matching a path", ("new path, µs", "path met before, µs"), rows, _rules(1), goals, note
    )


def _rules(count: int) -> str:
    return f"{count:,} rule{'s' * (count > 1)}"


def imports() -> Section:
    """Each in a fresh process, in turn; the first round compiles what is not compiled yet."""
    samples: dict[str, list[float]] = {name: [] for name in _IMPORTS}
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for round_ in range(_IMPORT_ROUNDS + 1):
        for name, statement in _IMPORTS.items():
            command = [sys.executable, "-c", _START.format(statement)]
            ran = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
            if round_:
                samples[name].append(float(ran.stdout) / 1e6)
    rows: dict[str, tuple[float | None, ...]] = {name: (median(times),) for name, times in samples.items()}
    note = (
        "Each in a new process, compiled already; the start of Python itself is not in it. Loading a rule"
        " file imports PyYAML and pydantic besides."
    )
    return Section("imports", "Cold import", ("ms",), rows, note=note, drawn="ms")


def shared() -> Section:
    """Workers of one host, all asking as fast as they can."""
    runs = [("memory gcra", 1)]
    runs += [(f"shared {form}", count) for form in ("gcra", "window") for count in (1, 2, 4)]
    runs += [("sqlite gcra", 1), ("sqlite gcra", 4)]
    lacks = without("redis-server")
    if not lacks:
        runs += [("redis gcra", 1), ("redis gcra", 4)]
    found: dict[str, list[Result]] = {_named(*run): [] for run in runs}
    for _ in range(_SHARED_ROUNDS):
        for run in runs:
            found[_named(*run)].append(measure(*run, _SHARED_SECONDS))
    rows: dict[str, tuple[float | None, ...]] = {name: _together(results) for name, results in found.items()}
    goals = tuple(
        Goal(
            f"shared store, 4 processes together, {form}",
            rows[_named(f"shared {form}", 4)][0] or 0,
            GOAL,
            at_least=True,
            unit="decisions/s",
        )
        for form in ("gcra", "window")
    )
    columns = ("decisions/s", "least / share", "p50, µs", "p99, µs", "worst p99.9, µs", "longest wait, ms")
    note = (
        "All processes ask as fast as they can, 1,000 clients. `memory` is what one process can do alone."
        " With more processes than processors the tail is the wait for a processor.\n\n"
        "How evenly it is shared: `least / share` is what the process got that got the fewest, over an equal"
        " share; `worst p99.9` is of the process whose own is the longest. SQLite's rate is one process's at"
        " a time: whoever finds the database locked sleeps, longer each time, and the others ask on."
    )
    return Section("shared", "Stores of one host", columns, rows, "", goals, note, columns[0], lacks)


def _named(kind: str, processes: int) -> str:
    return f"{kind}, {processes} process{'es' * (processes > 1)}"


def _together(results: list[Result]) -> Result:
    """The medians of several rounds; of the longest waits the longest."""
    *others, longest_ms = zip(*results, strict=True)
    return Result(*map(median, others), max(longest_ms))
