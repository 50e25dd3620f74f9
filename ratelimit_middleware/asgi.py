"""The middleware for ASGI apps: FastAPI, Starlette, or any callable of (scope, receive, send)."""

from __future__ import annotations

import asyncio
from functools import lru_cache

from ratelimit_middleware._types import ASGIApp, Message, Receive, Scope, Send
from ratelimit_middleware.answers import TOLD, Answers, Told, is_tighter
from ratelimit_middleware.build import RulesSource, build_registry
from ratelimit_middleware.clock import NS_PER_SECOND, Clock
from ratelimit_middleware.decision import Verdict
from ratelimit_middleware.faults import LIMITER_FAILED, RESPONDER_FAILED, FaultLog
from ratelimit_middleware.headers import Field
from ratelimit_middleware.request import AsgiView
from ratelimit_middleware.responses import Refusal
from ratelimit_middleware.stores.base import AsyncStore, Store

__all__ = ["RateLimitMiddleware"]

_STARTS = frozenset({"http.response.start", "websocket.accept", "websocket.http.response.start"})
_POLICY_VIOLATION = 1008  # RFC 6455, section 7.4.1


class RateLimitMiddleware:
    """Limits HTTP requests and WebSocket handshakes; every other scope passes untouched.

    An admitted request gets the RateLimit fields on its start message; nothing else of it is touched,
    held back or read. A refused one never reaches the app.

    Args:
        app: the app to protect.
        rules: path of a rule file, a dict of the same shape, or a `RuleSet`.
        store: where the counts live; by default what the rules say.
        clock: where the store's time comes from; only for a store that the rules name.

    Raises:
        RuleFileError: the rules hold mistakes.
        StoreError: the store cannot be opened.
    """

    def __init__(
        self,
        app: ASGIApp,
        rules: RulesSource,
        *,
        store: Store | AsyncStore | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._app = app
        self._registry = build_registry(rules, store=store, clock=clock)
        self._faults = FaultLog(LIMITER_FAILED, clock=clock)
        self._answers = Answers(self._registry.ruleset, FaultLog(RESPONDER_FAILED, clock=clock).report)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        view = AsgiView(scope)
        try:
            verdict = await self._registry.admit_async(view)
            reply = self._answers.answer(view, verdict)
        except Exception as error:  # noqa: BLE001 - a limiter that fails must not let requests through
            self._faults.report(error)
            reply = self._answers.unavailable(view, error)
        outer: Told | None = scope.get(TOLD)
        if isinstance(reply, Refusal):
            if outer:
                outer.fields.clear()
            await _refuse(scope, receive, send, reply)
            return
        if verdict.wait_ns:
            await asyncio.sleep(verdict.wait_ns / NS_PER_SECOND)
        try:
            await self._app(scope, receive, _telling(scope, outer, verdict, reply, send))
        finally:
            if not outer:
                scope.pop(TOLD, None)  # an app may be tried with a scope that was used before


def _telling(scope: Scope, outer: Told | None, verdict: Verdict, fields: list[Field], send: Send) -> Send:
    """A `send` that adds the fields, once, however many instances of the middleware are nested."""
    if not fields:
        return send
    extra = _wire(fields)
    if outer and not is_tighter(verdict, outer.verdict):
        return send
    if outer:
        outer.fields[:] = extra
        scope[TOLD] = Told(verdict, outer.fields)
        return send
    scope[TOLD] = Told(verdict, extra)
    return _adding(extra, send)


def _adding(extra: list[tuple[bytes, bytes]], send: Send) -> Send:
    """A `send` that adds to a copy of the start message and hands all others on as they are."""

    async def send_with_fields(message: Message) -> None:
        if message["type"] in _STARTS:
            message = {**message, "headers": [*message.get("headers", ()), *extra]}
        await send(message)

    return send_with_fields


async def _refuse(scope: Scope, receive: Receive, send: Send, refusal: Refusal) -> None:
    if scope["type"] == "http":
        await _respond(send, "http.response", refusal)
    elif (await receive())["type"] != "websocket.connect":
        return  # the client has gone
    elif "websocket.http.response" in (scope.get("extensions") or ()):
        await _respond(send, "websocket.http.response", refusal)
    else:
        # Closed before it was accepted: the server answers the handshake with 403.
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": "rate limit"})


async def _respond(send: Send, kind: str, refusal: Refusal) -> None:
    headers = _wire(refusal.headers)
    await send({"type": f"{kind}.start", "status": refusal.status, "headers": headers})
    await send({"type": f"{kind}.body", "body": refusal.body})


def _wire(fields: list[Field]) -> list[tuple[bytes, bytes]]:
    """Fields as ASGI wants them: bytes, names in lower case."""
    return [(_wire_name(name), value.encode("latin-1")) for name, value in fields]


@lru_cache(maxsize=64)
def _wire_name(name: str) -> bytes:
    return name.lower().encode("latin-1")
