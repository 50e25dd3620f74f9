"""open_store: a store from its URL."""

from __future__ import annotations

import logging
import os
import sys
from urllib.parse import unquote

from ratelimit_middleware.clock import Clock
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.stores._workers import MEMORY_UNDER_WORKERS, worker_count
from ratelimit_middleware.stores.base import Store
from ratelimit_middleware.stores.memory import MemoryStore

__all__ = ["open_store"]

logger = logging.getLogger("ratelimit_middleware.stores")

_SHARED = "shared://"


def open_store(url: str, clock: Clock | None = None) -> Store:
    """Open the store that `url` names.

    Args:
        url: `memory://`, `shared://` (a directory of the user's own in memory) or
            `shared:///DIRECTORY`.
        clock: where the store's time comes from; the system's clock if None.

    Raises:
        StoreError: no store has this URL, or it cannot be opened.
    """
    if url == "memory://":
        return _open_memory(clock)
    if url.startswith(_SHARED):
        return _open_shared(url.removeprefix(_SHARED), clock)
    raise StoreError(f"no store is known for the URL {url!r}: expected memory:// or shared://")


def _open_memory(clock: Clock | None) -> Store:
    workers = worker_count(sys.argv, os.environ)
    if workers > 1:
        logger.warning(MEMORY_UNDER_WORKERS, f"{workers} workers")
    return MemoryStore(clock=clock)


def _open_shared(place: str, clock: Clock | None) -> Store:
    from ratelimit_middleware.stores.shared import SharedStore  # only who asks for it needs lmdb

    if place and not place.startswith("/"):
        raise StoreError(f"shared://{place} names no directory: expected three slashes, shared:///{place}")
    return SharedStore(unquote(place) or None, clock=clock)
