"""Apps behind a proxy on 127.0.0.1, which trust it or do not. Served by the tests."""

from __future__ import annotations

from typing import Any

from ratelimit_middleware._types import ASGIApp, Environ, Receive, Scope, Send, StartResponse, WSGIApp
from ratelimit_middleware.asgi import RateLimitMiddleware as AsgiLimits
from ratelimit_middleware.wsgi import RateLimitMiddleware as WsgiLimits

LIMIT = 2
PLAIN: dict[str, Any] = {"default": f"{LIMIT}/hour"}
TRUSTING = {**PLAIN, "client": {"trusted_proxies": ["127.0.0.0/8", "unix"]}}
HOPS = {**PLAIN, "client": {"hops": 1}}


async def peer(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the address that the server reports."""
    if scope["type"] == "http":
        body = str((scope["client"] or [None])[0]).encode()
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]}
        )
        await send({"type": "http.response.body", "body": body})


def wsgi_peer(environ: Environ, start_response: StartResponse) -> list[bytes]:
    """Answers with the address that the server reports."""
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str(environ["REMOTE_ADDR"]).encode()]


plain: ASGIApp = AsgiLimits(peer, PLAIN)
trusting: ASGIApp = AsgiLimits(peer, TRUSTING)
hops: ASGIApp = AsgiLimits(peer, HOPS)
wsgi_plain: WSGIApp = WsgiLimits(wsgi_peer, PLAIN)
wsgi_trusting: WSGIApp = WsgiLimits(wsgi_peer, TRUSTING)
