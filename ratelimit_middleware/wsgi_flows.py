"""The layer between the WSGI middleware and the app that limits what flows; there only where rules say so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from threading import Semaphore

from ratelimit_middleware._types import Environ, StartResponse, WSGIApp
from ratelimit_middleware.answers import Answers
from ratelimit_middleware.clock import Clock
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.faults import LIMITER_FAILED, FaultLog, FaultLogs
from ratelimit_middleware.flow_reports import FlowReporter
from ratelimit_middleware.flows import Flows, Held, KeptViews, Marks
from ratelimit_middleware.frameworks.selected import SelectedRoute
from ratelimit_middleware.registry import LimiterRegistry
from ratelimit_middleware.request import RequestView
from ratelimit_middleware.responses import Refusal, reason
from ratelimit_middleware.stores.base import Store
from ratelimit_middleware.wsgi_exchange import PacedExchange
from ratelimit_middleware.wsgi_pace import Place, WsgiMeter

__all__ = ["WsgiFlows"]


class WsgiFlows:
    """Calls the app with bodies that keep their limits.

    Args:
        app: the app.
        registry: the rules and the store.
        views: what the middleware makes of environs.
        answers: what a client hears whose limits cannot be found or kept.
        hooks: are told what the limits do.
        places: as many threads may wait.
        clock: spaces log lines; the system's by default.

    Raises:
        StoreError: the store must be awaited.
    """

    def __init__(
        self,
        app: WSGIApp,
        registry: LimiterRegistry,
        views: KeptViews,
        answers: Answers,
        hooks: Sequence[object],
        places: Semaphore,
        clock: Clock | None = None,
    ) -> None:
        if not isinstance(registry.store, Store):
            raise StoreError("WSGI cannot await a store")
        self.app = app
        self._flows = Flows(registry.ruleset, SelectedRoute(app), FaultLogs(clock=clock))
        self._views = views
        self._answers = answers
        self._marks = Marks(registry.place)
        self._meter = WsgiMeter(registry.store, clock)
        self._tell = FlowReporter(registry.ruleset, hooks, clock)
        self._places = places
        self._faults = FaultLog(LIMITER_FAILED, clock=clock)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Serve a request that has been admitted."""
        view = self._views.pop(environ)
        held = self._held(view)
        if isinstance(held, Refusal):
            start_response(f"{held.status} {reason(held.status)}", [*held.headers])
            return [held.body]
        with self._marks.new(environ, held) as new:
            if not new:
                return self.app(environ, start_response)
            unavailable = partial(self._answers.unavailable, view)
            place = Place(self._places)
            exchange = PacedExchange(
                new, self._meter, self._tell, unavailable, place, environ, start_response
            )
            return exchange.serve(self.app)

    def _held(self, view: RequestView) -> Sequence[Held] | Refusal:
        try:
            held = self._flows.of(view)
        except Exception as error:  # noqa: BLE001 - a limiter that fails must not let requests through
            self._faults.report(error)
            reply = self._answers.undecided(view, error)
            return reply if isinstance(reply, Refusal) else ()
        has_body = {"response": not view.is_head, "request": _has_body(view)}
        return [one for one in held if has_body.get(one.limit.kind)]


def _has_body(view: RequestView) -> bool:
    """Whether a request may have a body (PEP 3333, RFC 9112)."""
    length = view.raw.get("CONTENT_LENGTH")
    return bool(view.header("transfer-encoding")) or length not in (None, "", "0")
