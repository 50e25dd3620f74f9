"""The pace of one body under ASGI: books its bytes and waits for their moment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import anyio

from ratelimit_middleware.asgi_inbox import Inbox
from ratelimit_middleware.asgi_meter import AsgiMeter
from ratelimit_middleware.clock import NS_PER_SECOND
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.flow_reports import PacedBytes
from ratelimit_middleware.flows import Held
from ratelimit_middleware.stores.base import Check

__all__ = ["AsgiPace"]


class _Booked(NamedTuple):
    """Bytes that wait for their moment, on the event loop's clock."""

    size: int
    moment: float
    checks: Sequence[Check]
    decisions: Sequence[Decision]


class AsgiPace:
    """Lets bytes of a body pass at the rate of its limits, a piece at a time.

    Args:
        held: the limits; at least one.
        meter: asks the store.
        inbox: knows whether the client is still there.

    Attributes:
        piece: how many bytes may be asked for at a time.
        done: what has had to wait so far.
    """

    __slots__ = ("_booked", "_held", "_inbox", "_meter", "done", "piece")

    def __init__(self, held: Sequence[Held], meter: AsgiMeter, inbox: Inbox) -> None:
        self._held = held
        self._meter = meter
        self._inbox = inbox
        self._booked: _Booked | None = None
        self.piece = min(min(one.limit.piece, one.limit.algorithm.smallest_full_take) for one in held)
        self.done = PacedBytes(held)

    async def passes(self, size: int) -> bool:
        """Wait until so many bytes may pass; False if the client goes away.

        If it is cancelled the booking stays, for the same bytes to be asked for again.

        Raises:
            StillUnavailableError: the store has not answered for too long.
        """
        if self._booked is not None and self._booked.size != size:
            await self.release()
        if self._booked is None:
            self._booked = await self._book(size)
        booked = self._booked
        if booked is None:
            return False
        if booked.moment > anyio.current_time() and not await self._inbox.wait_until(booked.moment):
            await self.release()
            return False
        self._booked = None
        return True

    async def release(self) -> None:
        """Give back what is booked and was not used."""
        booked, self._booked = self._booked, None
        if booked is not None:
            await self._meter.give_back(booked.checks, booked.decisions)

    async def _book(self, size: int) -> _Booked | None:
        checks = [one.check._replace(cost=size) for one in self._held]
        decisions = await self._meter.take_patiently(checks, self._inbox)
        if decisions is None:
            return None
        wait_ns = self.done.add(size, decisions)
        return _Booked(size, anyio.current_time() + wait_ns / NS_PER_SECOND, checks, decisions)
