"""Served: what the end of a response tells a meter."""

from __future__ import annotations

from dataclasses import dataclass, field

from ratelimit_middleware.overload.meter import Meter
from ratelimit_middleware.request import RequestView
from ratelimit_middleware.response import Response

__all__ = ["Served"]

_FAILED = 400


@dataclass(frozen=True, slots=True)
class Served:
    """A request costs nothing once it has ended; if it was served, how long that took is measured.

    What fails is often quick, and tells nothing of what the server can do.

    Attributes:
        meter: hears of it.
    """

    meter: Meter = field(compare=False, repr=False)
    name: str = "adaptive"
    at_start: bool = False

    def __call__(self, taken: int, view: RequestView, response: Response) -> int:  # noqa: ARG002 - as `Settle`
        """Nothing."""
        if response.status < _FAILED and not response.failed:
            self.meter.completed(response.took_ns)
        return 0
