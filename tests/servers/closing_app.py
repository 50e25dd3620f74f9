"""An app on Redis that tells what is left of the store's when its lifespan is over.

The rules' store is `REDIS_URL`. A layer outside of the middleware hears the last message of the lifespan, as
the server does, and looks at the server's list of clients and at the loop's tasks.
"""

from __future__ import annotations

import asyncio
import atexit
import os

from redis import Redis

from ratelimit_middleware import asgi, wsgi
from ratelimit_middleware._types import Environ, Message, Receive, Scope, Send, StartResponse

URL = os.environ["REDIS_URL"]
RULES = {
    "store": {"url": URL, "on_error": "deny", "timeout": "5s"},
    "limits": {"/": "1000/hour", "/slots": {"concurrency": 5}},
}


async def page(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
    else:
        await answer(send, "ok")


async def answer(send: Send, text: str) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": text.encode()})


def wsgi_page(_environ: Environ, start_response: StartResponse) -> list[bytes]:
    start_response("200 OK", [])
    return [b"ok"]


def connections() -> int:
    """The clients of the server but this one."""
    with Redis.from_url(URL) as client:
        return len(client.client_list()) - 1


async def left() -> str:
    tasks = [str(task.get_coro()) for task in asyncio.all_tasks()]
    own = sum("Coalescer" in task for task in tasks)
    return f"connections={await asyncio.to_thread(connections)} tasks={own}"


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """The app as the server sees it; `/left` tells what there is now."""

    async def heard(message: Message) -> None:
        if message["type"] == "lifespan.shutdown.complete":
            print("at the end:", await left(), flush=True)  # noqa: T201 - the answer to the test
        await send(message)

    if scope["type"] == "http" and scope["path"] == "/left":
        await answer(send, await left())
    else:
        await limited(scope, receive, heard)


atexit.register(lambda: print(f"at exit: connections={connections()}", flush=True))  # noqa: T201 - the same
limited = asgi.RateLimitMiddleware(page, RULES)
wsgi_app = wsgi.RateLimitMiddleware(wsgi_page, RULES)

if __name__ == "__main__":
    from wsgiref.util import setup_testing_defaults

    environ: Environ = {}
    setup_testing_defaults(environ)
    assert wsgi_app(environ, lambda *_: lambda _: None) == [b"ok"]
    print(f"while it runs: connections={connections()}")  # noqa: T201 - the same
