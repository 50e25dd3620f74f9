"""What the store is asked about a request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from ratelimit_middleware.addresses import LONGEST_ADDRESS
from ratelimit_middleware.request import RequestView
from ratelimit_middleware.rules.limit import Limit
from ratelimit_middleware.rules.match import Matcher
from ratelimit_middleware.rules.plan import Counted, Plan
from ratelimit_middleware.rules.recent import Recent
from ratelimit_middleware.stores.base import Check

__all__ = ["Asked", "Checking", "DeniedError", "is_uncovered"]

Asked: TypeAlias = "tuple[Sequence[Limit], Sequence[Check]]"
"""The limits that count for a request, and what to ask the store about each."""

_CLIENTS = 4096  # in each of two generations
_new = tuple.__new__
"""Past the constructors of named tuples, which cost several times what they do."""


class Checking:
    """Finds out what the store is to be asked.

    Args:
        matcher: tells which limits count.
        route_of: gives the app's own template for a request, for keys with `route`; None = not asked for.
    """

    __slots__ = ("_fallback", "_plan", "_plans", "_recent", "_route_of")

    def __init__(self, matcher: Matcher, route_of: Callable[[RequestView], str | None] | None) -> None:
        self._plan = matcher.plan
        self._plans = matcher.plans  # asked here first, since a call costs as much
        self._fallback = matcher.fallback
        self._route_of = route_of
        self._recent: Recent[tuple[Plan, str | None], Asked] = Recent(_CLIENTS)

    def asked(self, view: RequestView) -> Asked:
        """The limits and the checks; whoever asks does not change them.

        Raises:
            DeniedError: the request lacks a part of a key, and the rule does not admit that.
        """
        plan = self._plans.young.get(view.target)
        if plan is None:
            plan = self._plan(view)
        if plan.by_address:
            return self._recent.young.get((plan, view.peer)) or self._remembered(plan, view)
        return self._worked_out(plan, view)

    def _remembered(self, plan: Plan, view: RequestView) -> Asked:
        """For limits that look at nothing but the address: kept for the client's next request."""
        key = (plan, view.peer)
        asked = self._recent.renewed(key)
        if asked is None:
            asked = plan.limits, tuple(self._worked_out(plan, view)[1])  # shared by requests to come
            if len(view.peer or "") <= LONGEST_ADDRESS:
                self._recent.offer(key, asked)
        return asked

    def _worked_out(self, plan: Plan, view: RequestView) -> Asked:
        limits: list[Limit] = []
        checks: list[Check] = []
        skipped: list[Limit] = []
        template = None if self._route_of is None else self._route_of(view)
        for limit, pattern in plan.counted:
            route = template or pattern
            if limit.plain:
                key = limit.build_key(view, route)
                limits.append(limit)
                # fmt: off
                checks.append(_new(Check, (
                    key, limit.algorithm, limit.overflow, limit.cost, limit.max_wait_ns, limit.shadow,
                    limit.on_error,
                )))
                # fmt: on
            elif not _add_varying(limit, view, route, limits, checks):
                skipped.append(limit)
        if skipped and is_uncovered(plan.counted, skipped):
            for limit, pattern in self._fallback(view):
                _add_varying(limit, view, template or pattern, limits, checks)
        return limits, checks


class DeniedError(Exception):
    """Raised for a request that lacks a part of a key which it must have."""

    def __init__(self, limit: Limit) -> None:
        super().__init__(limit.policy.name)
        self.limit = limit


def _add_varying(
    limit: Limit, view: RequestView, route: str, limits: list[Limit], checks: list[Check]
) -> bool:
    """Add a limit that depends on the request; False if it is skipped, or only watches this client.

    Raises:
        DeniedError: the request lacks a part of the key, and the rule does not admit that.
    """
    if (limit.exempt and limit.exempt(view)) or (limit.chain and not limit.chain(view)):
        return False
    key = limit.build_key(view, route)
    if key is None:
        if limit.missing == "deny" and not limit.shadow:
            raise DeniedError(limit)
        return False
    chosen = limit.choose(limit, view, route) if limit.choose else limit
    is_watched = limit.share is not None and key not in limit.share
    if is_watched and chosen:
        chosen = chosen.watching
    if chosen:  # else unlimited for this request, which is an answer too
        cost = limit.cost_of(view) if limit.cost_of else limit.cost
        apart = chosen.rule_id != limit.rule_id  # by its numbers it has another bucket
        limits.append(chosen)
        checks.append(
            Check(
                str(chosen.build_key(view, route)) if apart else key,
                chosen.algorithm,
                chosen.overflow,
                cost,
                chosen.max_wait_ns,
                chosen.shadow,
                limit.on_error,
            )
        )
        if limit.penalty and not chosen.shadow:
            _add_varying(limit.penalty, view, route, limits, checks)
    return not is_watched


def is_uncovered(counted: Counted, skipped: Sequence[Limit]) -> bool:
    """Whether skipping has left a request without any enforcing limit of a route, so `default` counts."""
    covering = [limit for limit, route in counted if route and limit.covers]
    return bool(covering) and all(any(limit is other for other in skipped) for limit in covering)
