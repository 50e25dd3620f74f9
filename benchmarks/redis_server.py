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

from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.stores.open import open_store

_TITLE = "uvicorn with Redis on loopback"
_OURS = ("FastAPI, ours, plain", "FastAPI, ours, burst")
_PEERS = ("FastAPI", "FastAPI, slowapi")
_COUNTED = ("cmdstat_evalsha", "cmdstat_eval", "cmdstat_fcall", "cmdstat_get", "cmdstat_ttl")
_COLUMNS = ("requests/s", "calls a request")


def redis() -> Section:
    """Ours and slowapi, which uses limits."""
    if not (shutil.which("wrk") and shutil.which("redis-server")):
        return _without("Not run: wrk or redis-server is not installed.")
    with server() as url:
        ours = _OURS if _has_store(url) else ()
        # One at a time: calls are counted for the whole server.
        measured = {name: _measured(name, url) for name in (*_PEERS, *ours)}
    rows: dict[str, tuple[float | None, ...]] = {**measured}
    rates = {name: rate for name, (rate, _) in measured.items()}
    goals: tuple[Goal, ...] = ()
    if ours:
        ratio = rates[ours[0]] / rates["FastAPI"]
        goals = (Goal("uvicorn with Redis, requests/s, plain / bare app", ratio, 0.6, at_least=True),)
    note = "" if ours else "Ours: the Redis store is not built yet."
    return Section("redis", _TITLE, _COLUMNS, rows, "FastAPI", goals, note, _COLUMNS[0])


def _measured(name: str, url: str) -> tuple[float, float]:
    """Requests a second, and calls of Redis for each."""
    with Redis.from_url(url) as client:
        before = _calls(client)
        rates = servers.throughput(servers.UVICORN, (name,), store=url)
        calls = _calls(client) - before
    served = rates[name] * servers.ROUNDS * servers.ROUND_S
    return rates[name], calls / served


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


def _has_store(url: str) -> bool:
    try:
        open_store(url).close()
    except StoreError:
        return False
    return True


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
