"""LeaseKeeper: renews the slots of requests that are still in progress."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress

from ratelimit_middleware.settling import Booking, Stay

__all__ = ["LeaseKeeper"]


class LeaseKeeper:
    """Renews what running requests hold, from one thread that lives as long as there is something to renew.

    A request that is lost (a server that never closes a response) is not kept alive: it is held weakly,
    and its slot comes back when its lease ends.

    Args:
        renew: tells the store about a slot of a request; what it raises is tried again the next time.
        every_s: seconds between renewals, a fraction of the lease.
    """

    def __init__(self, renew: Callable[[Stay, Booking], None], every_s: float) -> None:
        self._renew = renew
        self._every_s = every_s
        self._lock = threading.Lock()
        self._stays: dict[int, weakref.ref[Stay]] = {}
        self._thread: tuple[int, threading.Thread] | None = None
        self._stopped = threading.Event()

    def hold(self, stay: Stay) -> None:
        """Keep the slots of a request alive until it is settled or lost."""
        stay.when_settled = self._let_go
        with self._lock:
            self._stays[id(stay)] = weakref.ref(stay)
            # A thread does not live on in a process that was forked.
            if self._thread is None or self._thread[0] != os.getpid():
                thread = threading.Thread(target=self._run, name="ratelimit-leases", daemon=True)
                with suppress(RuntimeError):  # no thread to be had: the next request tries again
                    thread.start()
                    self._thread = (os.getpid(), thread)

    def close(self) -> None:
        """End the thread soon."""
        self._stopped.set()

    def renew_all(self) -> bool:
        """Renew once; False if there was nothing."""
        with self._lock:
            held = [stay for stay in (ref() for ref in list(self._stays.values())) if stay is not None]
            for name, ref in list(self._stays.items()):
                if ref() is None:
                    self._stays.pop(name, None)
            if not held:
                self._thread = None
                return False
        for stay in held:
            for booking in stay.leases():
                with suppress(Exception):  # the store's trouble is told by those who take
                    self._renew(stay, booking)
        return True

    def _let_go(self, stay: Stay) -> None:
        # A single step of a dict, so that no lock is needed.
        self._stays.pop(id(stay), None)

    def _run(self) -> None:
        while not self._stopped.wait(self._every_s) and self.renew_all():
            pass
