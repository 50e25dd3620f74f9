"""What the store is asked about a limit that depends on the request."""

from __future__ import annotations

from collections.abc import Sequence

from ratelimit_middleware.request import RequestView
from ratelimit_middleware.rules.limit import Limit
from ratelimit_middleware.rules.match import Counted
from ratelimit_middleware.stores.base import Check

__all__ = ["DeniedError", "add_varying", "is_uncovered"]


class DeniedError(Exception):
    """Raised for a request that lacks a part of a key which it must have."""

    def __init__(self, limit: Limit) -> None:
        super().__init__(limit.policy.name)
        self.limit = limit


def add_varying(
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
            add_varying(limit.penalty, view, route, limits, checks)
    return not is_watched


def is_uncovered(counted: Counted, skipped: Sequence[Limit]) -> bool:
    """Whether skipping has left a request without any enforcing limit of a route, so `default` counts."""
    covering = [limit for limit, route in counted if route and limit.covers]
    return bool(covering) and all(any(limit is other for other in skipped) for limit in covering)
