"""Messages of WebSockets over TCP: uvicorn with both of its libraries, hypercorn on trio."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from socket import SHUT_RDWR
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.servers import RunningServer, hypercorn, uvicorn

APP = "tests.servers.flow_app:app"
KINDS = ("uvicorn-websockets", "uvicorn-wsproto", "hypercorn-trio")


@pytest.fixture(scope="module", params=KINDS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    """One server for all tests; each uses a route of its own."""
    log_file = tmp_path_factory.mktemp("server") / "log"
    kind, _, library = request.param.partition("-")
    serve = uvicorn(APP, log_file, "--ws", library) if kind == "uvicorn" else hypercorn(APP, log_file)
    with serve as running:
        yield running
        assert "Traceback" not in running.log()


def state(server: RunningServer) -> Any:
    return httpx.get(f"{server.url}/state", headers={"Connection": "close"}, timeout=15).json()


def ended(server: RunningServer, path: str) -> Any:
    """The state once the app has seen a connection end; the test fails by its timeout if it never does."""
    while True:
        now = state(server)
        if path in [ended_path for ended_path, _ in now["ends"]]:
            return now


def live(server: RunningServer, path: str) -> ClientConnection:
    return connect(f"ws://127.0.0.1:{server.port}{path}", open_timeout=15, close_timeout=5)


def test_a_handshake_over_the_limit_is_refused_with_429(server: RunningServer) -> None:
    with live(server, "/once"):
        pass
    with pytest.raises(InvalidStatus) as refusal, live(server, "/once"):
        pass
    assert refusal.value.response.status_code == 429
    assert int(refusal.value.response.headers["Retry-After"]) > 3500


def test_messages_that_wait_come_in_order_none_lost_and_spaced(server: RunningServer) -> None:
    with live(server, "/delay") as connection:
        for n in range(15):
            connection.send(str(n) if n % 2 else str(n).encode())
        echoes = [json.loads(connection.recv(timeout=15)) for _ in range(15)]
    assert [text for text, _ in echoes] == [str(n) if n % 2 else len(str(n)) for n in range(15)]
    assert echoes[-1][1] - echoes[0][1] > 10 / 20 - 0.01, "5 at once, then one each 50 ms"


def test_messages_are_dropped_and_the_connection_lives(server: RunningServer) -> None:
    with live(server, "/drop") as connection:
        for n in range(20):
            connection.send(str(n))
        echoes = [json.loads(connection.recv(timeout=15))[0] for _ in range(5)]
        assert echoes == ["0", "1", "2", "3", "4"]
        connection.ping().wait(timeout=15)
    now = ended(server, "/drop")
    assert now["counts"]["WS /drop"]["messages_dropped"] == 15


def test_the_connection_is_closed_with_1013(server: RunningServer) -> None:
    with live(server, "/close") as connection:
        for n in range(6):
            connection.send(str(n))
        for _ in range(5):
            connection.recv(timeout=15)
        with pytest.raises(ConnectionClosed) as end:
            connection.recv(timeout=15)
    assert end.value.rcvd is not None
    assert (end.value.rcvd.code, end.value.rcvd.reason) == (1013, "rate limit")
    now = ended(server, "/close")
    assert ["/close", 1013] in now["ends"]
    assert now["counts"]["WS /close"]["connections_closed"] == 1


def test_clients_that_hang_up_while_their_message_waits_leave_nothing(server: RunningServer) -> None:
    before = state(server)
    with ExitStack() as open_ones:
        connections = [open_ones.enter_context(live(server, "/delay")) for _ in range(20)]
        for connection in connections:
            for n in range(7):
                connection.send(str(n))
        for connection in connections:
            connection.recv(timeout=15)
            connection.socket.shutdown(SHUT_RDWR)
    while (now := state(server))["tasks"] > before["tasks"] or len(now["ends"]) < len(before["ends"]) + 20:
        pass
