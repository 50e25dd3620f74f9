"""The two halves of a `RedisStore`, for threads and for event loops, as its URL wants them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from importlib import import_module
from os import R_OK, access
from typing import Protocol

from ratelimit_middleware.algorithms.base import AdoptMode
from ratelimit_middleware.clock import SystemClock
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.redis_url import RedisUrl
from ratelimit_middleware.stores._redis_keys import Keys, TaggedKeys
from ratelimit_middleware.stores._redis_loop import Loop, LoopSide
from ratelimit_middleware.stores._redis_loop_link import LoopLink
from ratelimit_middleware.stores._redis_plan import Planner
from ratelimit_middleware.stores._redis_pool import INSTALL
from ratelimit_middleware.stores._redis_script import load_script
from ratelimit_middleware.stores._redis_thread_link import ThreadLink
from ratelimit_middleware.stores._redis_threads import Threads, ThreadSide

__all__ = ["Sides", "open_sides"]

_ONE_PLACE = (None,)
_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_TimeUs = Callable[[], "int | None"]


class Sides(Protocol):
    """Makes the halves of a store.

    Attributes:
        planner: makes the calls and reads the replies of all of them.
    """

    planner: Planner

    def threads(self) -> Threads:
        """The half for threads."""

    def loop(self) -> Loop:
        """The half for an event loop."""

    def places(self, keys: Iterable[str]) -> Collection[Hashable]:
        """The servers that have these buckets, each of which may fail by itself."""


def open_sides(
    url: RedisUrl, prefix: str, keep_state: AdoptMode, timeout_s: float, time_us: _TimeUs
) -> Sides:
    """What makes the halves of a store; nothing is connected yet.

    Args:
        url: leads to the servers.
        prefix: what every key begins with.
        keep_state: what happens to a bucket whose limit got other numbers.
        timeout_s: how long a call from a thread may take; on an event loop connecting and each reply.
        time_us: the time for tests; None = the server's.

    Raises:
        StoreError: redis-py is not installed, a TLS file cannot be read, or a cluster cannot have the prefix.
    """
    try:
        import_module("redis")  # takes longer than a call may, so it is not left to the first one
    except ImportError as error:
        raise StoreError(f"the Redis store needs redis-py: {INSTALL}") from error
    for name, path in url.tls:
        if name in _FILES and not access(path, R_OK):
            raise StoreError(f"{name}={path}: there is no such file, or it may not be read")
    if url.kind == "cluster":
        if "{" in prefix:
            raise StoreError(f"prefix={prefix!r}: with a cluster a prefix has no `{{`, which marks the slot")
        return _ClusterSides(url, TaggedKeys(prefix), keep_state, timeout_s, time_us)
    kind = _SentinelSides if url.kind == "sentinel" else _SingleSides
    return kind(url, Planner(Keys(prefix), keep_state), timeout_s, time_us)


class _SingleSides:
    """One server."""

    def __init__(self, url: RedisUrl, planner: Planner, timeout_s: float, time_us: _TimeUs) -> None:
        self.planner = planner
        self._url = url
        self._timeout_s = timeout_s
        self._time_us = time_us
        self._script = load_script()

    def threads(self) -> Threads:
        link = ThreadLink(self._url, self._timeout_s)
        return ThreadSide(self.planner, self._script, link, self._time_us, self._timeout_s)

    def loop(self) -> Loop:
        link = LoopLink(self._url, self._timeout_s)
        return LoopSide(self.planner, self._script, link, self._time_us)

    def places(self, _keys: Iterable[str]) -> Collection[Hashable]:
        return _ONE_PLACE


class _SentinelSides(_SingleSides):
    """The primary that sentinels name; all halves share what is known of it."""

    def __init__(self, url: RedisUrl, planner: Planner, timeout_s: float, time_us: _TimeUs) -> None:
        from ratelimit_middleware.stores._sentinel_talk import Primary

        super().__init__(url, planner, timeout_s, time_us)
        self._primary = Primary(url.service, url.nodes, SystemClock().now_ns)

    def threads(self) -> Threads:
        from ratelimit_middleware.stores._sentinel_links import SentinelThreadLink

        link = SentinelThreadLink(self._url, self._timeout_s, self._primary)
        return ThreadSide(self.planner, self._script, link, self._time_us, self._timeout_s)

    def loop(self) -> Loop:
        from ratelimit_middleware.stores._sentinel_links import SentinelLoopLink

        link = SentinelLoopLink(self._url, self._timeout_s, self._primary)
        return LoopSide(self.planner, self._script, link, self._time_us)


class _ClusterSides:
    """A cluster; all halves share what is known of it."""

    def __init__(
        self, url: RedisUrl, keys: TaggedKeys, keep_state: AdoptMode, timeout_s: float, time_us: _TimeUs
    ) -> None:
        # Whoever uses one server need not load what is for clusters.
        from ratelimit_middleware.stores._cluster_calls import ClusterCalls
        from ratelimit_middleware.stores._cluster_map import ClusterMap

        self.planner = Planner(keys, keep_state)
        self._url = url
        self._timeout_s = timeout_s
        cluster = ClusterMap(url.nodes, SystemClock().now_ns)
        self._calls = ClusterCalls(self.planner, keys, load_script(), cluster, time_us)

    def threads(self) -> Threads:
        from ratelimit_middleware.stores._cluster_sides import ClusterThreadSide
        from ratelimit_middleware.stores._redis_nodes import ThreadNodes

        nodes = ThreadNodes(self._url, self._timeout_s)
        return ClusterThreadSide(self.planner, self._calls, nodes, self._timeout_s)

    def loop(self) -> Loop:
        from ratelimit_middleware.stores._cluster_sides import ClusterLoopSide
        from ratelimit_middleware.stores._redis_nodes import LoopNodes

        return ClusterLoopSide(self.planner, self._calls, LoopNodes(self._url, self._timeout_s))

    def places(self, keys: Iterable[str]) -> Collection[Hashable]:
        return {self._calls.cluster.owner(self._calls.slot(key)) for key in keys}
