#!/usr/bin/env python3
"""Decisions a second of the stores of one host, side by side: memory, shared (LMDB), SQLite and Redis.

Each process asks for one of 1,000 clients at a time, as fast as it can; all start together and the rate
is that of all together. `memory` is what one process can do alone (four would not share their counts).
`sqlite` is the least that a GCRA needs: one UPSERT a decision, WAL, nothing synced, in the same place.
`redis` is a server on a Unix socket, one call a decision (apps that share calls do better: `scripts/bench
redis`).

A rate says nothing of how it is shared: where one process asks on and on while the others sleep it is good,
and the calls of those who sleep are few. So three columns are of the process that is worst off: `least`,
what it got over an equal share, its own p99.9, and the longest wait.
With more processes than processors the tail shows who had to wait for a turn on a processor.

    python benchmarks/shared_store.py [--seconds 3] [--processes 4]
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import NamedTuple

from ratelimit_middleware.algorithms.base import Algorithm
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.stores.base import Check, Store
from ratelimit_middleware.stores.memory import MemoryStore
from ratelimit_middleware.stores.shared import SharedStore

CLIENTS = 1000
ALGORITHMS: dict[str, Algorithm] = {"gcra": GCRA(1000, 3600, 1000), "window": SlidingWindow(1000, 3600)}
GOAL = 66_000


class Result(NamedTuple):
    """What the processes of a run did.

    Attributes:
        rate: decisions a second, of all together.
        least: those of the process that got the fewest, over an equal share.
        p50_us: the latency that half of all calls do not exceed.
        p99_us: that 99 of 100 do not exceed.
        worst_p999_us: that 999 of 1,000 calls of a process do not exceed, where it is worst.
        longest_ms: the longest wait.
    """

    rate: float
    least: float
    p50_us: float
    p99_us: float
    worst_p999_us: float
    longest_ms: float


def result(parts: list[list[int]], seconds: float) -> Result:
    """What came out of the latencies of each process in so many seconds, in nanoseconds."""
    together, parts = sorted(ns for part in parts for ns in part), [sorted(part) for part in parts]
    return Result(
        len(together) / seconds,
        min(map(len, parts)) * len(parts) / len(together),
        _at(together, 0.5),
        _at(together, 0.99),
        max(_at(part, 0.999) for part in parts),
        together[-1] / 1e6,
    )


def _at(latencies_ns: list[int], share: float) -> float:
    """The latency that this share of the calls does not exceed, µs."""
    return latencies_ns[min(int(share * len(latencies_ns)), len(latencies_ns) - 1)] / 1000


def ask_store(store: Store, algorithm: Algorithm) -> Callable[[int], object]:
    """A decision for the n-th client."""
    checks = [[Check(f"items|10.0.{n // 250}.{n % 250}", algorithm, "items|*")] for n in range(CLIENTS)]
    return lambda client: store.take(checks[client])


def ask_sqlite(place: Path, algorithm: GCRA) -> Callable[[int], object]:
    """The same by one statement; times in nanoseconds."""
    base = sqlite3.connect(place / "limits.sqlite", isolation_level=None, timeout=30)
    base.execute("PRAGMA journal_mode=WAL")
    base.execute("PRAGMA synchronous=OFF")
    base.execute("CREATE TABLE IF NOT EXISTS buckets (key TEXT PRIMARY KEY, tat INTEGER) WITHOUT ROWID")
    cost_ns = algorithm.period_ns // algorithm.limit
    statement = (
        "INSERT INTO buckets VALUES (?1, ?2 + ?3) ON CONFLICT (key) DO UPDATE SET tat = max(tat, ?2) + ?3 "
        "WHERE max(tat, ?2) + ?3 - ?4 <= ?2 RETURNING tat"
    )

    def ask(client: int) -> object:
        now_ns = time.time_ns()
        return base.execute(statement, (f"c{client}", now_ns, cost_ns, cost_ns * algorithm.burst)).fetchone()

    return ask


def opened(kind: str, place: Path) -> Callable[[int], object]:
    """The store named `memory gcra`, `shared window`, `sqlite gcra`, ..."""
    store, _, name = kind.partition(" ")
    algorithm = ALGORITHMS[name]
    if store == "sqlite" and isinstance(algorithm, GCRA):
        return ask_sqlite(place, algorithm)
    if store == "redis":
        from ratelimit_middleware.stores.redis import RedisStore

        return ask_store(RedisStore(f"unix://{place}/redis.sock", timeout=5), algorithm)
    return ask_store(MemoryStore() if store == "memory" else SharedStore(place / "shared"), algorithm)


@contextmanager
def redis_server(place: Path) -> Iterator[None]:
    """A server that keeps nothing, on a socket in `place`."""
    socket = place / "redis.sock"
    options = ["--port", "0", "--unixsocket", str(socket), "--save", "", "--appendonly", "no"]
    program = shutil.which("redis-server") or "redis-server"
    with subprocess.Popen([program, *options], cwd=place, stdout=subprocess.DEVNULL) as process:
        try:
            while not socket.exists():
                time.sleep(0.01)
            yield
        finally:
            process.terminate()


def work(kind: str, place: Path, seconds: float, gate: Barrier, results: Queue[list[int]]) -> None:
    """One process: ask until the time is over; how long each call took."""
    ask, clock = opened(kind, place), time.perf_counter_ns
    latencies: list[int] = []
    client = os.getpid() % CLIENTS
    gate.wait(timeout=60)
    end_ns = clock() + int(seconds * 1e9)
    while (before_ns := clock()) < end_ns:
        client = (client + 7) % CLIENTS
        ask(client)
        latencies.append(clock() - before_ns)
    results.put(latencies)


def measure(kind: str, processes: int, seconds: float) -> Result:
    """Run `processes` at once."""
    context = multiprocessing.get_context("spawn")
    gate, results = context.Barrier(processes), context.Queue()
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm", prefix="ratelimit-bench-") as place,
        redis_server(Path(place)) if kind.startswith("redis") else nullcontext(),
    ):
        opened(kind, Path(place))  # made by one, used by all: SQLite cannot be made by four at once
        workers = [
            context.Process(target=work, args=(kind, Path(place), seconds, gate, results))
            for _ in range(processes)
        ]
        for worker in workers:
            worker.start()
        parts = [results.get() for _ in workers]
        for worker in workers:
            worker.join()
    return result(parts, seconds)


def main() -> None:
    """Print a table and the ratios that count."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--processes", type=int, default=4)
    options = parser.parse_args()
    many = options.processes
    runs = [("memory gcra", 1), ("memory window", 1), ("shared gcra", 1), ("shared gcra", many)]
    runs += [("shared window", many), ("sqlite gcra", 1), ("sqlite gcra", many)]
    if shutil.which("redis-server"):
        runs += [("redis gcra", 1), ("redis gcra", many), ("redis window", many)]
    else:
        print("redis-server is not installed: its rows are left out")
    print(f"{os.cpu_count()} processors, {CLIENTS} clients, {options.seconds:g} s each; latencies in µs\n")
    heads = ("decisions/s", "least", "p50", "p99", "worst p99.9", "longest, ms")
    print(f"{'store':15}{'processes':>10}{''.join(f'{head:>13}' for head in heads)}")
    rates: dict[tuple[str, int], float] = {}
    for kind, processes in runs:
        found = measure(kind, processes, options.seconds)
        rates[kind, processes] = found.rate
        tail = "".join(f"{figure:13.1f}" for figure in found[2:])
        print(f"{kind:15}{processes:10}{found.rate:13,.0f}{found.least:13.2f}{tail}")
    shared = rates["shared gcra", many]
    print(f"\nshared, {many} processes, over sqlite: {shared / rates['sqlite gcra', many]:.1f} x")
    print(f"shared, {many} processes, over memory in one: {shared / rates['memory gcra', 1]:.2f} x")
    print(f"goal of {GOAL:,} decisions/s: {'reached' if shared >= GOAL else 'MISSED'}")


if __name__ == "__main__":
    main()
