"""A plain WSGI app behind a rule that sheds. Served by the tests."""

import threading
from typing import Any

from ratelimit_middleware.wsgi import RateLimitMiddleware

RULES = {
    "limits": {"/slow": {"adaptive": {"max_in_flight": 3, "loop_lag": "1ms"}}, "/state": "unlimited"},
}
go = threading.Event()


def inner(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    """`/slow` waits until `/go` is asked for."""
    (meter,) = app._registry.store._meters.values()  # type: ignore[union-attr]
    if environ["PATH_INFO"] == "/slow":
        go.wait(20)
    if environ["PATH_INFO"] == "/go":
        go.set()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str(meter.in_flight).encode()]


app = RateLimitMiddleware(inner, RULES)
