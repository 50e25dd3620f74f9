#!/usr/bin/env python3
"""Decisions a second of the stores of one host, side by side: memory, shared (LMDB), SQLite and Redis.

Each process asks for one of 1,000 clients at a time, as fast as it can; all start together and the rate
is that of all together. `memory` is what one process can do alone (four would not share their counts).
`sqlite` is the least that a GCRA needs: one UPSERT a decision, WAL, nothing synced, in the same place.
`redis` is a server on a Unix socket, one call a decision (apps that share calls do better: `scripts/bench
redis`).
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
BATCH = 100


class Result(NamedTuple):
    """What all processes of a run did together.

    Attributes:
        rate: decisions a second.
        slowest: those of the process that got the fewest; far from its share, it was starved.
        latencies_ns: how long each took, sorted.
    """

    rate: float
    slowest: float
    latencies_ns: list[int]

    def at(self, share: float) -> float:
        """The latency that this share of the calls does not exceed, µs."""
        return self.latencies_ns[min(int(share * len(self.latencies_ns)), len(self.latencies_ns) - 1)] / 1000


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


def work(
    kind: str, place: Path, seconds: float, gate: Barrier, results: Queue[tuple[float, list[int]]]
) -> None:
    """One process: ask until the time is over."""
    ask, clock = opened(kind, place), time.perf_counter_ns
    latencies: list[int] = []
    client = os.getpid() % CLIENTS
    gate.wait(timeout=60)
    start_ns = clock()
    end_ns = start_ns + int(seconds * 1e9)
    while clock() < end_ns:
        for _ in range(BATCH):
            client = (client + 7) % CLIENTS
            before_ns = clock()
            ask(client)
            latencies.append(clock() - before_ns)
    results.put((len(latencies) / (clock() - start_ns) * 1e9, latencies))


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
    rates = [rate for rate, _ in parts]
    return Result(sum(rates), min(rates), sorted(ns for _, part in parts for ns in part))


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
    print(
        f"{'store':15}{'processes':>10}{'decisions/s':>13}{'slowest':>9}{'p50':>9}{'p99':>9}{'p99.9':>10}{'max':>11}"
    )
    rates: dict[tuple[str, int], float] = {}
    for kind, processes in runs:
        result = measure(kind, processes, options.seconds)
        rates[kind, processes] = result.rate
        tail = f"{result.at(0.5):9.1f}{result.at(0.99):9.1f}{result.at(0.999):10.1f}{result.at(1):11.1f}"
        print(f"{kind:15}{processes:10}{result.rate:13,.0f}{result.slowest:9,.0f}{tail}")
    shared = rates["shared gcra", many]
    print(f"\nshared, {many} processes, over sqlite: {shared / rates['sqlite gcra', many]:.1f} x")
    print(f"shared, {many} processes, over memory in one: {shared / rates['memory gcra', 1]:.2f} x")
    print(f"goal of {GOAL:,} decisions/s: {'reached' if shared >= GOAL else 'MISSED'}")


if __name__ == "__main__":
    main()
