"""Real servers in processes of their own."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class RunningServer:
    """A server that answers.

    Attributes:
        port: its port on 127.0.0.1.
        log_file: what it has written so far.
    """

    port: int
    log_file: Path

    @property
    def url(self) -> str:
        """Its base address."""
        return f"http://127.0.0.1:{self.port}"

    def log(self) -> str:
        """What it has written so far."""
        return self.log_file.read_text()


@contextmanager
def uvicorn(app: str, log_file: Path, *options: str) -> Iterator[RunningServer]:
    """Serve an ASGI app (`module:name`) while the block runs."""
    port = _free_port()
    command = ["uvicorn", "--host", "127.0.0.1", "--port", str(port), "--timeout-graceful-shutdown", "1"]
    with _running([*command, *options, app], port, log_file) as server:
        yield server


@contextmanager
def hypercorn(app: str, log_file: Path, *options: str) -> Iterator[RunningServer]:
    """Serve an ASGI app (`module:name`) on trio while the block runs."""
    port = _free_port()
    command = ["hypercorn", "--bind", f"127.0.0.1:{port}", "--worker-class", "trio", "--workers", "0"]
    with _running([*command, "--graceful-timeout", "1", *options, app], port, log_file) as server:
        yield server


@contextmanager
def gunicorn(app: str, log_file: Path, *options: str) -> Iterator[RunningServer]:
    """Serve a WSGI app (`module:name`) by one worker with eight threads while the block runs."""
    port = _free_port()
    command = ["gunicorn", "--bind", f"127.0.0.1:{port}", "--threads", "8", "--graceful-timeout", "1"]
    with _running([*command, *options, app], port, log_file) as server:
        yield server


@contextmanager
def _running(command: list[str], port: int, log_file: Path) -> Iterator[RunningServer]:
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *command], cwd=ROOT, stdout=log, stderr=subprocess.STDOUT
        )
    server = RunningServer(port, log_file)
    try:
        _wait_until_it_listens(process, server)
        yield server
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_it_listens(process: subprocess.Popen[bytes], server: RunningServer) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", server.port)) == 0:
                return
        time.sleep(0.02)  # paces the attempts; the deadline is what counts
    raise RuntimeError(f"the server did not start:\n{server.log()}")
