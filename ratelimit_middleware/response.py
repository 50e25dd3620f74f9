"""Response: the little of an answer that a limit may look at, filled in by the adapters as it goes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["UNKNOWN_NS", "Response"]

UNKNOWN_NS = -1
"""There is no telling how long it took: the clock has failed."""


@dataclass(slots=True)
class Response:
    """How a request was answered.

    Attributes:
        status: the status code; 500 if the app raised before it answered, 101 for an accepted WebSocket,
            403 for one that the app closed before; 0 while no answer has been started.
        headers: name and value pairs of the app's own answer.
        bytes_sent: bytes of the body so far.
        took_ns: from the moment the app was called, ns; `UNKNOWN_NS` if its clock has failed.
        failed: the app raised, or the client had gone before the end.
    """

    status: int = 0
    headers: Sequence[tuple[str, str]] = ()
    bytes_sent: int = 0
    took_ns: int = 0
    failed: bool = False

    def header(self, name: str) -> str | None:
        """The value of a field, lines joined by `, `; None if it is not there."""
        values = [value for field, value in self.headers if field.lower() == name.lower()]
        return ", ".join(values) if values else None
