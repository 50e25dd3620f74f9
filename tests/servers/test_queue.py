"""Requests that wait, over TCP: uvicorn on asyncio, hypercorn on trio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.servers import RunningServer, hypercorn, uvicorn

APP = "tests.servers.queue_app:app"


@pytest.fixture(params=["uvicorn", "hypercorn-trio"])
def server(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[RunningServer]:
    """A server of its own for each test."""
    serve = uvicorn(APP, tmp_path / "log") if request.param == "uvicorn" else hypercorn(APP, tmp_path / "log")
    with serve as running:
        yield running
        assert "Traceback" not in running.log()


def state(server: RunningServer) -> Any:
    return httpx.get(f"{server.url}/state", headers={"Connection": "close"}, timeout=15).json()


def settled(server: RunningServer, before: Any) -> Any:
    """The state once nothing of the storm is left; the test fails by its timeout if something stays."""
    while True:
        now = state(server)
        if not now["waiting"] and now["tasks"] <= before["tasks"] and not now["slots"] and not now["stays"]:
            return now


async def request(server: RunningServer, path: str) -> asyncio.StreamWriter:
    """Send a request and leave the connection open."""
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
    await writer.drain()
    return writer


async def hang_up(writers: list[asyncio.StreamWriter]) -> None:
    for writer in writers:
        writer.close()
        await writer.wait_closed()


async def status(server: RunningServer, path: str) -> tuple[int, str]:
    """Ask and read the whole answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n".encode())
    answer = (await reader.read()).decode("latin-1")
    await hang_up([writer])
    return int(answer.split()[1]), answer.lower()


def run(work: Callable[[], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        return await work()

    return asyncio.run(main())


def test_of_200_clients_those_that_fit_leave_in_order_evenly_spaced(server: RunningServer) -> None:
    before = state(server)

    async def storm() -> list[tuple[int, str]]:
        return await asyncio.gather(*(status(server, f"/render?{n}") for n in range(200)))

    answers = run(storm)
    after = settled(server, before)

    came = [(name, at) for name, at in after["arrivals"] if name]
    went = [(name, at) for name, at in after["starts"] if name]
    assert sorted({code for code, _ in answers}) == [200, 429]
    assert all("retry-after: " in answer for code, answer in answers if code == 429)
    places = [name for name, _ in came]
    in_order = sorted(went, key=lambda start: places.index(start[0]))
    span_s = came[-1][1] - came[0][1]
    assert 21 <= len(went) <= 32 + 10 * span_s
    assert len(went) == sum(code == 200 for code, _ in answers)
    # Each in its turn and never before its moment; the first one's is not before it came.
    assert all(at - came[0][1] > n * 0.1 - 0.001 for n, (_, at) in enumerate(in_order))
    assert after["threads"] == before["threads"]


def test_clients_that_hang_up_leave_the_queue_and_the_app_does_not_hear_of_them(
    server: RunningServer,
) -> None:
    before = state(server)

    async def storm() -> list[tuple[int, str]]:
        await status(server, "/render?first")
        leaving = [await request(server, f"/render?gone{n}") for n in range(8)]
        staying = [asyncio.create_task(status(server, f"/render?stay{n}")) for n in range(8)]
        while len([name for name, _ in (await asyncio.to_thread(state, server))["arrivals"] if name]) < 17:
            pass
        await hang_up(leaving[2:])
        answers = await asyncio.gather(*staying)
        await hang_up(leaving[:2])
        return answers

    answers = run(storm)
    after = settled(server, before)
    assert [code for code, _ in answers] == [200] * 8
    names = [name for name, _ in after["starts"] if name]
    assert len([name for name in names if name.startswith("stay")]) == 8
    assert names.index("stay0") < 9, "the others have moved up"


def test_no_slot_is_left_by_clients_that_hang_up_or_are_refused(server: RunningServer) -> None:
    before = state(server)

    async def storm() -> list[tuple[int, str]]:
        holding = [await request(server, f"/slow?{n}") for n in range(3)]
        while (await asyncio.to_thread(state, server))["slots"] < 3:
            pass
        refused = await asyncio.gather(*(status(server, "/slow?more") for _ in range(20)))
        await hang_up(holding)
        return refused

    refused = run(storm)
    assert {code for code, _ in refused} == {429}
    assert settled(server, before)["slots"] == 0

    async def again() -> list[tuple[int, str]]:
        return await asyncio.gather(*(status(server, f"/slow?{n}") for n in range(3)))

    assert [code for code, _ in run(again)] == [200] * 3
