"""A plain WSGI app whose workers share their counts. Served by the tests."""

import os
import time
from collections.abc import Iterable
from pathlib import Path

from ratelimit_middleware._types import Environ, StartResponse
from ratelimit_middleware.wsgi import RateLimitMiddleware

RULES = {
    "store": os.environ["SHARED_STORE_URL"],
    "limits": {"/gate": {"limit": "100000/second", "concurrency": "3 per global"}},
    "default": "100/minute per global",
}


def hello(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Says which worker answers; `/gate` when the file named by the query is there."""
    while environ["PATH_INFO"] == "/gate" and not Path(environ["QUERY_STRING"]).exists():
        time.sleep(0.005)  # paces the looks; the file is what is waited for
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str(os.getpid()).encode()]


app = RateLimitMiddleware(hello, RULES)
