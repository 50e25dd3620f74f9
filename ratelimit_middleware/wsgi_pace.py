"""The pace of bodies under WSGI: books bytes and waits in threads of the server, of which so many may."""

from __future__ import annotations

import time
from collections.abc import Sequence
from threading import Semaphore

from ratelimit_middleware.clock import NS_PER_SECOND, Clock
from ratelimit_middleware.decision import UNCHECKED, Decision
from ratelimit_middleware.errors import BodyCutError, StoreUnavailableError
from ratelimit_middleware.faults import FLOWS_FAILED, FaultLog
from ratelimit_middleware.flow_reports import PacedBytes
from ratelimit_middleware.flows import Held
from ratelimit_middleware.stores.base import Check, Store

__all__ = ["NoPlaceError", "Place", "WsgiMeter", "WsgiPace"]

_PATIENCE_S = 10.0
_PAUSE_S = 1.0


class NoPlaceError(Exception):
    """Raised where a body would have to wait, and as many threads wait as may."""


class Place:
    """One of the threads that may wait; taken once, for the rest of the request.

    Args:
        places: how many there are.
    """

    __slots__ = ("_is_held", "_places")

    def __init__(self, places: Semaphore) -> None:
        self._places = places
        self._is_held = False

    def take(self) -> bool:
        """Whether there is one."""
        self._is_held = self._is_held or self._places.acquire(blocking=False)
        return self._is_held

    def free(self) -> None:
        """It is not needed any more."""
        if self._is_held:
            self._is_held = False
            self._places.release()


class WsgiMeter:
    """Books permits while a request is served.

    Args:
        store: where the counts live.
        clock: spaces the log lines about a store that fails; the system's by default.
    """

    __slots__ = ("_faults", "_store")

    def __init__(self, store: Store, clock: Clock | None = None) -> None:
        self._store = store
        self._faults = FaultLog(FLOWS_FAILED, clock=clock)

    def take(self, checks: Sequence[Check]) -> Sequence[Decision]:
        """The decisions of the store, however often it has to be asked.

        Raises:
            BodyCutError: it has not answered for 10 s.
        """
        waited_s = 0.0
        while True:
            try:
                return self._store.take(checks)
            except Exception as error:
                self._faults.report(error)
                if all(check.shadow for check in checks):
                    return [UNCHECKED] * len(checks)
                is_outage = isinstance(error, StoreUnavailableError)
                pause_s = max(error.retry_after_ns / NS_PER_SECOND, 0.001) if is_outage else _PAUSE_S  # type: ignore[attr-defined]
                waited_s += pause_s
                if waited_s > _PATIENCE_S:
                    raise BodyCutError("a body is broken off: its bytes cannot be counted") from error
            time.sleep(pause_s)

    def give_back(self, checks: Sequence[Check], decisions: Sequence[Decision]) -> None:
        """What was booked is not used; never raises."""
        try:
            for check, decision in zip(checks, decisions, strict=True):
                if decision.allowed and decision is not UNCHECKED:
                    self._store.give_back(check, decision.at_ns)
        except Exception as error:  # noqa: BLE001 - it counts as used
            self._faults.report(error)


class WsgiPace:
    """Lets bytes of a body pass at the rate of its limits, a piece at a time.

    Args:
        held: the limits; at least one.
        meter: asks the store.
        place: where its thread waits.

    Attributes:
        piece: how many bytes may be asked for at a time.
        may_wait: whether any of the limits is in force.
        at_once: how many pass without a wait at best.
        done: what has had to wait so far.
    """

    __slots__ = ("_held", "_meter", "_place", "at_once", "done", "may_wait", "piece")

    def __init__(self, held: Sequence[Held], meter: WsgiMeter, place: Place) -> None:
        self._held = held
        self._meter = meter
        self._place = place
        self.may_wait = any(not one.check.shadow for one in held)
        self.at_once = min(one.limit.algorithm.smallest_full_take for one in held)
        self.piece = min(self.at_once, *(one.limit.piece for one in held))
        self.done = PacedBytes(held)

    def pass_(self, size: int, *, must: bool = False) -> None:
        """Wait until so many bytes may pass.

        Args:
            size: at most `piece`.
            must: there is no way back: wait even if there is no place.

        Raises:
            NoPlaceError: too many threads wait; nothing is booked.
            BodyCutError: the store has not answered for too long.
        """
        checks = [one.check._replace(cost=size) for one in self._held]
        decisions = self._meter.take(checks)
        wait_ns = max(decision.wait_ns for decision in decisions)
        if wait_ns and not self._place.take() and not must:
            self._meter.give_back(checks, decisions)
            raise NoPlaceError
        self.done.add(size, decisions)
        try:
            if wait_ns:
                time.sleep(wait_ns / NS_PER_SECOND)
        except BaseException:
            self._meter.give_back(checks, decisions)
            raise
