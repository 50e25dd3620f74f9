"""A decision in memory: every algorithm and the peers, for 1 and 1,000 clients; memory per client.

For 1,000,000 clients those that the goals are about: to make a million buckets takes half a minute in some.
"""

from __future__ import annotations

import asyncio
import random
import tracemalloc
from collections.abc import Callable

from calls import addresses
from limiters import ALGORITHMS, PEERS, REFUSING, REFUSING_PEERS, Take, floor, ours
from report import Goal, Section
from timing import Do, interleaved

from ratelimit_middleware.clock import Clock, ManualClock

_FEW = (1, 1_000)
_MANY = 1_000_000
_PLAIN, _BURST = "ours, SlidingWindow", "ours, GCRA"
_LIMITS = "limits, moving"
_WITH_MANY = ("floor", _PLAIN, _BURST, _LIMITS, "throttled-py, GCRA")
_SAMPLE = 50_000
_MEASURED = 50_000


def _subjects(clock: Clock | None = None) -> dict[str, Callable[[], Take]]:
    own = {f"ours, {name}": lambda made=made: ours(made(), clock) for name, made in ALGORITHMS.items()}
    return {"floor": floor, **own, **PEERS}


def decisions() -> Section:
    """Run on a loop: aiolimiter asks for one."""
    return asyncio.run(_decisions())


async def _decisions() -> Section:
    # Else clients would be forgotten while others come: all of them are idle within a second.
    lasting = _subjects(ManualClock())
    # First, since the threads of some peers go on for a while, and what they allocate would count.
    bytes_each = {name: _bytes_each(make) for name, make in lasting.items()}
    subjects = _subjects()
    columns = [
        interleaved({name: _asking(make(), addresses(clients)) for name, make in subjects.items()})
        for clients in _FEW
    ]
    columns.append(interleaved(_populated({name: lasting[name] for name in _WITH_MANY})))
    rows = {name: (*(_us(column.get(name)) for column in columns), bytes_each[name]) for name in subjects}
    at_1000 = columns[1]
    goals = (
        Goal("decision, GCRA / limits, moving window", at_1000[_BURST] / at_1000[_LIMITS], 0.5),
        Goal("decision, sliding window / limits, moving window", at_1000[_PLAIN] / at_1000[_LIMITS], 0.5),
        Goal("memory per client, GCRA", bytes_each[_BURST], 250, unit="B"),
        Goal("memory per client, window with one hit", bytes_each[_PLAIN], 400, unit="B"),
        Goal("decision, GCRA, 1,000,000 clients / 1,000", columns[2][_BURST] / columns[1][_BURST], 3),
    )
    names = ("1 client, µs", "1,000 clients, µs", "1,000,000 clients, µs", "B a client")
    note = (
        f"Bytes are what {_MEASURED:,} clients with one hit each have allocated, the key included."
        " A million buckets do not fit the processor's caches, which every limiter pays for. Concurrency is"
        " asked and never given back: one client has about 70 slots, each of which ends after 1 ms."
    )
    return Section("decisions", "A decision in memory", names, rows, "floor", goals, note, names[1])


def _us(ns: float | None) -> float | None:
    return None if ns is None else ns / 1000


def refusals() -> Section:
    """What saying no costs."""
    own = {f"ours, {name}": ours(made()) for name, made in REFUSING.items()}
    made = {"floor": floor(refusing=True), **own, **{name: make() for name, make in REFUSING_PEERS.items()}}
    clients = addresses(1000)
    for take in made.values():
        for client in clients:
            take(client)
    times = interleaved({name: _asking(take, clients) for name, take in made.items()})
    rows = {name: (ns / 1000,) for name, ns in times.items()}
    goals = (
        Goal("refusal, GCRA / limits, moving window", times[_BURST] / times[_LIMITS], 1),
        Goal("refusal, sliding window / limits, moving window", times[_PLAIN] / times[_LIMITS], 1),
    )
    note = "Each client has used up its limit."
    return Section("refusals", "A refusal in memory", ("1,000 clients, µs",), rows, "floor", goals, note)


def _asking(take: Take, clients: list[str]) -> Do:
    count = len(clients)
    return lambda turn: take(clients[turn % count])


def _populated(subjects: dict[str, Callable[[], Take]]) -> dict[str, Do]:
    """All limiters with a million clients each, asked for them in random order."""
    clients = random.Random(1).sample(addresses(_MANY), _SAMPLE)  # noqa: S311 - a benchmark
    takes: dict[str, Do] = {}
    for name, make in subjects.items():
        take = make()
        for client in addresses(_MANY):
            take(client)
        takes[name] = _asking(take, clients)
    return takes


def _bytes_each(make: Callable[[], Take]) -> float:
    """Of a client with one hit; the growth of resident memory would not tell what was free before."""
    take = make()
    tracemalloc.start()
    # Each with a name of its own, as a server reads it from the socket.
    for client in addresses(_MEASURED):
        take(client)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return taken / _MEASURED
