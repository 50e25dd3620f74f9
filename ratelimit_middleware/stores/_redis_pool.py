"""Pools of connections to a Redis server, as redis-py has them for threads and for event loops."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.redis_url import RedisUrl

__all__ = ["INSTALL", "make_pool"]

_MAX_CONNECTIONS = 10_000
# Under TLS 1.3 the server sends tickets after the handshake, which redis-py takes for a left reply. Saying
# a name is a first exchange in which they are read.
_CLIENT = "ratelimit-middleware"
INSTALL = "pip install 'ratelimit-middleware[redis]'"


def make_pool(kind: Any, retry: type[Any], address: RedisUrl, timeout_s: float) -> Any:
    """A pool of connections, none made yet.

    Raises:
        StoreError: redis-py does not understand the address.
    """
    from redis.backoff import NoBackoff

    try:
        return kind.from_url(
            address.at(),
            retry=retry(NoBackoff(), 0),
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            max_connections=_MAX_CONNECTIONS,
            protocol=2,
            client_name=_CLIENT if address.scheme == "rediss" else None,
            **_no_name(),
        )
    except (ValueError, TypeError) as error:
        raise StoreError(f"the URL of {address.place} is not understood: {error}") from error


def _no_name() -> dict[str, None]:
    """Keeps redis-py from telling its version, for which it would read files on an event loop."""
    if find_spec("redis.driver_info"):
        return {"driver_info": None}
    return {"lib_name": None, "lib_version": None}
