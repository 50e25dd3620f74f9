"""Several workers, one limit: real servers with the shared store."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.servers import gunicorn, uvicorn

CLIENTS, EACH = 16, 125


@pytest.fixture(autouse=True)
def _store_of_this_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARED_STORE_URL", f"shared://{tmp_path}/limits")


def ask(port: int) -> Counter[tuple[int, bool]]:
    """One client's requests, a new connection for every fifth, so that it meets all workers."""
    answers: Counter[tuple[int, bool]] = Counter()
    for _ in range(EACH // 5):
        connection = HTTPConnection("127.0.0.1", port, timeout=20)
        for _ in range(5):
            connection.request("GET", "/")
            response = connection.getresponse()
            response.read()
            answers[response.status, response.headers["RateLimit"] is not None] += 1
        connection.close()
    return answers


def all_answers(port: int) -> dict[tuple[int, bool], int]:
    """2,000 requests from 16 clients at once: by status, and whether they tell what is left."""
    with ThreadPoolExecutor(CLIENTS) as clients:
        return dict(sum(clients.map(ask, [port] * CLIENTS), Counter()))


EXACTLY = {(200, True): 100, (429, True): CLIENTS * EACH - 100}


@pytest.mark.parametrize("options", [(), ("--preload",)], ids=["forked", "preloaded"])
def test_gunicorn_with_4_workers_admits_exactly_the_limit(tmp_path: Path, options: tuple[str, ...]) -> None:
    with gunicorn(
        "tests.servers.shared_wsgi_app:app", tmp_path / "log", "--workers", "4", *options
    ) as server:
        assert all_answers(server.port) == EXACTLY, server.log()
        assert server.log().count("Booting worker") == 4


def test_over_4_workers_no_more_requests_are_in_progress_than_slots(tmp_path: Path) -> None:
    """Of twelve at once the three that got in wait at a gate until the nine others have their refusal."""
    gate = tmp_path / "open"

    def enter(port: int, counted: Counter[int]) -> None:
        connection = HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request("GET", f"/gate?{gate}")
        counted[connection.getresponse().status] += 1
        connection.close()
        if counted[429] == 9:
            gate.touch()

    with gunicorn("tests.servers.shared_wsgi_app:app", tmp_path / "log", "--workers", "4") as server:
        counted: Counter[int] = Counter()
        with ThreadPoolExecutor(12) as clients:
            list(clients.map(lambda _: enter(server.port, counted), range(12)))
        assert counted == {200: 3, 429: 9}, server.log()


def test_uvicorn_with_4_workers_admits_exactly_the_limit(tmp_path: Path) -> None:
    quiet = ("--no-access-log", "--workers", "4")
    with uvicorn("tests.servers.shared_asgi_app:app", tmp_path / "log", *quiet) as server:
        assert all_answers(server.port) == EXACTLY, server.log()
        assert server.log().count("Started server process") == 4
