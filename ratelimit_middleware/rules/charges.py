"""What a request costs in the end: `charge`, `actual` in `cost`, and `unmatched_routes: skip`.

Source of the idea: bucket4j's post-execute condition; here the permits are taken first, so that requests
that come at once cannot slip past, and given back when they do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from ratelimit_middleware.clock import NS_PER_SECOND
from ratelimit_middleware.request import RequestView
from ratelimit_middleware.response import UNKNOWN_NS, Response
from ratelimit_middleware.rules.model import Settle

__all__ = [
    "MOST",
    "ActualHeader",
    "ActualMeasured",
    "ActualSaid",
    "Charged",
    "ChargedIf",
    "ChargedOn",
    "Reserve",
    "UnmatchedFree",
    "counted",
    "is_unmatched",
]

MOST = 10**9
"""The largest cost of a request."""

_Judge = Callable[[RequestView, Response], Any]


def counted(text: str) -> int | None:
    """A number of permits as a header field writes it, at most `MOST`; None if it is none."""
    text = text.strip()
    if not (text.isascii() and text.isdecimal()):
        return None
    return MOST if len(text) > len(str(MOST)) else min(int(text), MOST)


class Charged(Protocol):
    """Whether a request counts: a `Settle` that keeps all permits or none."""

    @property
    def name(self) -> str:
        """What the log calls it."""

    @property
    def at_start(self) -> bool:
        """Whether the start of the response says it."""

    def __call__(self, taken: int, view: RequestView, response: Response) -> int:
        """`taken`, or 0."""


@dataclass(frozen=True, slots=True)
class ChargedOn:
    """Requests count whose answer has one of these statuses, and those that were not answered at all."""

    statuses: frozenset[int]
    name: str = "charge"
    at_start: bool = True

    def __call__(self, taken: int, view: RequestView, response: Response) -> int:  # noqa: ARG002 - as Settle
        """Nothing for another status."""
        return taken if not response.status or response.status in self.statuses else 0


@dataclass(frozen=True, slots=True)
class ChargedIf:
    """Requests count of which a function of the app says so, and those that were not answered at all."""

    name: str
    function: _Judge = field(compare=False, repr=False)
    at_start: bool = True

    def __call__(self, taken: int, view: RequestView, response: Response) -> int:
        """Nothing if the function says False.

        Raises:
            TypeError: the function gave neither True nor False.
        """
        counts = not response.status or self.function(view, response)
        if not isinstance(counts, bool):
            raise TypeError(f"{self.name} gave {counts!r}: expected True or False")
        return taken if counts else 0


@dataclass(frozen=True, slots=True)
class ActualHeader:
    """The true cost stands in a field of the response."""

    field: str
    at_start: bool = True

    @property
    def name(self) -> str:
        """The field."""
        return f"header:{self.field}"

    def __call__(self, taken: int, view: RequestView, response: Response) -> int:  # noqa: ARG002 - as Settle
        """The number in the field.

        Raises:
            ValueError: the field is not there, or holds no number.
        """
        text = response.header(self.field)
        cost = None if text is None else counted(text)
        if cost is None:
            raise ValueError(f"the response has {text!r} there: expected a whole number")
        return cost


@dataclass(frozen=True, slots=True)
class ActualSaid:
    """A function of the app tells the true cost when the response has ended."""

    name: str
    function: _Judge = field(compare=False, repr=False)
    at_start: bool = False

    def __call__(self, taken: int, view: RequestView, response: Response) -> int:  # noqa: ARG002 - as Settle
        """What the function says.

        Raises:
            TypeError: the function gave no whole number from 0 to 10^9.
        """
        cost = self.function(view, response)
        if isinstance(cost, bool) or not isinstance(cost, int) or not 0 <= cost <= MOST:
            raise TypeError(f"{self.name} gave {cost!r} for a cost: expected a whole number from 0 to {MOST}")
        return cost


@dataclass(frozen=True, slots=True)
class ActualMeasured:
    """The true cost is the bytes of the body, or the seconds from the call of the app, begun ones in full."""

    name: Literal["bytes", "seconds"]
    at_start: bool = False

    def __call__(self, taken: int, view: RequestView, response: Response) -> int:  # noqa: ARG002 - as Settle
        """What was measured.

        Raises:
            ValueError: the clock has failed.
        """
        if self.name == "seconds" and response.took_ns == UNKNOWN_NS:
            raise ValueError("the clock has failed, so nobody knows how long the response took")
        spent = response.bytes_sent if self.name == "bytes" else -(-response.took_ns // NS_PER_SECOND)
        return min(spent, MOST)


@dataclass(frozen=True, slots=True)
class Reserve:
    """A cost that is taken first, and settled when the response tells the true one.

    Attributes:
        permits: taken first.
        settle: tells the true cost.
    """

    permits: int
    settle: Settle

    @property
    def most(self) -> int:
        """What must fit into the limit."""
        return self.permits


@dataclass(frozen=True, slots=True)
class UnmatchedFree:
    """A request that the app's router knows no route for costs nothing.

    Attributes:
        otherwise: what other requests cost in the end; None = what was booked.
    """

    otherwise: Settle | None = None

    @property
    def name(self) -> str:
        """As the other one."""
        return self.otherwise.name if self.otherwise else "unmatched_routes"

    @property
    def at_start(self) -> bool:
        """As the other one."""
        return self.otherwise.at_start if self.otherwise else True

    def __call__(self, taken: int, view: RequestView, response: Response) -> int:
        """Nothing for the router's own 404."""
        if response.status == 404 and is_unmatched(view.raw):
            return 0
        return self.otherwise(taken, view, response) if self.otherwise else taken


def is_unmatched(raw: Mapping[str, Any]) -> bool:
    """Whether the app's router has looked at a request and found no route; False where it cannot be told.

    Starlette and FastAPI leave their router in the scope, and the endpoint once a route fits; Flask leaves
    its request in the environ, which knows why no rule fitted.
    """
    request = raw.get("werkzeug.request")
    if request is not None:
        return getattr(getattr(request, "routing_exception", None), "code", None) == 404
    return "router" in raw and "endpoint" not in raw and "route" not in raw
