"""A primary, its replica and a sentinel of the tests' own, on this host; and two that speak TLS."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from redis import Redis
from redis.exceptions import RedisError, ResponseError

from tests.redis_cluster import free_ports, wait_until
from tests.redis_server import RedisServer, find_server, make_certificate

__all__ = ["Sentinels", "sentinel_with_tls"]

_PASSWORD = "watch"  # noqa: S105 - the tests' own


class Sentinels:
    """The sentinel calls the service `limits`, wants a password, and holds a primary for dead after 0.3 s.

    Args:
        folder: for their files.
        program: what to start; Redis if there is one.
    """

    def __init__(self, folder: Path, program: str | None = None) -> None:
        self._folder, self._program = folder, program or str(find_server())
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self.first, self.second, self.port, self._nobody = free_ports(4)
        self.start(self.first)
        self.start(self.second, "--replicaof", f"127.0.0.1 {self.first}")
        wait_until(lambda: b"master_link_status:up" in self.ask(self.second, "INFO", "replication"))
        config = folder / "sentinel.conf"
        config.write_text(
            f"port {self.port}\nbind 127.0.0.1\ndir {folder}\nrequirepass {_PASSWORD}\n"
            f"sentinel monitor limits 127.0.0.1 {self.first} 1\n"
            "sentinel down-after-milliseconds limits 300\nsentinel failover-timeout limits 2000\n"
        )
        self._run(self.port, str(config), "--sentinel")
        wait_until(lambda: self.ask(self.port, "SENTINEL", "REPLICAS", "limits"))

    @property
    def url(self) -> str:
        """The sentinel, behind one that is not there."""
        hosts = f"127.0.0.1:{self._nobody},127.0.0.1:{self.port}"
        return f"redis+sentinel://{hosts}/limits/0?sentinel_password={_PASSWORD}"

    @property
    def primary(self) -> int:
        """The port of the server that the sentinel holds for the primary."""
        return int(self.ask(self.port, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "limits")[1])

    def start(self, port: int, *options: str) -> None:
        """Start a server, and return when it answers."""
        self._run(
            port,
            "--port",
            str(port),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--repl-diskless-sync-delay",
            "0",
            *options,
        )

    def kill(self, port: int) -> None:
        """End a server at once (SIGKILL)."""
        process = self._processes.pop(port)
        process.kill()
        process.wait()

    def send_signal(self, port: int, number: int) -> None:
        """Stop a process for a while, or let it go on."""
        self._processes[port].send_signal(number)

    def fail_over(self) -> None:
        """Have the replica promoted while both live; the old primary hears of it some seconds later."""
        wait_until(self._is_promoting)
        wait_until(lambda: self.primary == self.second)

    def _is_promoting(self) -> bool:
        try:
            return bool(self.ask(self.port, "SENTINEL", "FAILOVER", "limits"))
        except ResponseError as error:
            return str(error).startswith("INPROG")  # else it does not know the replica well enough yet

    def stop(self) -> None:
        """End them all."""
        for port in [*self._processes]:
            self.kill(port)

    def ask(self, port: int, *words: Any) -> Any:
        """What a server or the sentinel answers, as it came."""
        password = _PASSWORD if port == self.port else None
        with Redis(port=port, password=password, single_connection_client=True) as client:
            client.response_callbacks.clear()
            return client.execute_command(*words)

    def _run(self, port: int, *command: str) -> None:
        null = subprocess.DEVNULL
        whole = [self._program, *command, "--dir", str(self._folder)]
        self._processes[port] = subprocess.Popen(whole, stdout=null, stderr=null)
        wait_until(lambda: self._answers(port))

    def _answers(self, port: int) -> bool:
        try:
            return bool(self.ask(port, "PING"))
        except Exception:  # noqa: BLE001 - it starts
            return False


@contextmanager
def sentinel_with_tls(folder: Path) -> Iterator[str]:
    """A primary and a sentinel that speak TLS alone: their URL, without whom to trust, while they run."""
    certificate, options = make_certificate(folder)
    options += ["--tls-ca-cert-file", str(certificate)]
    primary, port = free_ports(2)
    config = folder / "sentinel.conf"
    config.write_text(f"sentinel monitor limits 127.0.0.1 {primary} 1\n")
    command = [str(find_server()), str(config), "--sentinel", "--port", "0", "--tls-port", str(port)]
    command += ["--bind", "127.0.0.1", "--tls-replication", "yes", "--dir", str(folder), *options]
    server = RedisServer(folder, "--tls-port", str(primary), *options)
    null = subprocess.DEVNULL
    sentinel = subprocess.Popen(command, stdout=null, stderr=null)
    try:
        wait_until(lambda: _has_reached(port, certificate))
        yield f"rediss+sentinel://127.0.0.1:{port}/limits"
    finally:
        sentinel.kill()
        sentinel.wait()
        server.kill()


def _has_reached(port: int, certificate: Path) -> bool:
    """Whether the sentinel answers and has heard of its primary."""
    try:
        with Redis("127.0.0.1", port, ssl=True, ssl_ca_certs=str(certificate)) as client:
            return not client.sentinel_master("limits")["is_disconnected"]
    except RedisError:
        return False  # it starts
