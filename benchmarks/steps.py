"""What each step of an admitted request costs, in machine instructions: ASGI, `100/minute`, one client."""

from __future__ import annotations

from collections.abc import Callable

import apps
import calls
from floor import PERIOD_S
from small import Do, ticking

from ratelimit_middleware import asgi
from ratelimit_middleware.stores.base import Store

STEPS = {
    "view": "a view of the request",
    "checks": "the limits of its path, and what to ask the store",
    "take": "the store: lock, clock, window",
    "verdict": "one verdict from the decisions",
    "fields": "the RateLimit fields",
    "told": "what is left for an instance further in",
    "sending": "the fields added to the start message",
}


def _prepared(step: str) -> Callable[[], Do]:
    """One step of a request that has been met before."""

    def make() -> Do:
        middleware = asgi.RateLimitMiddleware(apps.bare_asgi, apps.rules("plain", 100))
        request = calls.asgi_by_hand(middleware, clients=1)
        for turn in range(120):  # past the first requests, at which more is looked at
            request(turn)
        return _steps(middleware)[step]

    return ticking(PERIOD_S * 1_000_000_000, make)


def _steps(middleware: asgi.RateLimitMiddleware) -> dict[str, Do]:
    """All of them, as `RateLimitMiddleware.__call__` and `LimiterRegistry.admit` do them."""
    scope = {**calls.SCOPE, "client": ("10.0.0.0", 50_000)}
    make, registry, answers = middleware._views.make, middleware._registry, middleware._answers
    store = registry.store
    assert isinstance(store, Store)  # noqa: S101 - in memory
    view = make(scope)
    limits, checks = registry._checks(view)
    decisions = store.take(checks)
    verdict = registry._judge(limits, decisions, checks)
    fields = answers.answer(view, verdict)
    assert isinstance(fields, list)  # noqa: S101 - it is admitted
    start = {"type": "http.response.start", "status": 200, "headers": []}
    return {
        "view": lambda _: make(scope),
        "checks": lambda _: registry._checks(view),
        "take": lambda _: store.take(checks),
        "verdict": lambda _: registry._judge(limits, decisions, checks),
        "fields": lambda _: answers.answer(view, verdict),
        "told": lambda _: (verdict, fields, registry.place, [*verdict.asked], None),
        "sending": lambda _: asgi._adding(fields, _send)(start),
    }


def _send(message: object) -> object:
    return message


FIGURES: dict[str, Callable[[], Do]] = {f"step-{name}": _prepared(name) for name in STEPS}
