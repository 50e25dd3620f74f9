"""Apps under ASGI and under WSGI that ask themselves, behind rules on relations. Served by the tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import httpx

from ratelimit_middleware import asgi, wsgi
from ratelimit_middleware._types import Environ, Receive, Scope, Send, StartResponse

RULES: dict[str, Any] = {
    "limits": {
        "POST /orders": {"limit": "3/hour per global", "relate": "GET /stock/{sku}"},
        "GET /prices/{sku}": {"limit": "2/hour per global", "chain": "POST /checkout"},
    },
    "default": "1000/hour",
}


async def asgi_inner(scope: Scope, receive: Receive, send: Send) -> None:
    """`POST /checkout` answers with the status of the price it asks for; all else with 200."""
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return
    status = 200
    if scope["path"] == "/checkout":
        transport = httpx.ASGITransport(asgi_app)
        async with httpx.AsyncClient(transport=transport, base_url="http://itself") as client:
            status = (await client.get("/prices/7")).status_code
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


def wsgi_inner(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """The same."""
    status = 200
    if environ["PATH_INFO"] == "/checkout":
        transport = httpx.WSGITransport(wsgi_app)
        with httpx.Client(transport=transport, base_url="http://itself") as client:
            status = client.get("/prices/7").status_code
    start_response(f"{status} Told", [("Content-Length", "0")])
    return [b""]


asgi_app = asgi.RateLimitMiddleware(asgi_inner, RULES)
wsgi_app = wsgi.RateLimitMiddleware(wsgi_inner, RULES)
