"""A plain ASGI app whose workers share their counts. Served by the tests."""

import os

from ratelimit_middleware._types import Receive, Scope, Send
from ratelimit_middleware.asgi import RateLimitMiddleware

RULES = {"store": os.environ["SHARED_STORE_URL"], "default": "100/minute per global"}


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    """Says which worker answers."""
    if scope["type"] != "http":
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": str(os.getpid()).encode()})


app = RateLimitMiddleware(hello, RULES)
