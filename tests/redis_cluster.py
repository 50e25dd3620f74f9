"""A Redis Cluster of the tests' own: three primaries on this host, started when it is needed."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from redis import Redis

from tests.redis_server import find_server

__all__ = ["ClusterNode", "RedisCluster", "free_ports", "wait_until"]

_SLOTS = 16384


def free_ports(count: int) -> list[int]:
    """Ports that nobody uses."""
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports


class ClusterNode:
    """One server process of a cluster."""

    def __init__(self, folder: Path, options: tuple[str, ...], program: str) -> None:
        self.port, bus = free_ports(2)
        self._command = [program, "--port", str(self.port), "--cluster-port", str(bus)]
        self._command += ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", str(folder)]
        self._command += ["--cluster-enabled", "yes", "--cluster-config-file", f"nodes-{self.port}.conf"]
        self._command += ["--cluster-node-timeout", "1000", *options]
        self.bus = bus
        self.process: subprocess.Popen[bytes]
        self.start()

    def start(self) -> None:
        """Start it, and return when it answers."""
        null = subprocess.DEVNULL
        self.process = subprocess.Popen(self._command, stdout=null, stderr=null)
        wait_until(self._answers)
        self.id = self.ask("CLUSTER", "MYID").decode()

    def ask(self, *words: Any) -> Any:
        """What it answers to a command, as it came."""
        with Redis(port=self.port, single_connection_client=True) as client:
            client.response_callbacks.clear()
            return client.execute_command(*words)

    def state(self) -> dict[str, str]:
        """CLUSTER INFO."""
        return dict(line.split(":") for line in self.ask("CLUSTER", "INFO").decode().split())

    def _answers(self) -> bool:
        try:
            return bool(self.ask("PING"))
        except Exception:  # noqa: BLE001 - it starts
            return False


class RedisCluster:
    """Three primaries, each with a third of the slots.

    Args:
        folder: for their files.
        options: more settings of each server, as on the command line.
        size: number of servers.
        program: what to start; Redis if there is one.
    """

    def __init__(self, folder: Path, *options: str, size: int = 3, program: str | None = None) -> None:
        self._folder, self._options = folder, options
        program = program or str(find_server())
        self.nodes = [ClusterNode(folder, options, program) for _ in range(size)]
        share = -(-_SLOTS // size)
        for number, node in enumerate(self.nodes):
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            last = min((number + 1) * share, _SLOTS) - 1
            node.ask("CLUSTER", "ADDSLOTSRANGE", number * share, last)
            self._join(node)
        self.wait()

    def wait(self) -> None:
        """Return when all know each other and serve."""
        wait_until(lambda: all(self._is_ready(node) for node in self.nodes))

    @property
    def url(self) -> str:
        """Where it is: all of its servers."""
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def owner(self, slot: int) -> ClusterNode:
        """Who has the slot."""
        for first, last, primary, *_ in self.nodes[0].ask("CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return next(node for node in self.nodes if node.port == primary[1])
        raise LookupError(slot)

    @contextmanager
    def moving(self, slot: int, target: ClusterNode) -> Iterator[ClusterNode]:
        """While the slot moves: gives its old owner; at the end its last keys go, then the slot."""
        source = self.owner(slot)
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)
        yield source
        while keys := source.ask("CLUSTER", "GETKEYSINSLOT", slot, 100):
            source.ask("MIGRATE", "127.0.0.1", target.port, "", 0, 1000, "KEYS", *keys)
        for node in (target, source, *self.nodes):
            node.ask("CLUSTER", "SETSLOT", slot, "NODE", target.id)

    def stop(self) -> None:
        """End them all."""
        for node in self.nodes:
            node.process.kill()
            node.process.wait()

    def _join(self, node: ClusterNode) -> None:
        first = self.nodes[0]
        if node is not first:
            node.ask("CLUSTER", "MEET", "127.0.0.1", first.port, first.bus)

    def _is_ready(self, node: ClusterNode) -> bool:
        state = node.state()
        is_whole = state["cluster_slots_ok"] == str(_SLOTS) and state["cluster_state"] == "ok"
        return is_whole and int(state["cluster_known_nodes"]) == len(self.nodes)


def wait_until(is_so: Any) -> None:
    """Return when it is so."""
    for _ in range(1500):
        if is_so():
            return
        time.sleep(0.01)
    raise RuntimeError("the servers are not ready")
