"""Soak and attack: the ASGI middleware at full speed under clients, paths and headers that are made up.

Both run in-process, with the rules of a small app, the memory store as it is by default and the system's
clock. They are apart from the other benchmarks because they take minutes.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable
from statistics import median
from typing import Any, TypeAlias

import calls
import psutil
from apps import bare_asgi
from report import Goal, Section

from ratelimit_middleware.asgi import RateLimitMiddleware

_RULES = {
    "version": 1,
    "limits": {
        "/items/{number}": "100/minute",
        "/bursts/{number}": "100/minute burst 20",
        "/search": ["30/minute per header:X-API-Key", "300/minute per ip"],
        "POST /login": "5/minute",
    },
    "default": "300/minute",
}
_BATCH = 1000
_ATTACKERS = 1_000_000
_PARTS = 10
_CLIENTS = 1000
_KNOWN_REQUESTS = 4000
"""Of normal ones in each part: each client one of each kind, so that none meets its limit."""
_VICTIM = "192.0.2.1"
_LOGINS, _MINUTE_NS = 5, 60_000_000_000

_Request: TypeAlias = tuple[str, str, str, bytes]
Ask: TypeAlias = Callable[[str, str, str, bytes], int]


def _asking() -> Ask:
    """One request by (method, path, address, API key); gives the status."""
    app = RateLimitMiddleware(bare_asgi, _RULES)
    statuses: deque[int] = deque(maxlen=1)

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    def ask(method: str, path: str, address: str, api_key: bytes) -> int:
        headers = [*calls.SCOPE["headers"], (b"x-api-key", api_key)]
        scope = {**calls.SCOPE, "method": method, "path": path, "client": (address, 1), "headers": headers}
        try:
            app(scope, calls.receive, send).send(None)
        except StopIteration:
            return statuses[-1]
        raise RuntimeError("the app waits for something")

    return ask


def _made_up(chance: random.Random) -> _Request:
    """A request that nobody has made before."""
    number = chance.getrandbits(32)
    address = f"{number >> 24}.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    path = chance.choice((f"/items/{number}", f"/bursts/{number}", "/search", f"/{number:x}"))
    return "GET", path, address, b"%x" % number


def _known(turn: int) -> _Request:
    """A request of the same kinds, of one of the usual clients to one of the usual paths."""
    client = turn % _CLIENTS
    path = ("/items/7", "/bursts/7", "/search", "/about")[turn // _CLIENTS % 4]
    return "GET", path, f"10.1.{client >> 8}.{client & 255}", b"%x" % client


def soak(minutes: float) -> Section:
    """At full speed: memory and latency stay level."""
    ask, chance, process = _asking(), random.Random(1), psutil.Process()  # noqa: S311 - a load, no secret
    rss: list[float] = []
    p99: list[float] = []
    requests = 0
    for _ in range(max(3, round(minutes))):
        latencies: list[int] = []
        end_ns = time.perf_counter_ns() + int(minutes * 60e9 / max(3, round(minutes)))
        while time.perf_counter_ns() < end_ns:
            for request in [_made_up(chance) for _ in range(_BATCH)]:
                start_ns = time.perf_counter_ns()
                ask(*request)
                latencies.append(time.perf_counter_ns() - start_ns)
            rss.append(process.memory_info().rss / 1e6)
            # What the measuring itself holds must not grow through a minute.
            del latencies[: -_BATCH * 50]
            requests += _BATCH
        p99.append(sorted(latencies)[int(len(latencies) * 0.99)] / 1000)
    half = rss[len(rss) // 2 :]
    middle = half[len(half) // 2]
    off = max(abs(at / middle - 1) for at in half)
    rows: dict[str, tuple[float | None, ...]] = {
        f"minute {number}": (at, rss[(number * len(rss) - 1) // len(p99)]) for number, at in enumerate(p99, 1)
    }
    goals = (
        Goal("soak, memory of the last half, off its middle by", off, 0.05),
        Goal("soak, p99 of the last minute / the second", p99[-1] / p99[1], 1.5),
    )
    note = f"{requests:,} requests, each from a client of its own, in {minutes:g} minutes."
    return Section("soak", "Soak", ("p99, µs", "memory, MB"), rows, goals=goals, note=note)


def attack(_: float) -> Section:
    """A million made-up clients; a victim keeps its limit, and others their speed.

    What is compared is the requests a second that go through the middleware, on top of an app that does
    next to nothing. Normal are requests of the same four kinds by clients and to paths that are known, all
    of them admitted. Under attack each request has an address, a path or a key that was never seen before;
    the store is soon full, and from then on nearly all are refused, with the body that a refusal has. So an
    attack pays for everything that is made or looked up anew, and for the refusal, but not for the app.
    Both run in turn, each with a middleware of its own.
    """
    normal, ask = _asking(), _asking()
    chance, process = random.Random(1), psutil.Process()  # noqa: S311
    admitted_ns: list[int] = []

    def attacked(turn: int) -> _Request:
        if not turn % 100 and ask("POST", "/login", _VICTIM, b"key") == 200:
            admitted_ns.append(time.monotonic_ns())
        return _made_up(chance)

    rates: list[tuple[float, float]] = []
    memory: list[int] = []
    for _part in range(_PARTS):
        rates.append(
            (
                _rate(normal, _known, _KNOWN_REQUESTS, frozenset({200})),
                _rate(ask, attacked, _ATTACKERS // _PARTS),
            )
        )
        memory.append(process.memory_info().rss)
    usual = median(known for known, _ in rates)
    half, rest = (
        median(made_up for _, made_up in part) for part in (rates[: _PARTS // 2], rates[_PARTS // 2 :])
    )
    at_half, at_end = memory[_PARTS // 2 - 1], memory[-1]
    in_a_minute = max(sum(start <= at < start + _MINUTE_NS for at in admitted_ns) for start in admitted_ns)
    rows: dict[str, tuple[float | None, ...]] = {
        f"normal: {_CLIENTS:,} clients, 4 paths": (usual, None),
        "first half of the attack": (half, at_half / 1e6),
        "second half": (rest, at_end / 1e6),
    }
    goals = (
        Goal("attack, throughput / normal", min(half, rest) / usual, 0.5, at_least=True),
        Goal("attack, memory at the end / in the middle", at_end / at_half, 1.05),
        Goal("attack, logins of the victim in any minute", in_a_minute, _LOGINS, unit=""),
    )
    note = (
        f"{_ATTACKERS:,} requests, each from a client of its own to a path or with a key of its own; nearly"
        " all are refused. Normal ones are of the same kinds, of known clients to known paths, all admitted."
    )
    return Section("attack", "Attack", ("requests/s", "memory, MB"), rows, goals=goals, note=note)


def _rate(
    ask: Ask, make: Callable[[int], _Request], requests: int, wanted: frozenset[int] = frozenset({200, 429})
) -> float:
    """Requests a second; what making them takes does not count.

    Raises:
        RuntimeError: an answer is none of those wanted.
    """
    spent_ns = 0
    for first in range(0, requests, _BATCH):
        batch = [make(turn) for turn in range(first, first + _BATCH)]
        start_ns = time.perf_counter_ns()
        statuses = [ask(*request) for request in batch]
        spent_ns += time.perf_counter_ns() - start_ns
        if not wanted.issuperset(statuses):
            raise RuntimeError(f"answers {set(statuses) - wanted} among those of {wanted}")
    return requests / spent_ns * 1e9
