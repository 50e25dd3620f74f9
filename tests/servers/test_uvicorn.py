"""Over TCP, served by uvicorn."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.servers import RunningServer, uvicorn


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """The app under uvicorn, one for all tests of this file: each uses a route of its own."""
    log_file = tmp_path_factory.mktemp("uvicorn") / "server.log"
    with uvicorn("tests.servers.asgi_app:app", log_file) as running:
        yield running


@pytest.fixture
def client(server: RunningServer) -> Iterator[httpx.Client]:
    """A client that keeps its connections; the server's log is shown when the test fails."""
    with httpx.Client(base_url=server.url, timeout=15) as http:
        yield http
    print(server.log())  # noqa: T201 - pytest shows it with a failed test


def test_a_streamed_response_arrives_part_by_part(client: httpx.Client) -> None:
    with client.stream("GET", "/stream") as response:
        parts = response.iter_text()
        for expected in ("one", "two", "three"):
            assert next(parts) == expected
            client.post(f"/happened/seen-{expected}").raise_for_status()

    assert response.headers.get_list("RateLimit-Policy") == ['"default";q=1000;w=3600']


def test_a_background_task_runs(client: httpx.Client) -> None:
    assert client.get("/background").json() == "later"
    assert client.get("/happened/background").json() == "background"


def test_an_exception_of_the_app_stays_its_500(client: httpx.Client, server: RunningServer) -> None:
    # uvicorn hangs up after an exception without saying so in the response
    assert client.get("/broken", headers={"Connection": "close"}).status_code == 500
    client.post("/happened/next")  # by then the server has logged it
    assert "LookupError: broken before the start" in server.log()


def test_an_exception_in_the_middle_breaks_the_response_off(client: httpx.Client) -> None:
    with client.stream("GET", "/broken-late") as response:
        assert response.status_code == 200
        with pytest.raises(httpx.RemoteProtocolError):
            response.read()


def test_a_client_that_hangs_up_is_seen_by_the_app(client: httpx.Client) -> None:
    with client.stream("GET", "/endless") as response:
        assert next(response.iter_text()).startswith("more")

    assert client.get("/happened/left").json() == "left"


def test_head_counts_as_get_and_has_no_body(client: httpx.Client) -> None:
    head, get, refused = client.head("/page"), client.get("/page"), client.head("/page")

    assert [r.status_code for r in (head, get, refused)] == [200, 200, 429]
    assert head.headers["RateLimit"].startswith('"get-page";r=1;t=')
    assert [head.text, get.text, refused.text] == ["", "page", ""]
    assert int(refused.headers["Content-Length"]) > 0


def test_a_mounted_app_is_limited_on_its_full_path(client: httpx.Client) -> None:
    assert [client.get(f"/shop/items/{n}").status_code for n in range(3)] == [200, 200, 429]


def test_a_middleware_inside_a_mount_sees_the_path_of_its_app(client: httpx.Client) -> None:
    assert [client.get(f"/inner/items/{n}").status_code for n in range(2)] == [200, 429]


def test_a_router_in_a_router_is_limited_on_its_full_path(client: httpx.Client) -> None:
    assert [client.get(f"/api/v1/items/{n}").status_code for n in range(3)] == [200, 200, 429]


def test_a_page_that_does_not_exist_counts_under_default(client: httpx.Client) -> None:
    left = []
    for _ in range(2):
        response = client.get("/nowhere")
        assert response.status_code == 404
        name, remaining, _window = response.headers["RateLimit"].split(";")
        assert name == '"default"'
        left.append(int(remaining.removeprefix("r=")))

    assert left[1] == left[0] - 1


def test_a_refused_handshake_is_answered_with_429(server: RunningServer) -> None:
    url = f"ws://127.0.0.1:{server.port}/live"
    with connect(url) as websocket:
        assert websocket.recv() == "hello"
        assert websocket.response is not None
        assert websocket.response.headers["RateLimit"].startswith('"ws-live";r=0;t=')

    with pytest.raises(InvalidStatus) as refused, connect(url):
        pass
    assert refused.value.response.status_code == 429
    assert int(refused.value.response.headers["Retry-After"]) > 3500
    assert b"quota-exceeded" in (refused.value.response.body or b"")


@pytest.mark.parametrize("size", [10, 2_000_000])
def test_a_refused_upload_leaves_the_client_able_to_go_on(client: httpx.Client, size: int) -> None:
    """The body is not read; the connection is kept or closed cleanly."""
    client.post("/upload", content=b"first")
    refused = client.post("/upload", content=b"x" * size)

    assert refused.status_code == 429
    assert refused.json()["violated-policies"] == ["post-upload"]
    assert client.post("/happened/next").json() == "next"
