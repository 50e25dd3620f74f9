"""Refusals under ASGI: of requests, and of handshakes."""

from __future__ import annotations

from ratelimit_middleware._types import Receive, Scope, Send
from ratelimit_middleware.headers import octets_once
from ratelimit_middleware.responses import Refusal

__all__ = ["refuse"]

_POLICY_VIOLATION = 1008  # RFC 6455, section 7.4.1


async def refuse(scope: Scope, receive: Receive, send: Send, refusal: Refusal) -> None:
    """Answer in the place of the app, which has not answered."""
    kind = "http.response"
    if scope["type"] != "http":
        if (await receive())["type"] != "websocket.connect":
            return  # the client has gone
        if "websocket.http.response" not in (scope.get("extensions") or ()):
            # Closed before it was accepted: the server answers the handshake with 403.
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": "rate limit"})
            return
        kind = "websocket.http.response"
    headers = [*octets_once(refusal.headers)]  # a list of its own, for middleware further out to change
    await send({"type": f"{kind}.start", "status": refusal.status, "headers": headers})
    await send({"type": f"{kind}.body", "body": refusal.body})
