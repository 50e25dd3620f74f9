"""When a server stops, the store that the rules name has no connection and no task left."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.redis_server import RedisServer
from tests.servers import ROOT, RunningServer, hypercorn, uvicorn

_Serve = Callable[..., AbstractContextManager[RunningServer]]
SERVERS: list[Any] = [
    pytest.param(uvicorn, (), id="uvicorn"),
    pytest.param(hypercorn, ("--worker-class", "asyncio"), id="hypercorn"),
]


@pytest.mark.parametrize(("serve", "options"), SERVERS)
def test_after_the_lifespan_nothing_is_left(
    tmp_path: Path,
    redis_server: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
    serve: _Serve,
    options: tuple[str, ...],
) -> None:
    monkeypatch.setenv("REDIS_URL", redis_server.url)
    with (
        serve("tests.servers.closing_app:app", tmp_path / "log", *options) as server,
        httpx.Client(base_url=server.url, timeout=15) as client,
    ):
        assert [client.get(path).status_code for path in ("/", "/slots", "/")] == [200] * 3
        now = client.get("/left").text
    assert "connections=0" not in now
    assert "at the end: connections=0 tasks=0" in server.log()


def test_a_wsgi_process_closes_when_it_ends(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDIS_URL", redis_server.url)
    command = [sys.executable, "-m", "tests.servers.closing_app"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["while it runs: connections=1", "at exit: connections=0"]
