"""A Flask app with everything that a middleware can break. Served by the tests."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from flask import Blueprint, Flask, Response, request, send_file

from ratelimit_middleware.wsgi import RateLimitMiddleware

RULES = {
    "limits": {
        "POST /upload": "1/hour",
        "GET /api/v1/items/{id}": "2/hour",
        "GET /page": "2/hour",
        "/happened/{event}": "unlimited",
    },
    "default": "1000/hour",
}

events: defaultdict[str, threading.Event] = defaultdict(threading.Event)

app = Flask(__name__)
app.wsgi_app = RateLimitMiddleware(app.wsgi_app, RULES)  # type: ignore[method-assign]  # Flask's manual


@app.get("/happened/<event>")
def happened(event: str) -> str:
    """Answer once `event` has happened."""
    return event if events[event].wait(timeout=10) else "never"


@app.post("/happened/<event>")
def happen(event: str) -> str:
    """Let `event` happen."""
    events[event].set()
    return event


@app.get("/page")
def page() -> str:
    """A page."""
    return "page"


@app.get("/stream")
def stream() -> Response:
    """Three parts, each of which waits for the client to have seen the one before."""

    def parts() -> Iterator[str]:
        for part in ("one", "two", "three"):
            yield part
            events[f"seen-{part}"].wait(timeout=10)

    return Response(parts())


@app.get("/endless")
def endless() -> Response:
    """Goes on until the client leaves."""

    def parts() -> Iterator[bytes]:
        try:
            while not events["left"].wait(timeout=0.01):
                yield b"more"
        finally:
            events["left"].set()

    return Response(parts())


@app.get("/closing")
def closing() -> Response:
    """Does something when the server closes the response."""
    response = Response("closing")
    response.call_on_close(events["closed"].set)
    return response


@app.get("/file")
def file() -> Response:
    """This file, by the server's own file wrapper."""
    return send_file(Path(__file__))


@app.get("/broken")
def broken() -> str:
    """Fails before it answers."""
    raise LookupError("broken before the start")


@app.get("/broken-late")
def broken_late() -> Response:
    """Fails in the middle of its answer."""

    def parts() -> Iterator[bytes]:
        yield b"so far so good"
        raise LookupError("broken after the start")

    return Response(parts())


@app.post("/upload")
def upload() -> str:
    """The size of the body."""
    return str(len(request.get_data()))


api = Blueprint("api", __name__, url_prefix="/v1")


@api.get("/items/<item_id>")
def nested_item(item_id: str) -> str:
    """A page of a nested blueprint."""
    return item_id


outer = Blueprint("outer", __name__, url_prefix="/api")
outer.register_blueprint(api)
app.register_blueprint(outer)
