#!/usr/bin/env python3
"""How many Redis servers a fleet needs: a small discrete-event simulation.

Requests reach the workers at random (Poisson) and ask about one of many buckets, each of which lives on
one shard. A worker has one call on its way to each shard; what is asked meanwhile forms the next call, as
`stores/_coalesce.py` does it. A shard serves its calls one after the other. A worker with a lease on a
bucket spends that first; blocks grow and shrink as in `stores/_blocks.py`.

Random numbers have a fixed seed: the same numbers give the same table.

    python benchmarks/fleet.py [--measure]
"""

from __future__ import annotations

import argparse
import heapq
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

__all__ = ["SIZES", "Fleet", "Outcome", "simulate"]


@dataclass(frozen=True, slots=True)
class Fleet:
    """What is simulated.

    Attributes:
        requests_per_s: of all workers together.
        workers: processes that ask.
        shards: servers (primaries of a cluster) among which the buckets are spread.
        buckets: how many are busy; one request asks about one of them.
        round_trip_us: of the network, without the time at the server.
        call_us: what a call costs the server, whatever it holds.
        check_us: what each check in it adds.
        most_together: the most checks of a call.
        lease_size: permits of a block; 0 = no leases.
        lease_us: how old a block may get.
    """

    requests_per_s: int
    workers: int
    shards: int = 1
    buckets: int = 100_000
    round_trip_us: float = 300
    call_us: float = 40
    check_us: float = 22
    most_together: int = 128
    lease_size: int = 0
    lease_us: float = 200_000


class Outcome(NamedTuple):
    """What was seen.

    Attributes:
        calls_per_request: round trips.
        busy: share of its time in which a server works, the mean of all.
        p50_us: what half of the requests wait at most.
        p99_us: what 99 of 100 wait at most.
        unspent: share of the permits taken in blocks that nobody used in time.
    """

    calls_per_request: float
    busy: float
    p50_us: float
    p99_us: float
    unspent: float


@dataclass(slots=True)
class _Line:
    """From one worker to one shard."""

    waiting: list[float] = field(default_factory=list)
    on_its_way: bool = False


@dataclass(slots=True)
class _Block:
    """A lease of one worker on one bucket."""

    size: int = 0
    left: int = 0
    ends_us: float = -1.0


class _Simulation:
    """One run; all times in microseconds."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        self.fleet = fleet
        self.random = random.Random(seed)  # noqa: S311 - a simulation
        self.lines: defaultdict[tuple[int, int], _Line] = defaultdict(_Line)
        self.blocks: defaultdict[tuple[int, int], _Block] = defaultdict(_Block)
        self.free_at_us = [0.0] * fleet.shards
        self.replies: list[tuple[float, int, tuple[int, int], list[float]]] = []
        self.waits_us: list[float] = []
        self.calls = self.taken = self.unspent = 0
        self.worked_us = 0.0

    def run(self, requests: int) -> float:
        """Play so many requests to the end; the moment of the last one's arrival."""
        now_us = 0.0
        for _ in range(requests):
            now_us += self.random.expovariate(self.fleet.requests_per_s / 1e6)
            self.deliver(now_us)
            self.arrive(now_us, self.random.randrange(self.fleet.workers))
        self.deliver(float("inf"))
        for block in self.blocks.values():
            if block.ends_us > now_us:
                self.taken -= block.size  # it may still be used: not to be told yet
            else:
                self.unspent += block.left
        return now_us

    def arrive(self, now_us: float, worker: int) -> None:
        """A request: answered from the worker's block, or asked about."""
        bucket = self.random.randrange(self.fleet.buckets)
        if self.fleet.lease_size and self.spend(now_us, worker, bucket):
            self.waits_us.append(0.0)
            return
        way = (worker, bucket % self.fleet.shards)
        self.lines[way].waiting.append(now_us)
        self.send(now_us, way)

    def spend(self, now_us: float, worker: int, bucket: int) -> bool:
        """Take a permit of the block; if there is none, the call that is due brings a new one.

        It is twice as large as the last, or as large as what was spent of that before it was too old.
        """
        block = self.blocks[worker, bucket]
        in_time = now_us < block.ends_us
        if block.left and in_time:
            block.left -= 1
            return True
        self.unspent += block.left
        wanted = 2 * block.size if in_time else block.size - block.left
        block.size = max(1, min(wanted, self.fleet.lease_size))
        self.taken += block.size
        block.left, block.ends_us = block.size - 1, now_us + self.fleet.lease_us
        return False

    def send(self, now_us: float, way: tuple[int, int]) -> None:
        """The next call of a line, if none is on its way."""
        line, fleet = self.lines[way], self.fleet
        if line.on_its_way or not line.waiting:
            return
        batch, line.waiting = line.waiting[: fleet.most_together], line.waiting[fleet.most_together :]
        line.on_its_way = True
        work_us = fleet.call_us + fleet.check_us * len(batch)
        begins_us = max(self.free_at_us[way[1]], now_us + fleet.round_trip_us / 2)
        self.free_at_us[way[1]] = begins_us + work_us
        self.worked_us += work_us
        self.calls += 1
        heapq.heappush(self.replies, (begins_us + work_us + fleet.round_trip_us / 2, self.calls, way, batch))

    def deliver(self, until_us: float) -> None:
        """All replies up to a moment."""
        while self.replies and self.replies[0][0] <= until_us:
            now_us, _, way, batch = heapq.heappop(self.replies)
            self.waits_us += [now_us - asked_us for asked_us in batch]
            self.lines[way].on_its_way = False
            self.send(now_us, way)


