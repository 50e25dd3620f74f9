"""The layer between the middleware and the app that limits what flows; there only where rules say so."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ratelimit_middleware._types import ASGIApp, Receive, Scope, Send
from ratelimit_middleware.answers import Answers
from ratelimit_middleware.asgi_exchange import PacedExchange
from ratelimit_middleware.asgi_messages import MessageGate
from ratelimit_middleware.asgi_meter import AsgiMeter
from ratelimit_middleware.asgi_refusal import refuse
from ratelimit_middleware.clock import Clock
from ratelimit_middleware.faults import LIMITER_FAILED, FaultLog, FaultLogs
from ratelimit_middleware.flow_reports import FlowReporter
from ratelimit_middleware.flows import Flows, Held, KeptViews, Marks
from ratelimit_middleware.frameworks.selected import SelectedRoute
from ratelimit_middleware.registry import LimiterRegistry
from ratelimit_middleware.request import RequestView
from ratelimit_middleware.responses import Refusal

__all__ = ["AsgiFlows"]


class AsgiFlows:
    """Calls the app with a `receive` and a `send` that keep the limits on what flows.

    Args:
        app: the app.
        registry: the rules and the store.
        views: what the middleware makes of scopes.
        answers: what a client hears whose limits cannot be found.
        hooks: are told what the limits do.
        clock: the time for limits that each connection has for itself; the system's by default.
    """

    def __init__(
        self,
        app: ASGIApp,
        registry: LimiterRegistry,
        views: KeptViews,
        answers: Answers,
        hooks: Sequence[object],
        clock: Clock | None = None,
    ) -> None:
        self.app = app
        self._flows = Flows(registry.ruleset, SelectedRoute(app), FaultLogs(clock=clock))
        self._views = views
        self._answers = answers
        self._marks = Marks(registry.place)
        self._meter = AsgiMeter(registry.store, clock=clock)
        self._tell = FlowReporter(registry.ruleset, hooks, clock)
        self._faults = FaultLog(LIMITER_FAILED, clock=clock)
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a connection that has been admitted."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        view = self._views.pop(scope)
        held = await self._held(view)
        if isinstance(held, Refusal):
            await refuse(scope, receive, send, held)
            return
        with self._marks.new(scope, held) as new:
            await self._serve(view, new, scope, receive, send)

    async def _held(self, view: RequestView) -> Sequence[Held] | Refusal:
        try:
            await self._flows.ask(view)
            return self._flows.of(view)
        except Exception as error:  # noqa: BLE001 - a limiter that fails must not let requests through
            self._faults.report(error)
            reply = self._answers.undecided(view, error)
            return reply if isinstance(reply, Refusal) else ()

    async def _serve(
        self, view: RequestView, held: Sequence[Held], scope: Scope, receive: Receive, send: Send
    ) -> None:
        if not held:
            await self.app(scope, receive, send)
        elif view.kind == "websocket":
            gate = MessageGate(held, self._meter, self._tell, receive, send, self._clock)
            await self.app(scope, gate.receive, gate.send)
        else:
            unavailable = partial(self._answers.unavailable, view)
            exchange = PacedExchange(held, self._meter, self._tell, unavailable, scope, receive, send)
            await exchange.serve(self.app)
