"""Never run: a limiter's types as its users see them, checked by mypy."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from typing_extensions import assert_type

from ratelimit_middleware import GCRA, Limiter, ManualClock, MemoryStore, SmoothBursty

limiter = Limiter(SmoothBursty(2), clock=ManualClock(), store=MemoryStore())

assert_type(limiter.acquire(10), float)
assert_type(limiter.try_acquire(2, timeout=0.5, key="client"), bool)
assert_type(limiter.available(), int)
reservation = limiter.reserve(3, max_wait=None)
assert_type(reservation.wait, float)
assert_type(reservation.cancel(), bool)


@limiter
def fetch(page: int, *, size: int = 10) -> str:
    return f"{page} {size}"


@Limiter(GCRA(5, 1, 5))
async def fetch_async(page: int, *, size: int = 10) -> list[str]:
    return [f"{page} {size}"]


class Client:
    @limiter
    def get(self, path: str) -> bytes:
        return path.encode()

    @limiter
    async def get_async(self, path: str) -> bytes:
        return path.encode()


assert_type(fetch(1, size=2), str)
assert_type(Client().get("/"), bytes)
a_page: Callable[[int], str] = fetch
a_later_page: Callable[[int], Coroutine[Any, Any, list[str]]] = fetch_async


async def tasks() -> None:
    assert_type(await limiter.acquire_async(), float)
    assert_type(await limiter.try_acquire_async(), bool)
    assert_type(await fetch_async(1, size=2), list[str])
    assert_type(await Client().get_async("/"), bytes)
    async with limiter as entered:
        assert_type(entered, Limiter)
    with limiter as entered:
        assert_type(entered, Limiter)
