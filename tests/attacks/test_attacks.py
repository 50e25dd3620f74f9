"""No attack gets one request more than the limit, whatever the framework and server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from ratelimit_middleware.faults import LIMITER_FAILED
from tests.attacks.cases import CASES, GROUPS, Case
from tests.attacks.wire import Request, Wire
from tests.servers import RunningServer, gunicorn, uvicorn

SERVERS: dict[str, tuple[Callable[..., AbstractContextManager[RunningServer]], str]] = {
    "fastapi": (uvicorn, "fastapi_app:app"),
    "starlette": (uvicorn, "starlette_app:app"),
    "quart": (uvicorn, "quart_app:app"),
    "litestar": (uvicorn, "litestar_app:app"),
    "django-asgi": (uvicorn, "django_app:asgi_app"),
    "flask": (gunicorn, "flask_app:app"),
    "django-wsgi": (gunicorn, "django_app:wsgi_app"),
}
REACHED = {*range(100, 300)}
MISSING = REACHED | {404, 405}
LIMIT = 3


@pytest.fixture(scope="module", params=SERVERS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    """The framework's app under its server; every case is another client."""
    serve, app = SERVERS[request.param]
    options = ("--no-proxy-headers",) if serve is uvicorn else ()
    log_file = tmp_path_factory.mktemp("attacked") / "server.log"
    with serve(f"tests.attacks.apps.{app}", log_file, *options) as running:
        yield running


def statuses(server: RunningServer, case: Case) -> list[int]:
    """What the requests of a case are answered with."""
    wire = Wire(server.port)
    number = CASES.index(case)
    found = [wire.status_of(request.as_bytes(number), request.method) for request in case.requests]
    wire.close()
    return found


@pytest.mark.parametrize("group", GROUPS)
def test_no_attack_gets_one_request_more(server: RunningServer, group: str) -> None:
    slipped = {}
    for case in CASES:
        if case.group == group:
            found = statuses(server, case)
            passing = MISSING if case.missing else REACHED
            if sum(status in passing for status in found) > LIMIT:
                slipped[case.name] = found
    assert not slipped
    assert LIMITER_FAILED not in server.log()


def test_the_limit_is_met_where_nothing_is_odd(server: RunningServer) -> None:
    """Else the cases would pass because the app answers nothing."""
    wire = Wire(server.port)
    for number, path in enumerate(
        ("/items/1", "/api/v1/things/1", "/mounted/inner/1", "/late/1", "/class/1"), 9000
    ):
        found = [wire.status_of(Request(path).as_bytes(number), "GET") for _ in range(5)]
        assert found == [200, 200, 200, 429, 429], path
    free = [wire.status_of(Request("/health").as_bytes(9999), "GET") for _ in range(5)]
    assert free == [200] * 5
    wire.close()


def test_there_are_many_cases_and_each_has_a_name_of_its_own() -> None:
    assert len(CASES) >= 150
    assert len({(case.group, case.name) for case in CASES}) == len(CASES)
    assert all(len(case.requests) == 6 for case in CASES)
