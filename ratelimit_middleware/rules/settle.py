"""What a rule's request costs in the end."""

from __future__ import annotations

from typing import Protocol

from ratelimit_middleware.request import RequestView
from ratelimit_middleware.response import Response

__all__ = ["Settle"]


class Settle(Protocol):
    """What a request costs in the end, known when its response starts or ends."""

    @property
    def name(self) -> str:
        """What the log calls it when it fails."""

    @property
    def at_start(self) -> bool:
        """Whether the start of the response says it."""

    def __call__(self, taken: int, view: RequestView, response: Response) -> int:
        """The permits due, of which `taken` are booked.

        Raises:
            Exception: it cannot be told; what was booked stays.
        """
