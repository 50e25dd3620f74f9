"""No framework: an ASGI app is a callable, and the middleware is another one around it.

Run it with `uvicorn --app-dir example_apps plain_asgi:app`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from ratelimit_middleware._types import Receive, Scope, Send
from ratelimit_middleware.asgi import RateLimitMiddleware

PAGES = {
    ("GET", "/"): "index",
    ("GET", "/reports"): "reports",
    ("POST", "/login"): "login",
    ("GET", "/health"): "health",
}


def answer(method: str, path: str) -> tuple[int, dict[str, str | int]]:
    """The status and the JSON body for a request."""
    if (method, path) in PAGES:
        return 200, {"page": PAGES[method, path]}
    item = re.fullmatch(r"/items/(\d+)", path)
    if method == "GET" and item:
        return 200, {"item": int(item[1])}
    return 404, {"detail": "Not Found"}


async def shop(scope: Scope, _: Receive, send: Send) -> None:
    """Answer one HTTP request; start-up and shut-down need nothing."""
    if scope["type"] != "http":
        return
    status, content = answer(scope["method"], scope["path"])
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(content).encode()})


app = RateLimitMiddleware(shop, Path(__file__).with_name("ratelimit.yaml"))
