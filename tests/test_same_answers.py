"""One rule file, one sequence of requests: FastAPI and Flask give the same answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest
from fastapi import FastAPI
from flask import Flask

from ratelimit_middleware import asgi, wsgi
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.decision import Verdict
from ratelimit_middleware.request import RequestView

if TYPE_CHECKING:
    import httpx

pytestmark = pytest.mark.anyio

RULES = """
limits:
  GET /reports:
    limit: 9/second per global
    behavior: warm_up
    warm_up: {period: 10s, cold_factor: 3}
  GET /items/{id}: 2/second burst 3
  POST /login: [5/minute, 20/hour]
  /keyed: [2/minute per header:X-Api-Key, 8/minute]
  /health: unlimited
  /busy: {limit: 2/minute, status: 503}
  /own:
    limit: 2/minute
    response: {responder: "python:tests.test_same_answers:own_page"}
  /broken:
    limit: 2/minute
    response: {responder: "python:tests.test_same_answers:broken_page", detail: The page is broken.}
default: 30/minute
"""
COMPARED = {"retry-after", "cache-control", "access-control-expose-headers", "x-own"}

Step: TypeAlias = tuple[float, str, str, dict[str, str]]
"""Seconds since the step before, method, path, headers."""
Answer: TypeAlias = tuple[int, dict[str, str], str]


def own_page(view: RequestView, verdict: Verdict) -> tuple[int, dict[str, str], str]:
    """A responder."""
    page = f"<p>{', '.join(verdict.violated)} on {view.path}"
    return 420, {"Content-Type": "text/html", "X-Own": "1", "Cache-Control": "private"}, page


def broken_page(view: RequestView, verdict: Verdict) -> object:
    """A responder with a bug."""
    raise LookupError(view.path)


def fastapi_app() -> FastAPI:
    """The routes of the rule file, in FastAPI."""
    app = FastAPI(openapi_url=None, redirect_slashes=False)
    for path in ("/", "/reports", "/items/{item_id}", "/keyed", "/health", "/busy", "/own", "/broken"):
        app.add_api_route(path, lambda: "ok", methods=["GET", "HEAD"])
    app.add_api_route("/login", lambda: "ok", methods=["POST"])
    return app


def flask_app() -> Flask:
    """The same in Flask."""
    app = Flask(__name__)
    for path in ("/", "/reports", "/items/<item_id>", "/keyed", "/health", "/busy", "/own", "/broken"):
        app.add_url_rule(path, path, lambda **_: "ok", methods=["GET"])
    app.add_url_rule("/login", "/login", lambda: "ok", methods=["POST"])
    return app


def answer(response: httpx.Response) -> Answer:
    """What must be the same: the status, our fields, and the whole of a refusal."""
    refused = response.status_code in (420, 429, 503)
    wanted = COMPARED | ({"content-type", "content-length"} if refused else set())
    fields = {k: v for k, v in response.headers.items() if "ratelimit" in k or k in wanted}
    return response.status_code, fields, response.text if refused else ""


def ask(client: httpx.Client, step: Step) -> httpx.Response:
    """The response to a step."""
    _, method, path, headers = step
    return client.request(method, path, headers=headers)


def every(seconds: float, times: int, method: str, path: str, **headers: str) -> Iterator[Step]:
    """The same request `times` times, the clock moving before each."""
    return ((seconds, method, path, headers) for _ in range(times))


def per_second(seconds: int, times: int, path: str) -> Iterator[Step]:
    """In each of some seconds, `times` requests at once."""
    for _ in range(seconds):
        yield 1, "GET", path, {}
        yield from every(0, times - 1, "GET", path)


SEQUENCES: dict[str, list[Step]] = {
    "warm-up over several seconds": list(per_second(15, 12, "/reports")),
    "burst and refill": [*every(0, 5, "GET", "/items/1"), *every(0.3, 8, "GET", "/items/2")],
    "two windows of the login": [*every(0, 7, "POST", "/login"), *every(13, 40, "POST", "/login")],
    "pages that do not exist": list(every(0.5, 40, "GET", "/nowhere")),
    "a method that is not allowed": list(every(0, 8, "POST", "/items/1")),
    "HEAD": [
        *every(0, 2, "HEAD", "/items/1"),
        *every(0, 3, "GET", "/items/1"),
        *every(0, 2, "HEAD", "/items/1"),
    ],
    "refused as text": list(every(0, 5, "GET", "/items/1", accept="text/plain;q=0.9, */*;q=0.1")),
    "a key from a header": [
        *every(0, 3, "GET", "/keyed", **{"x-api-key": "a"}),
        *every(0, 3, "GET", "/keyed", **{"x-api-key": "b"}),
        *every(0, 3, "GET", "/keyed"),
    ],
    "another spelling of the path": [
        *every(0, 2, "GET", "/items/a%20b"),
        *every(0, 2, "GET", "/items/%C3%BC"),
        *every(0, 2, "GET", "//items/1"),
        *every(0, 2, "GET", "/items/1/"),
    ],
    "unlimited": list(every(0, 40, "GET", "/health")),
    "a rule with a status of its own": list(every(0, 3, "GET", "/busy")),
    "a rule with a responder": [*every(0, 3, "GET", "/own"), *every(0, 2, "HEAD", "/own")],
    "a responder that fails": list(every(0, 4, "GET", "/broken")),
    "a page of another origin": list(every(0, 5, "GET", "/items/1", origin="https://shop.example")),
    "the index": list(every(0, 31, "GET", "/")),
}


RESPONSES = [
    "{headers: draft-11}",
    "{headers: legacy}",
    "{headers: legacy-seconds}",
    "{headers: draft-6}",
    "{headers: draft-7}",
    "{headers: [draft-11, legacy]}",
    "{headers: [draft-6, draft-7]}",
    "{headers: none, expose_cors: true}",
    "{headers_on: refused, expose_cors: true}",
    "{problem: false}",
    "{status: 503, detail: Come back later.}",
    "{expose_cors: true}",
]


@pytest.fixture
def response() -> str:
    """What the file says about answers."""
    return "{headers: draft-11}"


@pytest.fixture
def rules(tmp_path: Path, response: str) -> Path:
    """The rule file."""
    path = tmp_path / "ratelimit.yaml"
    path.write_text(f"{RULES}\nresponse: {response}\n")
    return path


@pytest.fixture
def fastapi_client(
    clock: ManualClock, rules: Path, asgi_client: Callable[..., httpx.AsyncClient]
) -> httpx.AsyncClient:
    """The FastAPI app behind the rule file."""
    return asgi_client(asgi.RateLimitMiddleware(fastapi_app(), rules, clock=clock))


@pytest.fixture
def flask_client(clock: ManualClock, rules: Path, wsgi_client: Callable[..., httpx.Client]) -> httpx.Client:
    """The Flask app behind the rule file."""
    return wsgi_client(wsgi.RateLimitMiddleware(flask_app(), rules, clock=clock))


@pytest.mark.parametrize("steps", SEQUENCES.values(), ids=SEQUENCES.keys())
@pytest.mark.parametrize("response", RESPONSES)
async def test_the_same_file_gives_the_same_answers(
    steps: list[Step], clock: ManualClock, fastapi_client: httpx.AsyncClient, flask_client: httpx.Client
) -> None:
    for number, step in enumerate(steps):
        seconds, method, path, sent = step
        clock.advance(seconds)
        from_fastapi = await fastapi_client.request(method, path, headers=sent)
        from_flask = ask(flask_client, step)

        assert answer(from_fastapi) == answer(from_flask), f"step {number}: {method} {path}"


def statuses(steps: list[Step], client: httpx.Client, clock: ManualClock) -> list[int]:
    """The statuses of a sequence."""
    seen = []
    for step in steps:
        clock.advance(step[0])
        seen.append(ask(client, step).status_code)
    return seen


def test_the_warm_up_starts_at_a_third_and_ends_at_the_full_limit(
    flask_client: httpx.Client, clock: ManualClock
) -> None:
    seen = statuses(SEQUENCES["warm-up over several seconds"], flask_client, clock)
    admitted = [seen[second * 12 : second * 12 + 12].count(200) for second in range(15)]

    assert admitted[0] == 3
    assert admitted[-1] == 9
    assert admitted == sorted(admitted)


def test_the_login_keeps_both_windows(flask_client: httpx.Client, clock: ManualClock) -> None:
    seen = statuses(SEQUENCES["two windows of the login"], flask_client, clock)

    assert seen[:7] == [200] * 5 + [429] * 2
    assert seen.count(200) == 20
    assert set(seen[-10:]) == {429}


def test_what_the_settings_ask_for_is_what_is_said(
    clock: ManualClock, tmp_path: Path, wsgi_client: Callable[..., httpx.Client]
) -> None:
    """The comparison above would hold as well if both adapters ignored the settings alike."""
    path = tmp_path / "ratelimit.yaml"
    path.write_text(f"{RULES}\nresponse: {{headers: draft-7, expose_cors: true}}\n")
    client = wsgi_client(wsgi.RateLimitMiddleware(flask_app(), path, clock=clock))

    busy = [client.get("/busy") for _ in range(3)]
    own = [client.get("/own", headers={"origin": "null"}) for _ in range(3)]
    broken = [client.get("/broken") for _ in range(3)]

    assert [response.status_code for response in busy] == [200, 200, 503]
    assert [response.status_code for response in own] == [200, 200, 420]
    assert own[2].text == "<p>own on /own"
    assert own[2].headers["cache-control"] == "private"
    assert own[2].headers["ratelimit"] == "limit=2, remaining=0, reset=60"
    assert own[1].headers["access-control-expose-headers"] == "RateLimit-Policy, RateLimit"
    assert own[2].headers["access-control-expose-headers"] == "RateLimit-Policy, RateLimit, Retry-After"
    assert [response.status_code for response in broken] == [200, 200, 429]
    assert broken[2].json()["detail"] == "The page is broken."
