"""A web host with leases: 50 clients at once against one limit; prints what it got, in how many calls."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence

from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.store_settings import LeaseSettings
from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.stores.leased import LeasedStore
from ratelimit_middleware.stores.redis import RedisStore

__all__ = ["ASK", "LEASE", "PREFIX"]

PREFIX = "leases:"
LEASE = LeaseSettings(20, 10**9)
ASK = [Check("all", SlidingWindow(1000, 3600), "*")]
CLIENTS = 50
REQUESTS = 10


class Counting(RedisStore):
    """Counts the requests that ask the server."""

    asked = 0

    async def take_async(self, checks: Sequence[Check]) -> list[Decision]:
        self.asked += 1
        return await super().take_async(checks)


async def admitted(url: str) -> dict[str, int]:
    """What 50 clients get who ask 10 times each; what is left goes back."""
    server = Counting(url, prefix=PREFIX, timeout=20, known_refusals=0)
    store = LeasedStore(server, LEASE)

    async def client() -> int:
        return sum([(await store.take_async(ASK))[0].allowed for _ in range(REQUESTS)])

    counts = await asyncio.gather(*(client() for _ in range(CLIENTS)))
    await store.close_async()
    return {"admitted": sum(counts), "asked": server.asked}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(admitted(sys.argv[1]))))  # noqa: T201 - the answer to the test
