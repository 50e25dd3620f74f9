"""What counts and what it costs in the end, over TCP: FastAPI on uvicorn, Flask on gunicorn with threads."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.servers import RunningServer, gunicorn, uvicorn


@pytest.fixture(params=["uvicorn", "gunicorn"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningServer]:
    """A server of its own for each test."""
    apps = {"uvicorn": (uvicorn, "app"), "gunicorn": (gunicorn, "there")}
    serve, name = apps[request.param]
    with serve(f"tests.servers.charge_app:{name}", tmp_path / "log") as running:
        yield running


def login(server: RunningServer, word: str) -> int:
    return httpx.post(f"{server.url}/login", params={"word": word}, timeout=15).status_code


def get(server: RunningServer, path: str) -> int:
    return httpx.get(f"{server.url}{path}", timeout=15).status_code


def test_five_wrong_logins_count_and_right_ones_are_free(server: RunningServer) -> None:
    with ThreadPoolExecutor(5) as pool:
        right = list(pool.map(lambda _: login(server, "right"), range(20)))
    assert right == [200] * 20
    assert [login(server, "wrong") for _ in range(6)] == [401] * 5 + [429]
    assert login(server, "right") == 429


def test_tries_at_once_do_not_slip_past(server: RunningServer) -> None:
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: login(server, "wrong"), range(20)))
    assert sorted(answers) == [401] * 5 + [429] * 15


def test_a_cost_is_settled_when_the_response_has_ended(server: RunningServer) -> None:
    """Of 100, 60 are taken and 40 counted: the second one fits, the third does not.

    On one connection, where the next request is read when the last response is done with.
    """
    with httpx.Client(base_url=server.url, timeout=15) as client:
        for path in ("/stream", "/tokens"):
            assert [client.get(path).status_code for _ in range(3)] == [200, 200, 429]


def test_pages_without_a_route_are_free(server: RunningServer) -> None:
    assert [get(server, "/nowhere") for _ in range(9)] == [404] * 9


def test_a_function_that_fails_is_told_once_and_its_rule_counts(server: RunningServer) -> None:
    assert [get(server, "/broken") for _ in range(3)] == [200, 200, 429]
    assert server.log().count("app_functions:broken` says is of no use") == 1
