"""Soak and attack: the ASGI middleware at full speed under clients, paths and headers that are made up.

Both run in-process, with the rules of a small app, the memory store as it is by default and the system's
clock. They are apart from the other benchmarks because they take minutes.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable
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
    """A million made-up clients; a victim keeps its limit, and others their speed."""
    ask, chance, process = _asking(), random.Random(1), psutil.Process()  # noqa: S311
    normal = _rate(ask, lambda turn: ("GET", "/items/7", f"10.1.0.{turn % 250}", b"key"), 50_000)
    before = process.memory_info().rss
    admitted_ns: list[int] = []

    def attacked(turn: int) -> _Request:
        if not turn % 100 and ask("POST", "/login", _VICTIM, b"key") == 200:
            admitted_ns.append(time.monotonic_ns())
        return _made_up(chance)

    half = _rate(ask, attacked, _ATTACKERS // 2)
    at_half = process.memory_info().rss
    rest = _rate(ask, attacked, _ATTACKERS // 2)
    at_end = process.memory_info().rss
    in_a_minute = max(sum(start <= at < start + _MINUTE_NS for at in admitted_ns) for start in admitted_ns)
    rows: dict[str, tuple[float | None, ...]] = {
        "normal: 250 clients, one path": (normal, before / 1e6),
        "first half of the attack": (half, at_half / 1e6),
        "second half": (rest, at_end / 1e6),
    }
    goals = (
        Goal("attack, throughput / normal", min(half, rest) / normal, 0.5, at_least=True),
        Goal("attack, memory at the end / in the middle", at_end / at_half, 1.05),
        Goal("attack, logins of the victim in any minute", in_a_minute, _LOGINS, unit=""),
    )
    note = f"{_ATTACKERS:,} requests, each from a client of its own to a path or with a key of its own."
    return Section("attack", "Attack", ("requests/s", "memory, MB"), rows, goals=goals, note=note)


def _rate(ask: Ask, make: Callable[[int], _Request], requests: int) -> float:
    """Requests a second; what making them takes does not count."""
    spent_ns = 0
    for first in range(0, requests, _BATCH):
        batch = [make(turn) for turn in range(first, first + _BATCH)]
        start_ns = time.perf_counter_ns()
        for request in batch:
            ask(*request)
        spent_ns += time.perf_counter_ns() - start_ns
    return requests / spent_ns * 1e9
