"""What leases cost and save on one busy limit: the store of leases itself, on a clock that is moved."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.store_settings import LeaseSettings
from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.stores.leased import LeasedStore
from ratelimit_middleware.stores.memory import MemoryStore

__all__ = ["Cost", "cost_of_leases", "print_table"]

_LIMIT = 10_000
_PERIOD_S = 10
_PERIODS = 3


class Cost(NamedTuple):
    """What was seen.

    Attributes:
        calls_per_request: round trips.
        admitted: share of the requests that the limit allows over the time, without leases 1.
        most: the most that passed in any period, as a share of the limit.
    """

    calls_per_request: float
    admitted: float
    most: float


class _Counted(MemoryStore):
    """The server; its calls are counted."""

    calls = 0

    def take(self, checks: Sequence[Check]) -> list[Decision]:
        self.calls += 1
        return super().take(checks)


def cost_of_leases(workers: int, size: int, offered: float, seed: int = 1) -> Cost:
    """Workers that are offered so many times the limit of 10,000 per 10 s, at random."""
    clock = ManualClock()
    server = _Counted(clock=clock)
    stores = [
        LeasedStore(server, LeaseSettings(size), clock=clock) if size else server for _ in range(workers)
    ]
    check = Check("all|*", SlidingWindow(_LIMIT, _PERIOD_S), "all|*")
    chance = random.Random(seed)  # noqa: S311 - a simulation
    passed_ns: list[int] = []
    requests = int(_LIMIT * offered * _PERIODS)
    for _ in range(requests):
        clock.advance(chance.expovariate(_LIMIT / _PERIOD_S * offered))
        if chance.choice(stores).take([check])[0].allowed:
            passed_ns.append(clock.now_ns())
    allowed = _LIMIT * _PERIODS
    return Cost(server.calls / requests, len(passed_ns) / allowed, _most_in_a_period(passed_ns) / _LIMIT)


def _most_in_a_period(passed_ns: list[int]) -> int:
    """The most of these moments that lie within less than a period."""
    most = first = 0
    for place, moment_ns in enumerate(passed_ns):
        while moment_ns - passed_ns[first] >= _PERIOD_S * 10**9:
            first += 1
        most = max(most, place - first + 1)
    return most


def print_table() -> None:
    """Below the limit: what leases save; above it: what they cost."""
    print(
        "| workers | lease | calls a request at 0.9 of the limit | admitted at 1.5 of it |\n|---|---|---|---|"
    )
    for workers in (4, 16, 64):
        for size in (0, 10, 50):
            saved, cost = cost_of_leases(workers, size, 0.9), cost_of_leases(workers, size, 1.5)
            print(
                f"| {workers} | {size or ''} | {saved.calls_per_request:.2f}"
                f" | {cost.admitted:.1%}, at most {cost.most:.1%} in any period |"
            )
