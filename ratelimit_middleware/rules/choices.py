"""What a limit lets depend on the request: its cost, and numbers other than its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from ratelimit_middleware.identity import KeyPart, part_value
from ratelimit_middleware.request import Asked, RequestView
from ratelimit_middleware.response import Response
from ratelimit_middleware.rules.model import Limit

__all__ = ["AskedCost", "AskedLimit", "MethodCost", "Overrides", "Released", "has_glob"]

_GLOB = frozenset("*?[")
_MOST_TEXTS = 1024


def has_glob(text: str) -> bool:
    """Whether a key of `overrides` stands for more than itself."""
    return not _GLOB.isdisjoint(text)


@dataclass(frozen=True, slots=True)
class MethodCost:
    """A cost by method; 1 for those not named.

    Attributes:
        costs: by upper-case method, `WS` for handshakes; `HEAD` costs what `GET` does unless named.
    """

    costs: Mapping[str, int]

    def __call__(self, view: RequestView) -> int:
        """The cost of a request."""
        method = "WS" if view.kind == "websocket" else view.method
        if method == "HEAD" and method not in self.costs:
            method = "GET"
        return self.costs.get(method, 1)

    @property
    def most(self) -> int:
        """The largest cost."""
        return max(self.costs.values(), default=1)


@dataclass(frozen=True, slots=True)
class AskedCost:
    """A cost that a function of the app tells."""

    asked: Asked

    def __call__(self, view: RequestView) -> int:
        """The cost of a request.

        Raises:
            TypeError: the function gave no whole number above 0.
        """
        cost = self.asked(view)
        if isinstance(cost, bool) or not isinstance(cost, int) or cost < 1:
            raise TypeError(f"{self.asked.name} gave {cost!r} for a cost: expected a whole number above 0")
        return cost


@dataclass(frozen=True, slots=True)
class Overrides:
    """Other numbers for some values of a key part; the exact value first, then the globs in their order.

    Attributes:
        part: whose value decides.
        exact: by value; None = unlimited.
        globs: pairs of a glob and its limit.
    """

    part: KeyPart
    exact: Mapping[str, Limit | None]
    globs: tuple[tuple[str, Limit | None], ...] = ()

    @property
    def alternatives(self) -> tuple[Limit, ...]:
        """All limits that may be chosen."""
        chosen = (*self.exact.values(), *(other for _, other in self.globs))
        return tuple(limit for limit in chosen if limit)

    def __call__(self, limit: Limit, view: RequestView, route: str) -> Limit | None:
        """The limit for a request; None = unlimited."""
        value = part_value(self.part, view, route)
        if value is None:
            return limit
        if value in self.exact:
            return self.exact[value]
        return next((other for glob, other in self.globs if fnmatchcase(value, glob)), limit)


@dataclass(frozen=True, slots=True)
class AskedLimit:
    """Numbers that a function of the app tells as a text, such as `100/minute`.

    Attributes:
        asked: the function.
        read: from a text to a limit, None = unlimited; raises ValueError when it is none.
    """

    asked: Asked
    read: Callable[[str], Limit | None] = field(compare=False, repr=False)
    _known: dict[str, Limit | None] = field(default_factory=dict, init=False, compare=False, repr=False)

    def __call__(self, limit: Limit, view: RequestView, route: str) -> Limit | None:  # noqa: ARG002 - as Overrides
        """The limit for a request; None = unlimited.

        Raises:
            TypeError: the function gave no text.
            ValueError: the text is no limit.
        """
        text = self.asked(view)
        if not isinstance(text, str):
            raise TypeError(f"{self.asked.name} gave {text!r} for a limit: expected a text")
        if text not in self._known:
            found = self.read(text)
            if len(self._known) >= _MOST_TEXTS:  # an app that makes up numbers must not fill the memory
                self._known.clear()
            self._known[text] = found
        return self._known[text]


@dataclass(frozen=True, slots=True)
class Released:
    """A request costs nothing once it has ended: it has left its slot."""

    at_start: bool = False

    def __call__(self, taken: int, response: Response) -> int:  # noqa: ARG002 - one shape for all
        """Nothing."""
        return 0
