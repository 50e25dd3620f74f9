"""No framework: a WSGI app is a callable, and the middleware is another one around it.

Run it with `gunicorn --chdir example_apps --threads 8 plain_wsgi:app`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

from ratelimit_middleware._types import Environ, StartResponse
from ratelimit_middleware.wsgi import RateLimitMiddleware

PAGES = {
    ("GET", "/"): "index",
    ("GET", "/reports"): "reports",
    ("POST", "/login"): "login",
    ("GET", "/health"): "health",
}


def answer(method: str, path: str) -> tuple[str, dict[str, str | int]]:
    """The status line and the JSON body for a request."""
    if (method, path) in PAGES:
        return "200 OK", {"page": PAGES[method, path]}
    item = re.fullmatch(r"/items/(\d+)", path)
    if method == "GET" and item:
        return "200 OK", {"item": int(item[1])}
    return "404 Not Found", {"detail": "Not Found"}


def shop(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Answer one request."""
    status, content = answer(environ["REQUEST_METHOD"], environ["PATH_INFO"])
    start_response(status, [("Content-Type", "application/json")])
    return [json.dumps(content).encode()]


app = RateLimitMiddleware(shop, Path(__file__).with_name("ratelimit.yaml"))
