"""Refusals under ASGI: of requests, and of handshakes."""

from __future__ import annotations

from ratelimit_middleware._types import Receive, Scope, Send
from ratelimit_middleware.headers import octets
from ratelimit_middleware.responses import Refusal

__all__ = ["refuse"]

_POLICY_VIOLATION = 1008  # RFC 6455, section 7.4.1


async def refuse(scope: Scope, receive: Receive, send: Send, refusal: Refusal) -> None:
    """Answer in the place of the app, which has not answered."""
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
    await send({"type": f"{kind}.start", "status": refusal.status, "headers": octets(refusal.headers)})
    await send({"type": f"{kind}.body", "body": refusal.body})
