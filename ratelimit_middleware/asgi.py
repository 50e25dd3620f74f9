"""The middleware for ASGI apps: FastAPI, Starlette, or any callable of (scope, receive, send)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from ratelimit_middleware._types import ASGIApp, Message, Receive, Scope, Send
from ratelimit_middleware.answers import Answers
from ratelimit_middleware.asgi_lifespan import closing
from ratelimit_middleware.asgi_refusal import refuse
from ratelimit_middleware.asgi_sizes import body_size
from ratelimit_middleware.build import RulesSource, build_registry, build_reporter
from ratelimit_middleware.clock import Clock
from ratelimit_middleware.coverage import warn_of_idle_rules
from ratelimit_middleware.decision import Verdict
from ratelimit_middleware.entrances import AsgiEntrance
from ratelimit_middleware.events import Hook
from ratelimit_middleware.faults import (
    LIMITER_FAILED,
    LIMITER_FAILED_WATCHING,
    RESPONDER_FAILED,
    SETTLING_FAILED,
    FaultLog,
)
from ratelimit_middleware.flows import KeptViews, has_flows
from ratelimit_middleware.frameworks.litestar import view_of
from ratelimit_middleware.nested import TOLD, Told, told_of, withdraw
from ratelimit_middleware.overload.sensor import Sensor
from ratelimit_middleware.responses import Refusal
from ratelimit_middleware.rules.model import RuleSet
from ratelimit_middleware.settling import Stay, Step, undone
from ratelimit_middleware.shielding import shielded
from ratelimit_middleware.stores.base import AsyncStore, Store
from ratelimit_middleware.verdicts import UNDECIDED
from ratelimit_middleware.views import Views
from ratelimit_middleware.wrapping import check_asgi

if TYPE_CHECKING:
    from ratelimit_middleware.asgi_queue import AsgiQueue
    from ratelimit_middleware.lines import Bookings
    from ratelimit_middleware.reporter import Reporter
    from ratelimit_middleware.request import RequestView

__all__ = ["RateLimitMiddleware"]

_STARTS = frozenset({"http.response.start", "websocket.accept", "websocket.http.response.start"})
_NEEDS_ANYIO = (
    "rules with `behavior: queue`, `messages` or `bandwidth` need anyio under ASGI: pip install"
    " ratelimit-middleware[asgi]"
)


class RateLimitMiddleware:
    """Limits HTTP requests and WebSocket handshakes; every other scope passes untouched.

    At the end of the lifespan the connections of a store that the rules name are closed.

    An admitted request gets the RateLimit fields on its start message; nothing else of it is touched,
    held back or read. A refused one never reaches the app.

    Args:
        app: the app to protect.
        rules: path of a rule file, a dict of the same shape, or a `RuleSet`.
        store: where the counts live; by default what the rules say.
        clock: where the store's time comes from; only for a store that the rules name.
        hooks: are told of each verdict.
        sensor: tells rules with `adaptive` how loaded the server is; the system's by default.

    Raises:
        RuleFileError: the rules hold mistakes.
        StoreError: the store cannot be opened.
        ImportError: a rule delays requests or limits what flows, and anyio is not installed.
    """

    def __init__(
        self,
        app: ASGIApp,
        rules: RulesSource,
        *,
        store: Store | AsyncStore | None = None,
        clock: Clock | None = None,
        hooks: Sequence[Hook] = (),
        sensor: Sensor | None = None,
    ) -> None:
        check_asgi(app)
        self._app = app
        self._registry = build_registry(rules, store=store, clock=clock, app=app, sensor=sensor)
        self._closes = store is None and isinstance(self._registry.store, AsyncStore)
        self._is_new = True
        watches = self._registry.ruleset.shadow
        self._faults = FaultLog(LIMITER_FAILED_WATCHING if watches else LIMITER_FAILED, clock=clock)
        self._unsettled = FaultLog(SETTLING_FAILED, clock=clock)
        self._queue = _queue(self._registry.ruleset, self._undo)
        self._reporter = build_reporter(self._registry, hooks, clock)
        self._views: Views | KeptViews = Views(self._registry.ruleset, view_of(app), clock)
        self._answers = Answers(
            self._registry.ruleset,
            FaultLog(RESPONDER_FAILED, clock=clock).report,
            self._views.refused,
            in_octets=True,
        )
        if self._registry.chains:
            self._app = AsgiEntrance(app)
        if has_flows(self._registry.ruleset):
            self._views = KeptViews(self._views)
            self._app = self._limiting_flows(self._views, hooks, clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] not in ("http", "websocket"):
            ends = self._closes and scope["type"] == "lifespan"
            await self._app(scope, receive, closing(send, self._registry.close_async) if ends else send)
            return
        if self._is_new:
            self._is_new = False
            warn_of_idle_rules(self._app, self._registry.ruleset)
        view = self._views.make(scope)
        outer: Told | None = scope.get(TOLD)
        registry, verdict = self._registry, UNDECIDED
        try:
            verdict = (
                await registry.admit_async(view, outer) if registry.awaits else registry.admit(view, outer)
            )
            reply = self._answers.answer(view, verdict)
        except Exception as error:  # noqa: BLE001 - a limiter that fails must not let requests through
            self._faults.report(error)
            reply = self._answers.undecided(view, error)
        if self._reporter is not None:
            await self._report(self._reporter, view, verdict)
        if type(reply) is Refusal:  # `isinstance` costs three times as much
            await self._turn_away(scope, receive, send, verdict, reply)
            return
        bookings = verdict.bookings
        if bookings and verdict.wait_ns and self._queue is not None:
            turn = await self._queue.wait(verdict, scope, receive)
            if turn is None:
                return
            bookings, receive = turn.bookings, turn.receive
            verdict = verdict._replace(bookings=bookings)
        # Here and not in a coroutine of its own, which would cost as much as a look-up of the rules.
        told: Told = (
            (verdict, reply, registry.place, [*verdict.asked], None)
            if outer is None
            else told_of(outer, verdict, reply, registry.place)
        )
        scope[TOLD] = told
        telling = _adding(reply, send) if reply and told[1] is reply else send
        try:
            if bookings:
                await self._serve(registry.settler.begin(verdict, view), scope, receive, telling)
            else:
                await self._app(scope, receive, telling)
        finally:
            if outer is None:
                scope.pop(TOLD, None)  # an app may be tried with a scope that was used before
            else:
                scope[TOLD] = outer

    def _limiting_flows(self, views: KeptViews, hooks: Sequence[Hook], clock: Clock | None) -> ASGIApp:
        """The app, behind a layer of its own.

        Raises:
            ImportError: anyio is not installed.
        """
        try:
            from ratelimit_middleware.asgi_flows import AsgiFlows
        except ImportError as error:
            raise ImportError(_NEEDS_ANYIO) from error
        return AsgiFlows(self._app, self._registry, views, self._answers, hooks, clock)

    async def _turn_away(
        self, scope: Scope, receive: Receive, send: Send, verdict: Verdict, refusal: Refusal
    ) -> None:
        """Send a refusal, and no fields of an instance further out."""
        withdraw(scope.get(TOLD))
        if verdict.bookings:
            await self._undo(verdict.bookings)
        await refuse(scope, receive, send, refusal)

    async def _serve(self, stay: Stay, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the app for a request whose bookings must hear of the response."""
        response = stay.response

        async def send_and_settle(message: Message) -> None:
            kind = message["type"]
            if kind in _STARTS:
                response.status = message.get("status", 101)
                headers = list(message.get("headers", ()))  # it may be an iterable that can be read once
                message = {**message, "headers": headers}
                response.headers = [
                    (name.decode("latin-1"), value.decode("latin-1")) for name, value in headers
                ]
                # Before the client can know, or its next request might come too early.
                await self._tell(stay.started())
            elif kind == "websocket.close" and not response.status:
                response.status = 403  # what the server answers to the handshake
            await send(message)
            response.bytes_sent += body_size(message, response)
            if kind == "http.response.body" and not message.get("more_body"):
                await self._tell(stay.ended())

        try:
            await self._app(scope, receive, send_and_settle)
        except BaseException as error:
            stay.failed(error)
            raise
        finally:
            await self._end(stay)

    async def _report(self, reporter: Reporter, view: RequestView, verdict: Verdict) -> None:
        """Tell the hooks; one that raises what is no `Exception` ends a request that nobody has served."""
        try:
            reporter.tell(view, verdict)
        except BaseException:
            await self._undo(verdict.bookings)
            raise

    async def _end(self, stay: Stay) -> None:
        """Settle what is left, also if a function of the app raises what is no `Exception`."""
        try:
            steps = stay.ended()
        except BaseException:
            await self._end(stay)
            raise
        await self._tell(steps)

    async def _undo(self, bookings: Bookings) -> None:
        await self._tell(undone(bookings))

    async def _tell(self, steps: Sequence[Step]) -> None:
        """Carry out what is due, also for a task that has been cancelled; never raises."""
        if not steps:
            return
        try:
            settler = self._registry.settler
            if settler.awaits:
                await shielded(settler.carry_out_async, steps)
            else:
                settler.carry_out(steps)
        except Exception as error:  # noqa: BLE001 - the answer has been given
            self._unsettled.report(error)


def _queue(ruleset: RuleSet, give_back: Callable[[Bookings], Awaitable[None]]) -> AsgiQueue | None:
    """Where requests wait, if there are rules that delay them.

    Raises:
        ImportError: anyio is not installed.
    """
    if not any(limit.max_wait_ns for rule in ruleset.rules for limit in rule.limits):
        return None
    try:
        from ratelimit_middleware.asgi_queue import AsgiQueue
    except ImportError as error:
        raise ImportError(_NEEDS_ANYIO) from error
    return AsgiQueue(give_back)


def _adding(extra: list[tuple[bytes, bytes]], send: Send) -> Send:
    """A `send` that adds to a copy of the start message and hands all others on as they are.

    What it gives to await is the server's own: a coroutine in between would cost as much as all the rest.
    """

    def send_with_fields(message: Message) -> Awaitable[None]:
        if message["type"] in _STARTS:
            message = {**message}
            message["headers"] = [*message.get("headers", ()), *extra]
        return send(message)

    return send_with_fields
