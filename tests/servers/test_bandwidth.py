"""Bodies at a limited bandwidth over TCP: uvicorn on asyncio, hypercorn on trio."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.servers import RunningServer, hypercorn, uvicorn
from tests.servers.flow_app import BODY

APP = "tests.servers.flow_app:app"


@pytest.fixture(scope="module", params=["uvicorn", "hypercorn-trio"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    """One server for all tests."""
    log_file = tmp_path_factory.mktemp("server") / "log"
    with (uvicorn if request.param == "uvicorn" else hypercorn)(APP, log_file) as running:
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
    took_s = time.monotonic() - start
    assert response.content == BODY
    assert response.headers.get("content-length", "600000") == "600000"
    assert took_s > 0.5 - 0.01, "600 kB at 1 MB/s, 100 kB of it at once"


def test_an_upload_arrives_whole_and_not_before_its_time(client: httpx.Client) -> None:
    start = time.monotonic()
    response = client.post("/paced/upload", content=BODY)
    assert response.text == hashlib.sha256(BODY).hexdigest()
    assert time.monotonic() - start > 0.5 - 0.01


def test_a_head_has_the_length_and_no_body(client: httpx.Client) -> None:
    start = time.monotonic()
    for _ in range(3):
        response = client.head("/paced/one")
        assert response.headers["content-length"] == "600000"
        assert client.get("/state").status_code == 200, "the connection can be used further"
    assert time.monotonic() - start < 15


def test_other_traffic_is_not_held_up(client: httpx.Client, server: RunningServer) -> None:
    with ThreadPoolExecutor(8) as pool:
        slow = [pool.submit(httpx.get, f"{server.url}/paced/{kind}", timeout=30) for kind in ("one", "file")]
        answers = 0
        while not all(one.done() for one in slow):
            assert client.get("/state").status_code == 200
            answers += 1
    assert [one.result().content for one in slow] == [BODY] * 2
    assert answers > 10


def test_clients_that_hang_up_leave_nothing(client: httpx.Client, server: RunningServer) -> None:
    before = client.get("/state").json()

    async def storm() -> None:
        writers = []
        for n in range(40):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            kind = ("one", "stream", "file", "upload")[n % 4]
            head = f"POST /slow/upload HTTP/1.1\r\nHost: t\r\nContent-Length: {len(BODY)}\r\n\r\n"
            if kind == "upload":
                writer.write(head.encode() + BODY[:5000])
            else:
                writer.write(f"GET /slow/{kind} HTTP/1.1\r\nHost: t\r\n\r\n".encode())
                await reader.read(10)
            writers.append(writer)
        for writer in writers:
            writer.close()
            await writer.wait_closed()

    asyncio.run(storm())
    while True:  # the test fails by its timeout if something stays
        now: Any = client.get("/state").json()
        if not now["bodies"] and now["tasks"] <= before["tasks"] and not now["bytes"]:
            break
