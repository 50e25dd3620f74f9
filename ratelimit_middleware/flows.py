"""Flows: which limits hold for what flows within a request. Found once, when the app is called."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from ratelimit_middleware.algorithms.related import Related
from ratelimit_middleware.asking import failures, heard
from ratelimit_middleware.checking import is_uncovered
from ratelimit_middleware.faults import FaultLogs
from ratelimit_middleware.request import Kind, RequestView
from ratelimit_middleware.rules.flow import FlowKind, FlowLimit
from ratelimit_middleware.rules.limit import Limit
from ratelimit_middleware.rules.match import Matcher
from ratelimit_middleware.rules.model import Rule, RuleSet
from ratelimit_middleware.rules.plan import Counted
from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.verdicts import listed
from ratelimit_middleware.views import Views

__all__ = ["Flows", "Held", "KeptViews", "Marks", "has_flows"]

_VIEW = "ratelimit_middleware.view"
_MARKS = "ratelimit_middleware.flows"
_FLOWING: dict[Kind, frozenset[FlowKind]] = {
    "websocket": frozenset({"messages"}),
    "http": frozenset({"response", "request"}),
}


class Held(NamedTuple):
    """A limit that holds for a request, and what the store is asked about each permit."""

    limit: FlowLimit
    check: Check


def has_flows(ruleset: RuleSet) -> bool:
    """Whether any rule limits what flows."""
    return any(rule.flows for rule in ruleset.rules)


class Flows:
    """Finds the flow limits of requests.

    Args:
        ruleset: the rules.
        route_of: gives the app's own template for a request, for keys with `route`.
        faults: hears of functions of the app that fail.
    """

    def __init__(
        self,
        ruleset: RuleSet,
        route_of: Callable[[RequestView], str | None],
        faults: FaultLogs,
    ) -> None:
        self._ruleset = ruleset
        self._route_of = route_of
        self._faults = faults
        self._matcher = Matcher(_with_flows(ruleset))
        self._watches = ruleset.shadow
        default = ruleset.default
        self._default: Counted = tuple((flow, "") for flow in default.flows) if default else ()

    async def ask(self, view: RequestView) -> None:
        """Await the functions of the app, so that all that follows is plain computing."""
        for limit, _ in (*self._matcher.match(view), *self._default):
            for asked in limit.awaited():
                await heard(asked, view)

    def of(self, view: RequestView) -> tuple[Held, ...]:
        """The limits that hold; none for a request on a list of the file."""
        if listed(self._ruleset, view) is not None:
            return ()
        try:
            held = [
                self._held(limit, view, route)
                for limit, route in self._counted(view)
                if isinstance(limit, FlowLimit) and limit.kind in _FLOWING[view.kind]
            ]
            return tuple(one for one in held if one)
        finally:
            for failure in failures(view):
                self._faults.report(*failure)

    def _counted(self, view: RequestView) -> Counted:
        """What the rules that match have, and what `default` has if it counts."""
        counted = self._matcher.match(view)
        if not self._default or any(limit is self._default[0][0] for limit, _ in counted):
            return counted
        skipped = [limit for limit, route in counted if limit.covers and self._skips(limit, view, route)]
        return (*counted, *self._default) if is_uncovered(counted, skipped) else counted

    def _skips(self, limit: Limit, view: RequestView, pattern: str) -> bool:
        """Whether a limit does not count for a request, or only watches its client."""
        if _is_left_out(limit, view):
            return True
        key = limit.build_key(view, self._route(limit, view, pattern))
        return key is None or (limit.share is not None and key not in limit.share)

    def _held(self, limit: FlowLimit, view: RequestView, pattern: str) -> Held | None:
        if _is_left_out(limit, view):
            return None
        key = limit.build_key(view, self._route(limit, view, pattern))
        if key is None:
            return None  # `skip`; where it is `deny`, the limit beside it has refused the request
        shadow = limit.shadow or self._watches or (limit.share is not None and key not in limit.share)
        max_wait_ns = None if limit.on_excess == "delay" else 0
        check = Check(key, limit.algorithm, limit.overflow, 1, max_wait_ns, shadow, limit.on_error)
        return Held(limit, check)

    def _route(self, limit: Limit, view: RequestView, pattern: str) -> str:
        return (self._route_of(view) if limit.by_route else None) or pattern


class KeptViews:
    """Leaves each view in its scope or environ, so that functions of the app are asked once a request."""

    __slots__ = ("_views",)

    def __init__(self, views: Views) -> None:
        self._views = views

    def make(self, raw: Any) -> RequestView:
        """As `Views.make`."""
        view: RequestView = self._views.make(raw)
        raw[_VIEW] = view
        return view

    def pop(self, raw: Any) -> RequestView:
        """The view that was made of it last."""
        view: RequestView = raw.pop(_VIEW)
        return view


class Marks:
    """What instances further out limit already in a request, so that each permit counts once.

    Args:
        place: what tells where the counts live; see `LimiterRegistry`.
    """

    __slots__ = ("_place",)

    def __init__(self, place: object) -> None:
        # A store may be anything, also what cannot stand in a set.
        self._place = place if isinstance(place, tuple) else id(place)

    @contextmanager
    def new(self, raw: Any, held: Sequence[Held]) -> Iterator[list[Held]]:
        """Those of the limits that nobody keeps yet; marked in the scope or environ while the app runs."""
        outer: frozenset[Any] = raw.get(_MARKS, frozenset())
        mine = {(self._place, one.check.key): one for one in held}
        raw[_MARKS] = outer | mine.keys()
        try:
            yield [one for name, one in mine.items() if name not in outer]
        finally:
            raw[_MARKS] = outer  # an app may be tried with a scope that was used before


def _is_left_out(limit: Limit, view: RequestView) -> bool:
    """Whether a limit is not about a request, though its route is."""
    return bool((limit.exempt and limit.exempt(view)) or (limit.chain and not limit.chain(view)))


def _with_flows(ruleset: RuleSet) -> RuleSet:
    """The same rules, with what flows among their limits, so that all are matched alike."""

    def joined(rule: Rule) -> Rule:
        # What flows in a request that uses another rule's limits up is held as in any other.
        limits = tuple(
            replace(limit, algorithm=limit.algorithm.limit) if isinstance(limit.algorithm, Related) else limit
            for limit in rule.limits
        )
        return replace(rule, limits=(*limits, *rule.flows), flows=(), relate=())

    return replace(
        ruleset,
        limits=tuple(map(joined, ruleset.limits)),
        always=tuple(map(joined, ruleset.always)),
        default=joined(ruleset.default) if ruleset.default else None,
    )
