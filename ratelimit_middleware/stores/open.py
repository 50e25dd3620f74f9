"""open_store: a store from its URL."""

from __future__ import annotations

from urllib.parse import unquote

from ratelimit_middleware.clock import NS_PER_SECOND, Clock
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.redis_url import REDIS_SCHEMES
from ratelimit_middleware.store_settings import StoreSettings
from ratelimit_middleware.stores._workers import warn_of_workers
from ratelimit_middleware.stores.base import Store
from ratelimit_middleware.stores.divided import DividedStore
from ratelimit_middleware.stores.leased import LeasedStore
from ratelimit_middleware.stores.memory import MemoryStore

__all__ = ["open_store"]

_SHARED = "shared://"


def open_store(store: StoreSettings | str, clock: Clock | None = None) -> Store:
    """Open the store that the settings name, without a guard.

    Args:
        store: settings, or a URL with the default settings: `memory://`, `shared://` (a directory of the
            user's own in memory), `shared:///DIRECTORY`, or the URL of a Redis or Valkey server: `redis://`,
            `rediss://`, `unix://`, `valkey://`, `valkeys://`.
        clock: where the store's time comes from; the system's clock if None.

    Raises:
        StoreError: no store has this URL, or it cannot be opened.
    """
    settings = StoreSettings(store) if isinstance(store, str) else store
    url = settings.url
    if url == "memory://":
        return _open_memory(settings, clock)
    if url.startswith(_SHARED):
        return _open_shared(url.removeprefix(_SHARED), settings, clock)
    if settings.scheme in REDIS_SCHEMES:
        return _open_redis(settings, clock)
    # The rest of the URL may hold a password.
    expected = "expected memory://, shared:// or redis://"
    raise StoreError(f"no store is known for {settings.scheme}:// URLs: {expected}")


def _open_memory(settings: StoreSettings, clock: Clock | None) -> Store:
    warn_of_workers(settings.workers)
    if settings.workers > 1:
        return DividedStore(settings.workers, max_keys=settings.max_keys, clock=clock)
    return MemoryStore(max_keys=settings.max_keys, clock=clock)


def _open_shared(place: str, settings: StoreSettings, clock: Clock | None) -> Store:
    from ratelimit_middleware.stores.shared import SharedStore  # only who asks for it needs lmdb

    if place and not place.startswith("/"):
        raise StoreError(f"shared://{place} names no directory: expected three slashes, shared:///{place}")
    return SharedStore(unquote(place) or None, max_keys=settings.max_keys, clock=clock)


def _open_redis(settings: StoreSettings, clock: Clock | None) -> Store:
    from ratelimit_middleware.stores.redis import RedisStore  # only who asks for it needs redis-py

    timeout = settings.timeout_ns / NS_PER_SECOND
    store = RedisStore(settings.url, prefix=settings.prefix, timeout=timeout, clock=clock)
    return store if settings.lease is None else LeasedStore(store, settings.lease, clock=clock)
