"""`relate` and `chain` over real servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.servers import RunningServer, gunicorn, hypercorn, uvicorn

SERVERS = {
    "uvicorn": (uvicorn, "asgi_app"),
    "hypercorn": (hypercorn, "asgi_app"),
    "gunicorn": (gunicorn, "wsgi_app"),
}


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningServer]:
    serve, app = SERVERS[request.param]
    with serve(f"tests.servers.relations_app:{app}", tmp_path / "log") as running:
        yield running
        assert "Traceback" not in running.log()


def statuses(server: RunningServer, method: str, path: str, times: int) -> list[int]:
    with httpx.Client(base_url=server.url, timeout=30) as client:
        return [client.request(method, path).status_code for _ in range(times)]


def test_a_route_yields_to_the_one_it_is_related_to(server: RunningServer) -> None:
    assert statuses(server, "POST", "/orders", 5) == [200] * 5
    assert statuses(server, "GET", "/stock/1", 2) == [200] * 2
    assert statuses(server, "POST", "/orders", 5) == [200] * 5
    assert statuses(server, "GET", "/stock/2", 5) == [200] * 5
    assert statuses(server, "POST", "/orders", 2) == [429] * 2


def test_only_what_is_reached_from_the_entrance_counts(server: RunningServer) -> None:
    assert statuses(server, "GET", "/prices/7", 5) == [200] * 5
    assert statuses(server, "POST", "/checkout", 3) == [200, 200, 429]
    assert statuses(server, "GET", "/prices/7", 2) == [200] * 2
