"""A web host of its own: many clients at once against each limit; prints how many were admitted."""

from __future__ import annotations

import asyncio
import json
import sys

from ratelimit_middleware.algorithms.base import Algorithm
from ratelimit_middleware.algorithms.concurrency import Concurrency
from ratelimit_middleware.algorithms.fixed_window import FixedWindow
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.leaky_bucket import LeakyBucket
from ratelimit_middleware.algorithms.pacing import Pacing
from ratelimit_middleware.algorithms.sliding_counter import SlidingCounter
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.algorithms.token_bucket import TokenBucket
from ratelimit_middleware.algorithms.warm_up_window import WarmUpWindow
from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.stores.redis import RedisStore

__all__ = ["THOUSAND"]

_LONG_S = 10**7  # longer than any test, and no border of its grid is near

THOUSAND: dict[str, Algorithm] = {
    "window": SlidingWindow(1000, 3600),
    "gcra": GCRA(1, 3600, 1000),
    "leaky": LeakyBucket(0.001, 999, "nodelay"),
    "token": TokenBucket(1000, 3600),
    "greedy": TokenBucket(1000, 3600, refill="greedy"),
    "calendar": FixedWindow(1000, "year"),
    "counter": SlidingCounter(1000, _LONG_S),
    "warm-up": WarmUpWindow(3000, _LONG_S, 2 * _LONG_S),
    "slots": Concurrency(1000),
    "pacing": Pacing(1 / 60, 999 * 60),
}
QUEUES = {"pacing"}
CLIENTS = 50
REQUESTS = 10


async def admitted(url: str, name: str) -> int:
    """What 50 clients get who ask 10 times each."""
    store = RedisStore(url, prefix=f"thousand-{name}:", timeout=20, known_refusals=0)
    ask = [Check("all", THOUSAND[name], "*", max_wait_ns=None if name in QUEUES else 0)]

    async def client() -> int:
        return sum([(await store.take_async(ask))[0].allowed for _ in range(REQUESTS)])

    counts = await asyncio.gather(*(client() for _ in range(CLIENTS)))
    await store.close_async()
    return sum(counts)


async def all_admitted(url: str, *names: str) -> dict[str, int]:
    """For each limit in turn."""
    return {name: await admitted(url, name) for name in names or THOUSAND}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(all_admitted(*sys.argv[1:]))))  # noqa: T201 - the answer to the test
