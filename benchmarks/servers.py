"""Whole servers driven by wrk: uvicorn and gunicorn, one worker each, on loopback."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple
from urllib.request import urlopen

from apps import PATH
from report import Goal, Section, without

HERE = Path(__file__).parent
CONNECTIONS = 32
ROUNDS = 7
ROUND_S = 1
_ASGI = (
    "bare", "floor", "ours, plain", "ours, burst", "FastAPI", "FastAPI, ours, plain", "FastAPI, ours, burst",
    "FastAPI, slowapi", "FastAPI, slowapi decorator", "FastAPI, fastapi-limiter",
)  # fmt: skip
_WSGI = (
    "bare", "floor", "ours, plain", "ours, burst", "Flask", "Flask, ours, plain", "Flask, ours, burst",
    "Flask, flask-limiter",
)  # fmt: skip


class Served(NamedTuple):
    """What a server did in a round.

    Attributes:
        rate: requests a second.
        counted: how far the counter went with each request.
    """

    rate: float
    counted: float


def uvicorn() -> Section:
    """ASGI apps."""
    rates = {name: served.rate for name, served in throughput(UVICORN, _ASGI).items()}
    goals = [
        Goal(
            f"uvicorn, requests/s, {form} / floor",
            rates[f"ours, {form}"] / rates["floor"],
            0.93,
            at_least=True,
        )
        for form in ("plain", "burst")
        if rates
    ]
    return _section("uvicorn", f"uvicorn, {CONNECTIONS} connections", rates, goals)


def gunicorn() -> Section:
    """WSGI apps, gunicorn's threads."""
    rates = {name: served.rate for name, served in throughput(GUNICORN, _WSGI).items()}
    return _section("gunicorn", f"gunicorn, {CONNECTIONS} connections", rates, [])


def throughput(
    command: Sequence[str],
    names: Sequence[str],
    store: str = "memory://",
    counter: Callable[[], int] = lambda: 0,
) -> dict[str, Served]:
    """What each app can do; the servers of all run, and are driven in turn.

    Empty when wrk is not installed.
    """
    if without("wrk"):
        return {}
    samples: dict[str, list[Served]] = {name: [] for name in names}
    with _all_served(command, names, store) as ports:
        for _ in range(ROUNDS):
            for name, port in ports.items():
                before = counter()
                rate, requests = drive(port, ROUND_S)
                samples[name].append(Served(rate, (counter() - before) / requests))
    return {name: Served(*map(median, zip(*served, strict=True))) for name, served in samples.items()}


def drive(port: int, seconds: float) -> tuple[float, int]:
    """Requests a second, and how many there were.

    Raises:
        RuntimeError: not every answer was a success.
    """
    url = f"http://127.0.0.1:{port}{PATH}"
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", url]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in said:
        raise RuntimeError(f"not all answers were successes: {said}")
    found = re.search(r"(\d+) requests in .*Requests/sec:\s*([\d.]+)", said, re.DOTALL)
    assert found, said  # noqa: S101 - wrk always says it
    return float(found[2]), int(found[1])


@contextmanager
def _all_served(command: Sequence[str], names: Sequence[str], store: str) -> Iterator[dict[str, int]]:
    """The port of each app; they stop at the end."""
    running: list[subprocess.Popen[bytes]] = []
    ports = {name: free_port() for name in names}
    try:
        for name, port in ports.items():
            environment = {**os.environ, "BENCH_APP": name, "BENCH_STORE": store}
            words = [word.format(port=port) for word in command]
            running.append(subprocess.Popen([sys.executable, "-m", *words], cwd=HERE, env=environment))
        for port in ports.values():
            wait_for(port)
            # gunicorn listens before its worker has loaded the app, and the queue answers when that is done.
            with urlopen(f"http://127.0.0.1:{port}{PATH}", timeout=60) as answer:
                answer.read()
        yield ports
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait(timeout=10)


UVICORN = (
    "uvicorn", "--factory", "apps:served_asgi", "--port={port}", "--log-level=warning", "--no-access-log",
)  # fmt: skip
GUNICORN = (
    "gunicorn", "apps:served_wsgi()", "--bind=127.0.0.1:{port}", "--threads=4", "--log-level=warning",
    "--worker-tmp-dir=/dev/shm",
)  # fmt: skip


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for(port: int, seconds: float = 60) -> None:
    """Until somebody listens.

    Raises:
        TimeoutError: nobody does.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError(f"nobody listens on port {port}")


def _section(name: str, title: str, rates: dict[str, float], goals: Sequence[Goal]) -> Section:
    rows: dict[str, tuple[float | None, ...]] = {subject: (rate,) for subject, rate in rates.items()}
    note = "One worker; wrk runs on the same machine. Ratios are to the floor."
    drawn, lacks = "requests/s" if rates else "", without("wrk")
    return Section(name, title, ("requests/s",), rows, "floor", tuple(goals), note, drawn, lacks)
