"""Over TCP, served by gunicorn's threads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.servers import RunningServer, gunicorn


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """The app under gunicorn, one for all tests of this file: each uses a route of its own."""
    log_file = tmp_path_factory.mktemp("gunicorn") / "server.log"
    with gunicorn("tests.servers.wsgi_app:app", log_file) as running:
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


def test_the_response_is_closed_by_the_server(client: httpx.Client) -> None:
    assert client.get("/closing").text == "closing"
    assert client.get("/happened/closed").text == "closed"


def test_a_file_is_sent_whole(client: httpx.Client) -> None:
    response = client.get("/file")

    assert response.content == Path(__file__).with_name("wsgi_app.py").read_bytes()
    assert response.headers["RateLimit"].startswith('"default";')


def test_an_exception_of_the_app_stays_its_500(client: httpx.Client, server: RunningServer) -> None:
    response = client.get("/broken")

    assert response.status_code == 500
    assert response.headers["RateLimit"].startswith('"default";')
    assert "LookupError: broken before the start" in server.log()


def test_an_exception_in_the_middle_breaks_the_response_off(client: httpx.Client) -> None:
    with client.stream("GET", "/broken-late") as response:
        assert response.status_code == 200
        with pytest.raises(httpx.RemoteProtocolError):
            response.read()


def test_a_client_that_hangs_up_is_seen_by_the_app(client: httpx.Client) -> None:
    with client.stream("GET", "/endless") as response:
        assert next(response.iter_text()).startswith("more")

    assert client.get("/happened/left").text == "left"


def test_head_counts_as_get_and_has_no_body(client: httpx.Client) -> None:
    head, get, refused = client.head("/page"), client.get("/page"), client.head("/page")

    assert [r.status_code for r in (head, get, refused)] == [200, 200, 429]
    assert head.headers["RateLimit"].startswith('"get-page";r=1;t=')
    assert [head.text, get.text, refused.text] == ["", "page", ""]
    assert int(refused.headers["Content-Length"]) > 0


def test_a_blueprint_in_a_blueprint_is_limited_on_its_full_path(client: httpx.Client) -> None:
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


def refuse_upload(client: httpx.Client, size: int) -> None:
    """Send a body of `size` bytes to the route that takes one an hour."""
    client.post("/upload", content=b"first")
    refused = client.post("/upload", content=b"x" * size)

    assert refused.status_code == 429
    assert refused.json()["violated-policies"] == ["post-upload"]


def test_a_connection_is_kept_after_a_refused_upload(client: httpx.Client) -> None:
    """The middleware does not read the body, gunicorn reads past it (up to 64 KiB)."""
    refuse_upload(client, 30_000)

    assert client.post("/happened/next").text == "next"


def test_a_large_upload_hears_its_refusal_before_the_connection_is_closed(
    client: httpx.Client, server: RunningServer
) -> None:
    refuse_upload(client, 2_000_000)

    assert httpx.post(f"{server.url}/happened/next").text == "next"
