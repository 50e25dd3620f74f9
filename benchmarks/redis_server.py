"""The same servers on Redis (loopback), the round trips counted by Redis itself."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import servers
from redis import Redis
from report import Goal, Section, without

from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.stores.redis import RedisStore

_TITLE = "uvicorn with Redis on loopback"
_OURS = ("FastAPI, ours, plain", "FastAPI, ours, burst")
_PEERS = ("FastAPI", "FastAPI, slowapi", "FastAPI, fastapi-limiter")
_COLUMNS = ("requests/s", "round trips a request")
_REFUSALS = 2000


def redis() -> Section:
    """Ours, slowapi (which uses limits) and fastapi-limiter (which uses pyrate-limiter)."""
    lacks = without("wrk", "redis-server")
    if lacks:
        return Section("redis", _TITLE, _COLUMNS, {}, lacks=lacks)
    with server() as url, Redis.from_url(url) as client:
        served = servers.throughput(servers.UVICORN, (*_PEERS, *_OURS), url, lambda: _round_trips(client))
        trips = _trips_of_a_known_refusal(url, client)
    rows: dict[str, tuple[float | None, ...]] = {
        **served,
        "FastAPI": (served["FastAPI"].rate, None),
        "a refusal that is known, asked for again": (None, trips),
    }
    rates = {name: rate for name, (rate, _) in served.items()}
    goals = (
        *(
            Goal(f"uvicorn with Redis, {name} / bare app", rates[name] / rates["FastAPI"], 0.6, at_least=True)
            for name in _OURS
        ),
        Goal("Redis, round trips of a refusal that is known", trips, 0.01, unit=""),
    )
    note = "`FastAPI` is the app without a limiter. Requests that come together share a round trip."
    return Section("redis", _TITLE, _COLUMNS, rows, "FastAPI", goals, note, _COLUMNS[0])


def _round_trips(client: Redis) -> int:
    """What Redis has read from its sockets; commands that a script runs are not read."""
    reads: int = client.info("stats")["total_reads_processed"]
    return reads


def _trips_of_a_known_refusal(url: str, client: Redis) -> float:
    """Of one that is asked for again and again."""
    store = RedisStore(url, timeout=5)
    checks = [Check("refused", SlidingWindow(1, 3600), "refused|*")]
    store.take(checks)
    store.take(checks)
    before = _round_trips(client)
    for _ in range(_REFUSALS):
        store.take(checks)
    trips = (_round_trips(client) - before - 1) / _REFUSALS  # without that of the counting itself
    store.close()
    return trips


@contextmanager
def server(tool: Sequence[str] = ()) -> Iterator[str]:
    """The URL of an own redis-server that keeps nothing.

    Args:
        tool: what stands before its command, such as valgrind's.
    """
    port = servers.free_port()
    with tempfile.TemporaryDirectory(prefix="bench-redis-") as place:
        command = [
            *tool,
            "redis-server",
            "--port",
            str(port),
            "--save",
            "",
            "--appendonly",
            "no",
            "--dir",
            place,
        ]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            servers.wait_for(port)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.terminate()
            process.wait(timeout=10)
