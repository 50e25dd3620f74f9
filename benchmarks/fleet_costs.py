"""What a call of the Redis store costs the server, measured on a server of this host."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import redis_server
from redis import Redis

from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.stores.redis import RedisStore

__all__ = ["Costs", "measured"]

_REQUESTS = 10_000
_TOGETHER = 64


class Costs(NamedTuple):
    """Processor time of the server's main thread.

    Attributes:
        call_us: of a call, whatever it holds.
        check_us: of each check in it.
    """

    call_us: float
    check_us: float


def measured() -> Costs:
    """From calls with one check and calls with many: sliding windows of 1,000 clients."""
    with redis_server.server() as url:
        few_us, few = asyncio.run(_call_us(url, 1))
        many_us, many = asyncio.run(_call_us(url, _TOGETHER))
    check_us = (many_us - few_us) / (many - few)
    return Costs(few_us - few * check_us, check_us)


async def _call_us(url: str, together: int) -> tuple[float, float]:
    """Of a call while so many ask at once, and how many checks it holds."""
    store = RedisStore(url, timeout=10)
    turns = iter(range(_REQUESTS))

    async def client() -> None:
        for turn in turns:
            key = f"window|{turn % 1000}"
            await store.take_async([Check(key, SlidingWindow(100, 60), "window|*")])

    await store.take_async([Check("window|first", SlidingWindow(100, 60), "window|*")])
    with Redis.from_url(url) as server:
        before_us, calls_before = _spent(server)
        await asyncio.gather(*(client() for _ in range(together)))
        after_us, calls_after = _spent(server)
    await store.close_async()
    calls = calls_after - calls_before
    return (after_us - before_us) / calls, _REQUESTS / calls


def _spent(server: Redis) -> tuple[float, int]:
    """Processor time of the main thread so far, µs, and the calls of scripts."""
    seen = server.info("all")
    seconds = seen["used_cpu_user_main_thread"] + seen["used_cpu_sys_main_thread"]
    return seconds * 1e6, seen["cmdstat_evalsha"]["calls"]
