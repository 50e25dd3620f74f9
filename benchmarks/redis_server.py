"""The same servers on Redis (loopback), the round trips counted by Redis itself."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import servers
from redis import Redis
from report import Goal, Section

_TITLE = "uvicorn with Redis on loopback"
_OURS = ("FastAPI, ours, plain", "FastAPI, ours, burst")
_PEERS = ("FastAPI", "FastAPI, slowapi")
_COUNTED = ("cmdstat_evalsha", "cmdstat_eval", "cmdstat_fcall", "cmdstat_get", "cmdstat_ttl")
_COLUMNS = ("requests/s", "calls a request")


def redis() -> Section:
    """Ours and slowapi, which uses limits."""
    if not (shutil.which("wrk") and shutil.which("redis-server")):
        return _without("Not run: wrk or redis-server is not installed.")
    with server() as url, Redis.from_url(url) as client:
        served = servers.throughput(servers.UVICORN, (*_PEERS, *_OURS), url, lambda: _calls(client))
    rows: dict[str, tuple[float | None, ...]] = {**served}
    rates = {name: rate for name, (rate, _) in served.items()}
    goals = tuple(
        Goal(f"uvicorn with Redis, {name} / bare app", rates[name] / rates["FastAPI"], 0.6, at_least=True)
        for name in _OURS
    )
    return Section("redis", _TITLE, _COLUMNS, rows, "FastAPI", goals, drawn=_COLUMNS[0])


def _calls(client: Redis) -> int:
    """Calls from outside: commands that a script runs are not counted for it."""
    stats = client.info("commandstats")
    names = (
        "cmdstat_evalsha",
        "cmdstat_eval",
        "cmdstat_fcall",
        "cmdstat_incrby",
        "cmdstat_ttl",
        "cmdstat_get",
    )
    return sum(stats[name]["calls"] for name in names if name in stats)


def _without(note: str) -> Section:
    return Section("redis", _TITLE, _COLUMNS, {}, note=note)


@contextmanager
def server() -> Iterator[str]:
    """The URL of an own redis-server that keeps nothing."""
    port = servers.free_port()
    with tempfile.TemporaryDirectory(prefix="bench-redis-") as place:
        command = ["redis-server", "--port", str(port), "--save", "", "--appendonly", "no", "--dir", place]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            servers.wait_for(port)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.terminate()
            process.wait(timeout=10)
