"""A web host of its own: many clients at once against one limit; prints how many were admitted."""

from __future__ import annotations

import asyncio
import sys

from ratelimit_middleware.algorithms.base import Algorithm
from ratelimit_middleware.algorithms.fixed_window import FixedWindow
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.leaky_bucket import LeakyBucket
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.algorithms.token_bucket import TokenBucket
from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.stores.redis import RedisStore

__all__ = ["THOUSAND"]

THOUSAND: dict[str, Algorithm] = {
    "window": SlidingWindow(1000, 3600),
    "gcra": GCRA(1, 3600, 1000),
    "leaky": LeakyBucket(0.001, 999, "nodelay"),
    "token": TokenBucket(1000, 3600),
    "greedy": TokenBucket(1000, 3600, refill="greedy"),
    "calendar": FixedWindow(1000, "year"),
}
CLIENTS = 50
REQUESTS = 10


async def admitted(url: str, name: str) -> int:
    """What 50 clients get who ask 10 times each."""
    store = RedisStore(url, prefix=f"thousand-{name}:", known_refusals=0)
    ask = [Check("all", THOUSAND[name], "*")]

    async def client() -> int:
        return sum([(await store.take_async(ask))[0].allowed for _ in range(REQUESTS)])

    counts = await asyncio.gather(*(client() for _ in range(CLIENTS)))
    await store.close_async()
    return sum(counts)


if __name__ == "__main__":
    print(asyncio.run(admitted(*sys.argv[1:])))  # noqa: T201 - the answer to the test
