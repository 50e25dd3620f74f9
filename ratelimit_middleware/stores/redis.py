"""RedisStore: buckets in Redis or Valkey, one limit for a fleet of hosts, one round trip a request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Hashable, Iterable, Iterator, Sequence

from ratelimit_middleware.algorithms.base import AdoptMode, Algorithm
from ratelimit_middleware.clock import Clock, SystemClock
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.errors import InvalidLimitError, StoreError
from ratelimit_middleware.redis_url import read_redis_url
from ratelimit_middleware.stores._deny_cache import DenyCache
from ratelimit_middleware.stores._redis_loop import Loop
from ratelimit_middleware.stores._redis_plan import moment
from ratelimit_middleware.stores._redis_port import US_NS
from ratelimit_middleware.stores._redis_sides import open_sides
from ratelimit_middleware.stores.base import Check, Look, StoreStats

__all__ = ["RedisStore"]


class RedisStore:
    """Buckets of all hosts that use the same server and prefix; for threads and for asyncio.

    Each request is one call of a script that books all of its checks or none, on the server's own clock.
    On an event loop concurrent requests share a call; a request that is cancelled meanwhile gets its
    permits back when the reply comes. A refusal that is known to hold is answered without a call.

    Nothing is sent twice unless a reply proves that it has not run, so a lost reply costs the caller its
    permits, and never twice.

    Args:
        url: `redis://`, `rediss://` (TLS), `unix://`, `redis+cluster://` or `redis+sentinel://`, and the same
            for `valkey`. The query may hold `prefix` and `timeout`.
        prefix: what all keys begin with; apps that must not share their counts name their own.
        timeout: seconds that a call from a thread may take, connecting and all replies together. On an event
            loop, where the caller can cancel: connecting and each reply, each.
        clock: for tests: the time, instead of the server's. Keys live a minute longer then.
        keep_state: what happens to a bucket whose limit got other numbers.
        known_refusals: how many refusals are remembered (for a second at most); 0 = none.

    Raises:
        StoreError: the URL is not understood, a file that it names for TLS cannot be read, or redis-py is not
            installed. No connection is made yet.
        InvalidLimitError: the timeout is no number of seconds above 0.
    """

    def __init__(
        self,
        url: str = "redis://localhost",
        *,
        prefix: str = "ratelimit:",
        timeout: float = 1.0,
        clock: Clock | None = None,
        keep_state: AdoptMode = "keep",
        known_refusals: int = 10_000,
    ) -> None:
        self._address = read_redis_url(url)
        self._prefix = self._address.options.get("prefix", prefix)
        self._timeout_s = _seconds(self._address.options.get("timeout", timeout))
        self._clock = clock
        self._refusals = DenyCache(known_refusals)
        self._refusals_now_ns = (clock or SystemClock()).now_ns
        self._sides = open_sides(self._address, self._prefix, keep_state, self._timeout_s, self._time_us)
        self._planner = self._sides.planner
        self._threads = self._sides.threads()
        self._loops: dict[asyncio.AbstractEventLoop, Loop] = {}

    def accept(self, algorithm: Algorithm) -> None:
        """Return if limits of these numbers can be counted.

        Raises:
            StoreError: the script has no port of the algorithm, or could not count its numbers exactly.
        """
        self._planner.ask([Check("", algorithm, "")])

    def places(self, keys: Iterable[str]) -> Collection[Hashable]:
        """The servers that have these buckets, as far as is known; see `SpreadStore.places`."""
        return self._sides.places(keys)

    def take(self, checks: Sequence[Check]) -> list[Decision]:
        """Decide all checks with one start time, all or nothing; see `Store.take`."""
        now_ns = self._refusals_now_ns()
        known = self._refusals.find(checks, now_ns)
        if known is not None:
            return known
        decisions = self._threads.take(checks)
        self._refusals.keep(checks, decisions, now_ns)
        return decisions

    def charge(self, check: Check) -> None:
        """Consume without asking."""
        self._threads.call("charge", self._planner.ask([check]))

    def give_back(self, check: Check, at_ns: int) -> None:
        """Undo a booking; nothing if its bucket has been forgotten."""
        self._threads.call("give_back", self._planner.ask([check]), moment(at_ns))
        self._refusals.given_back(check, self._refusals_now_ns())

    def renew(self, check: Check, at_ns: int) -> None:
        """The lease of a slot begins anew; see `Store.renew`."""
        self._threads.call("renew", self._planner.ask([check]), moment(at_ns))

    def peek(self, check: Check) -> Decision:
        """What a request would hear; nothing changes."""
        ask = self._planner.ask([check._replace(max_wait_ns=0, shadow=False)])
        return self._planner.decisions(ask, *self._threads.call("peek", ask))[0]

    def reset(self, key: str) -> bool:
        """Forget a bucket, for all hosts; True if it was there.

        Other processes may refuse for a second longer what they know to be refused.
        """
        self._refusals.clear()
        return self._threads.delete(key)

    def scan(self, beginning: str = "") -> Iterator[str]:
        """The keys that are there, as `Check.key` has them; safe on a shared server (SCAN, own prefix).

        Args:
            beginning: only keys that begin so, such as `"login|"`: all clients of one limit.
        """
        return self._threads.scan(beginning)

    def look(self, key: str) -> Look | None:
        """What stands in a bucket; None if it is not there.

        Raises:
            UnreadableBucketError: something stands there that cannot be read.
        """
        entry, now_us = self._threads.read(key)
        return None if entry is None else self._planner.look(entry, self._time_us() or now_us)

    def close(self) -> None:
        """Close the connections of threads; a call after that opens new ones."""
        self._refusals.clear()
        self._threads.close()

    def stats(self) -> StoreStats:
        """A snapshot for metrics: the keys of the whole database; no bound of its own (0)."""
        return StoreStats(self._threads.size(), 0, 0)

    async def take_async(self, checks: Sequence[Check]) -> list[Decision]:
        """`take` on an event loop."""
        now_ns = self._refusals_now_ns()
        known = self._refusals.find(checks, now_ns)
        if known is not None:
            return known
        decisions = await self._loop().take(checks)
        self._refusals.keep(checks, decisions, now_ns)
        return decisions

    async def charge_async(self, check: Check) -> None:
        """`charge` on an event loop."""
        await self._loop().call("charge", self._planner.ask([check]))

    async def give_back_async(self, check: Check, at_ns: int) -> None:
        """`give_back` on an event loop."""
        await self._loop().call("give_back", self._planner.ask([check]), moment(at_ns))
        self._refusals.given_back(check, self._refusals_now_ns())

    async def renew_async(self, check: Check, at_ns: int) -> None:
        """`renew` on an event loop."""
        await self._loop().call("renew", self._planner.ask([check]), moment(at_ns))

    async def peek_async(self, check: Check) -> Decision:
        """`peek` on an event loop."""
        ask = self._planner.ask([check._replace(max_wait_ns=0, shadow=False)])
        return self._planner.decisions(ask, *await self._loop().call("peek", ask))[0]

    async def reset_async(self, key: str) -> bool:
        """`reset` on an event loop."""
        self._refusals.clear()
        return await self._loop().delete(key)

    async def scan_async(self, beginning: str = "") -> AsyncIterator[str]:
        """`scan` on an event loop."""
        async for name in self._loop().scan(beginning):
            yield name

    async def close_async(self) -> None:
        """Close the connections of this event loop, if it has any; a call after that opens new ones."""
        self._refusals.clear()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # one of another kind has none
            return
        side = self._loops.pop(loop, None)
        if side is not None:
            await side.close()

    def _time_us(self) -> int | None:
        return self._clock.now_ns() // US_NS if self._clock else None

    def _loop(self) -> Loop:
        """What belongs to the running loop."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError as error:
            raise StoreError("the Redis store is awaited on an asyncio event loop only") from error
        side = self._loops.get(loop)
        if side is None:
            for other in [other for other in [*self._loops] if other.is_closed()]:  # other threads add theirs
                self._loops.pop(other, None)
            side = self._loops[loop] = self._sides.loop()
        return side


def _seconds(value: object) -> float:
    """A timeout, from the constructor or a URL."""
    try:
        seconds = float(value)  # type: ignore[arg-type]  # whatever else it is raises
    except (TypeError, ValueError):
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise InvalidLimitError("timeout", value, "a number of seconds above 0")
    return seconds
