"""What a limit lets depend on the request: its cost, and numbers other than its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from ratelimit_middleware.asking import note, said
from ratelimit_middleware.identity import KeyPart, value_or_failure
from ratelimit_middleware.request import Asked, RequestView
from ratelimit_middleware.response import Response
from ratelimit_middleware.rules.charges import MOST, counted
from ratelimit_middleware.rules.limit import Limit

__all__ = ["AskedCost", "AskedLimit", "HeaderCost", "MethodCost", "Overrides", "Released", "has_glob"]

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
    """A cost that a function of the app tells.

    Attributes:
        asked: the function.
        least: the rule's own cost: no request costs less, and it takes the place of an answer that fails.
        ceiling: no request costs more; None = no bound of the rule.
    """

    asked: Asked
    least: int = 1
    ceiling: int | None = None

    def __call__(self, view: RequestView) -> int:
        """The cost of a request."""
        try:
            cost = self._sound(said(self.asked, view))
        except Exception as error:  # noqa: BLE001 - the app's code; the rule counts all the same
            note(view, self.asked.name, error)
            return self.least
        return _within(cost, self.least, self.ceiling)

    def _sound(self, cost: object) -> int:
        if isinstance(cost, bool) or not isinstance(cost, int) or not 1 <= cost <= MOST:
            name = self.asked.name
            raise TypeError(f"{name} gave {cost!r} for a cost: expected a whole number from 1 to {MOST}")
        return cost

    @property
    def most(self) -> int:
        """The largest cost that is sure to come."""
        return self.ceiling or self.least


@dataclass(frozen=True, slots=True)
class HeaderCost:
    """A cost that the client says in a header, never below the rule's own.

    Attributes:
        header: its lower-case name.
        least: the rule's own cost, also for requests without a whole number there.
        ceiling: no request costs more; None = no bound of the rule.
    """

    header: str
    least: int = 1
    ceiling: int | None = None

    def __call__(self, view: RequestView) -> int:
        """The cost of a request."""
        return _within(counted(view.header(self.header) or "") or 0, self.least, self.ceiling)

    @property
    def most(self) -> int:
        """The largest cost that is sure to come."""
        return self.ceiling or self.least


def _within(cost: int, least: int, ceiling: int | None) -> int:
    cost = max(cost, least)
    return cost if ceiling is None else min(cost, ceiling)


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
        """The limit for a request; None = unlimited. If a function of the app fails it has no override."""
        value, _ = value_or_failure(self.part, view, route)
        if value is None:
            return limit
        if value in self.exact:
            return self.exact[value]
        return next((other for glob, other in self.globs if fnmatchcase(value, glob)), limit)

    def named(self, value: str) -> str | None:
        """The value or glob of the file that is found for a value; None if it has no override."""
        if value in self.exact:
            return value
        return next((glob for glob, _ in self.globs if fnmatchcase(value, glob)), None)


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

        If the function fails it is the strictest limit that it has told so far.

        Raises:
            TypeError: the function gave no text, and none before.
            ValueError: the text is no limit, and there was none before.
            Exception: whatever the function raises, if it has told nothing before.
        """
        try:
            return self._limit_of(said(self.asked, view))
        except Exception as error:
            told = [known for known in list(self._known.values()) if known]
            if not told:
                raise
            note(view, self.asked.name, error)
            return min(told, key=_permits_a_time)

    def _limit_of(self, text: object) -> Limit | None:
        if not isinstance(text, str):
            raise TypeError(f"{self.asked.name} gave {text!r} for a limit: expected a text")
        if text not in self._known:
            found = self.read(text)
            if len(self._known) >= _MOST_TEXTS:  # an app that makes up numbers must not fill the memory
                self._known.clear()
            self._known[text] = found
        return self._known[text]


def _permits_a_time(limit: Limit) -> tuple[float, int]:
    """By this limits are stricter or less so: by their rate, then by what goes at once."""
    return limit.policy.quota / limit.policy.window_ns, limit.policy.quota


@dataclass(frozen=True, slots=True)
class Released:
    """A request costs nothing once it has ended: it has left its slot."""

    name: str = "concurrency"
    at_start: bool = False

    def __call__(self, taken: int, view: RequestView, response: Response) -> int:  # noqa: ARG002 - as Settle
        """Nothing."""
        return 0
