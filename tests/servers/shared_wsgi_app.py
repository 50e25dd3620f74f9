"""A plain WSGI app whose workers share their counts. Served by the tests."""

import os
from collections.abc import Iterable

from ratelimit_middleware._types import Environ, StartResponse
from ratelimit_middleware.wsgi import RateLimitMiddleware

RULES = {"store": os.environ["SHARED_STORE_URL"], "default": "100/minute per global"}


def hello(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Says which worker answers."""
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str(os.getpid()).encode()]


app = RateLimitMiddleware(hello, RULES)
