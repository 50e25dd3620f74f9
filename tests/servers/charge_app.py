"""The same login in FastAPI and in Flask, of which only failures count. Served by the tests."""

import time

import anyio
import flask
from fastapi import FastAPI, Response

from ratelimit_middleware import asgi, wsgi

RULES = {
    "limits": {
        "POST /login": {"limit": "5/15m", "charge": {"on_status": [401, 403]}},
        "/stream": {"limit": "100/hour", "cost": {"reserve": 60, "actual": "bytes"}},
        "/tokens": {"limit": "100/hour burst 100", "cost": {"reserve": 60, "actual": "header:x-tokens"}},
        "/broken": {"limit": "2/hour", "charge": "python:tests.rules.app_functions:broken"},
    },
    "default": "3/hour",
    "unmatched_routes": "skip",
}

inner = FastAPI()
flasks = flask.Flask(__name__)


@inner.post("/login")
async def login(word: str, response: Response) -> str:
    """Checks for a while, so that tries at once are at once."""
    await anyio.sleep(0.2)
    response.status_code = 200 if word == "right" else 401
    return "ok"


@inner.get("/stream")
async def stream() -> Response:
    """Forty bytes."""
    return Response(b"a" * 40)


@inner.get("/tokens")
async def tokens() -> Response:
    """Fewer than reserved."""
    return Response(headers={"x-tokens": "40"})


@inner.get("/broken")
async def broken() -> str:
    """Its rule asks a function that fails."""
    return "ok"


@flasks.post("/login")
def login_there() -> tuple[str, int]:
    """As in FastAPI."""
    time.sleep(0.2)
    return "ok", 200 if flask.request.args["word"] == "right" else 401


@flasks.get("/stream")
def stream_there() -> bytes:
    """Forty bytes."""
    return b"a" * 40


@flasks.get("/tokens")
def tokens_there() -> tuple[str, dict[str, str]]:
    """Fewer than reserved."""
    return "", {"x-tokens": "40"}


@flasks.get("/broken")
def broken_there() -> str:
    """Its rule asks a function that fails."""
    return "ok"


app = asgi.RateLimitMiddleware(inner, RULES)
there = wsgi.RateLimitMiddleware(flasks, RULES)
