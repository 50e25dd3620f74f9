"""A plain WSGI app behind a bandwidth, that tells what is left. Served by the tests."""

import hashlib
import io
import json
import threading
from collections.abc import Iterable, Iterator

from ratelimit_middleware._types import Environ, StartResponse
from ratelimit_middleware.wsgi import RateLimitMiddleware

RULES = {
    "limits": {
        "/paced/**": {"bandwidth": "1MB/s per global"},
        "/slow/**": {"bandwidth": "100kB/s per global"},
        "/state": "unlimited",
    }
}
BODY = bytes(n * n % 251 for n in range(600_000))


def inner(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """A body in one of several ways."""
    kind = environ["PATH_INFO"].rpartition("/")[2]
    if kind == "upload":
        body = hashlib.sha256(environ["wsgi.input"].read()).hexdigest().encode()
    elif kind == "state":
        body = json.dumps({"free": limited._places._value, "threads": threading.active_count()}).encode()
    else:
        body = BODY
    headers = [] if kind == "stream" else [("Content-Length", str(len(body)))]
    start_response("200 OK", headers)
    if kind == "stream":
        return parts(body)
    wrapper = environ.get("wsgi.file_wrapper")
    return wrapper(io.BytesIO(body)) if kind == "file" and wrapper else [body]


def parts(body: bytes) -> Iterator[bytes]:
    """The same in many pieces."""
    for start in range(0, len(body), 7777):
        yield body[start : start + 7777]


limited = RateLimitMiddleware(inner, RULES, max_waiting_threads=4)
app = limited
