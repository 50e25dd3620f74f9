"""Bodies at a limited bandwidth under gunicorn, with threads."""

from __future__ import annotations

import hashlib
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.servers import RunningServer, gunicorn
from tests.servers.wsgi_flow_app import BODY

APP = "tests.servers.wsgi_flow_app:app"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """One server of eight threads for all tests, of which four may wait."""
    with gunicorn(APP, tmp_path_factory.mktemp("server") / "log") as running:
        yield running
        assert "Traceback" not in running.log()


@pytest.fixture
def client(server: RunningServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=15) as http:
        yield http


@pytest.mark.parametrize("kind", ["one", "stream", "file"])
def test_a_body_arrives_whole_and_not_before_its_time(client: httpx.Client, kind: str) -> None:
    start = time.monotonic()
    response = client.get(f"/paced/{kind}")
    assert response.content == BODY
    assert response.headers.get("content-length", "600000") == "600000"
    assert time.monotonic() - start > 0.5 - 0.01, "600 kB at 1 MB/s, 100 kB of it at once"


def test_an_upload_arrives_whole_and_not_before_its_time(client: httpx.Client) -> None:
    start = time.monotonic()
    response = client.post("/paced/upload", content=BODY)
    assert response.text == hashlib.sha256(BODY).hexdigest()
    assert time.monotonic() - start > 0.5 - 0.01


def test_a_head_has_the_length_and_no_body(client: httpx.Client) -> None:
    for _ in range(3):
        assert client.head("/paced/one").headers["content-length"] == "600000"
        assert client.get("/state").status_code == 200


def test_more_than_may_wait_are_refused_and_other_traffic_is_not_held_up(
    client: httpx.Client, server: RunningServer
) -> None:
    with ThreadPoolExecutor(12) as pool:
        many = [pool.submit(httpx.get, f"{server.url}/paced/stream", timeout=30) for _ in range(10)]
        while not all(one.done() for one in many):
            assert client.get("/state").status_code == 200
    answers = [one.result() for one in many]
    refused = [answer for answer in answers if answer.status_code == 503]
    assert refused
    assert all(answer.content == BODY for answer in answers if answer.status_code == 200)
    assert all(answer.headers["content-type"] == "application/problem+json" for answer in refused)


def test_clients_that_hang_up_leave_nothing(client: httpx.Client, server: RunningServer) -> None:
    for _ in range(4):
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(b"GET /slow/one HTTP/1.1\r\nHost: t\r\n\r\n")
            assert connection.recv(100)
    while client.get("/state").json()["free"] < 4:
        pass  # the test fails by its timeout if a place is lost
