"""Answer: what a refused client hears."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from ratelimit_middleware.decision import Verdict
from ratelimit_middleware.request import RequestView

__all__ = ["Answer", "Responder"]

Responder: TypeAlias = Callable[[RequestView, Verdict], Any]
"""Gives (status, headers, body); what it gives is checked, whatever it says."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a refused client hears.

    Attributes:
        status: the status code, 400 to 599.
        detail: what the body says in the place of the limit and the wait; empty = these.
        problem: whether the body may be a JSON problem; False = always plain text.
        responder: gives the whole answer instead; the other attributes are for the case that it fails.
    """

    status: int = 429
    detail: str = ""
    problem: bool = True
    responder: Responder | None = None
