"""Each example app answers as its comments say."""

from __future__ import annotations

import importlib.util
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import httpx
import pytest

from ratelimit_middleware.clock import ManualClock

pytestmark = pytest.mark.anyio

FOLDER = Path(__file__).parents[1] / "example_apps"
WSGI_APPS = ["flask_app", "plain_wsgi"]

Ask: TypeAlias = Callable[[str, str], Awaitable[httpx.Response]]


def load(name: str) -> Any:
    """The app of an example, freshly made."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.app


@pytest.fixture(params=["fastapi_app", "starlette_app", "plain_asgi", *WSGI_APPS])
def ask(
    request: pytest.FixtureRequest,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    asgi_client: Callable[..., httpx.AsyncClient],
    wsgi_client: Callable[..., httpx.Client],
) -> Ask:
    """A function that asks the example, whose clock is the test's."""
    monkeypatch.setattr("ratelimit_middleware.stores.memory.reading", lambda _: (clock.now_ns, 0))
    app = load(request.param)
    if request.param not in WSGI_APPS:
        return asgi_client(app).request
    client = wsgi_client(app)

    async def ask_in_place(method: str, path: str) -> httpx.Response:
        return client.request(method, path)

    return ask_in_place


async def test_every_route_answers(ask: Ask) -> None:
    pages = [("GET", "/"), ("GET", "/reports"), ("POST", "/login"), ("GET", "/health"), ("GET", "/items/7")]
    answers = [(await ask(method, path)).json() for method, path in pages]

    assert answers == [
        {"page": "index"},
        {"page": "reports"},
        {"page": "login"},
        {"page": "health"},
        {"item": 7},
    ]


async def test_items_share_a_burst_of_twenty(ask: Ask) -> None:
    statuses = [(await ask("GET", f"/items/{number}")).status_code for number in range(21)]

    assert statuses == [200] * 20 + [429]


async def test_reports_warm_up_from_three_to_nine_a_second(ask: Ask, clock: ManualClock) -> None:
    admitted = []
    for _ in range(15):
        clock.advance(1)
        admitted.append([(await ask("GET", "/reports")).status_code for _ in range(12)].count(200))

    assert admitted[0] == 3
    assert admitted[-1] == 9
    assert admitted == sorted(admitted)


async def test_the_sixth_login_in_a_minute_is_told_when_to_come_back(ask: Ask, clock: ManualClock) -> None:
    answers = [await ask("POST", "/login") for _ in range(6)]

    assert [answer.status_code for answer in answers] == [200] * 5 + [429]
    assert answers[0].headers["RateLimit-Policy"] == '"post-login";q=5;w=60, "post-login-2";q=20;w=3600'
    assert answers[5].json()["violated-policies"] == ["post-login"]
    clock.advance(int(answers[5].headers["Retry-After"]))
    assert (await ask("POST", "/login")).status_code == 200


async def test_the_health_check_is_never_limited(ask: Ask) -> None:
    answers = [await ask("GET", "/health") for _ in range(301)]

    assert {answer.status_code for answer in answers} == {200}
    assert "RateLimit" not in answers[-1].headers


async def test_pages_that_do_not_exist_fall_under_default(ask: Ask) -> None:
    statuses = [(await ask("GET", f"/nowhere/{number}")).status_code for number in range(301)]

    assert statuses == [404] * 300 + [429]
