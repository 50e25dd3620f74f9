"""A store that must be awaited, for the seam between the two worlds."""

from __future__ import annotations

from collections.abc import Sequence

from ratelimit_middleware.decision import Decision
from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.stores.memory import MemoryStore


class AwaitedStore:
    """A memory store behind awaited methods."""

    def __init__(self, inner: MemoryStore) -> None:
        self.inner = inner

    async def take_async(self, checks: Sequence[Check]) -> list[Decision]:
        return self.inner.take(checks)

    async def charge_async(self, check: Check) -> None:
        self.inner.charge(check)

    async def give_back_async(self, check: Check, at_ns: int) -> None:
        self.inner.give_back(check, at_ns)

    async def renew_async(self, check: Check, at_ns: int) -> None:
        self.inner.renew(check, at_ns)

    async def peek_async(self, check: Check) -> Decision:
        return self.inner.peek(check)

    async def reset_async(self, key: str) -> bool:
        return self.inner.reset(key)

    async def close_async(self) -> None:
        self.inner.close()