def simulate(fleet: Fleet, requests: int | None = None, seed: int = 1) -> Outcome:
    """Play a fleet, by default for a third of a second and at least 50,000 requests."""
    requests = requests or max(50_000, fleet.requests_per_s // 3)
    simulation = _Simulation(fleet, seed)
    lasted_us = max(simulation.run(requests), *simulation.free_at_us)
    waits_us = sorted(simulation.waits_us)
    return Outcome(
        simulation.calls / requests,
        simulation.worked_us / lasted_us / fleet.shards,
        waits_us[len(waits_us) // 2],
        waits_us[len(waits_us) * 99 // 100],
        simulation.unspent / simulation.taken if simulation.taken else 0.0,
    )


SIZES = (
    *(
        Fleet(rate, workers)
        for rate, workers in ((1_000, 2), (5_000, 4), (10_000, 8), (15_000, 8), (20_000, 16), (30_000, 16))
    ),
    *(Fleet(100_000, 64, shards) for shards in (3, 4, 8, 12)),
    *(Fleet(1_000_000, 500, shards) for shards in (32, 48, 64, 96)),
)
_COLUMNS = (
    "requests/s", "workers", "shards", "buckets", "lease", "calls a request", "busy", "p50", "p99", "unspent",
)  # fmt: skip
_LEASED = tuple(
    Fleet(100_000, 64, 8, buckets, lease_size=size) for buckets in (1, 100, 10_000) for size in (0, 10, 50)
)


def _print_table(fleets: Sequence[Fleet]) -> None:
    print(
        "| requests/s | workers | shards | buckets | lease | calls a request | busy | p50 | p99 | unspent |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for fleet in fleets:
        seen = simulate(fleet)
        print(
            f"| {fleet.requests_per_s:,} | {fleet.workers} | {fleet.shards} | {fleet.buckets:,}"
            f" | {fleet.lease_size or ''} | {seen.calls_per_request:.2f} | {seen.busy:.0%}"
            f" | {seen.p50_us / 1000:.1f} ms | {seen.p99_us / 1000:.1f} ms"
            f" | {f'{seen.unspent:.0%}' if fleet.lease_size else ''} |"
        )


def main() -> None:
    """Print the tables of docs/scaling.md, for a server as it was measured or as it is measured now."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--measure", action="store_true", help="measure a redis-server of this host first")
    measure = parser.parse_args().measure
    import fleet_leases  # it needs the package, the simulation does not

    costs: dict[str, float] = {}
    if measure:
        from fleet_costs import measured

        costs = measured()._asdict()
        print(f"a call costs {costs['call_us']:.0f} µs, each check in it {costs['check_us']:.0f} µs\n")
    _print_table([replace(fleet, **costs) for fleet in SIZES])
    print()
    _print_table([replace(fleet, **costs) for fleet in _LEASED])
    print()
    fleet_leases.print_table()


if __name__ == "__main__":
    main()
