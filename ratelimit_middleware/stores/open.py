"""open_store: a store from its URL."""

from __future__ import annotations

from ratelimit_middleware.clock import Clock
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.stores.base import Store
from ratelimit_middleware.stores.memory import MemoryStore

__all__ = ["open_store"]


def open_store(url: str, clock: Clock | None = None) -> Store:
    """Open the store that `url` names.

    Args:
        url: `memory://`.
        clock: where the store's time comes from; the system's clock if None.

    Raises:
        StoreError: no store has this URL.
    """
    if url == "memory://":
        return MemoryStore(clock=clock)
    raise StoreError(f"no store is known for the URL {url!r}: expected memory://")
