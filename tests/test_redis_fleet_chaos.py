"""Whole middlewares while a primary behind sentinels dies, and while slots of a cluster move or servers stop.

As in test_redis_chaos: nobody gets a 500, more than the policy says or a long wait, and it goes on by itself.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeAlias

import pytest

from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.stores._redis_keys import TaggedKeys
from tests.redis_cluster import RedisCluster, wait_until
from tests.redis_hosts import Host, Machine, asgi_host, wsgi_host
from tests.redis_sentinel import Sentinels
from tests.redis_server import require_server

LIMIT, SHARE, FAILURES = 20, 10, 5
TIMEOUT_MS, MORE_MS = 200, 100
PATIENT_MS = 5000  # where nothing is to go unanswered, also on a busy machine
CLIENT = "1.2.3.4"

StartHost: TypeAlias = Callable[..., Host]


@pytest.fixture
def sentinels(tmp_path: Path) -> Iterator[Sentinels]:
    require_server()
    sentinels = Sentinels(tmp_path)
    yield sentinels
    sentinels.stop()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    require_server()
    cluster = RedisCluster(tmp_path_factory.mktemp("cluster"), "--cluster-require-full-coverage", "no")
    yield cluster
    cluster.stop()


@pytest.fixture(params=[asgi_host, wsgi_host], ids=["asgi", "wsgi"])
def start_host(request: pytest.FixtureRequest) -> Iterator[StartHost]:
    """A host with these rules, one of two; none of its requests may have been held up."""
    hosts: list[tuple[Host, int]] = []
    with Machine() as machine:

        def start(url: str, timeout_ms: int = TIMEOUT_MS, **rules: Any) -> Host:
            own = {"prefix": f"{token_hex(4)}:", "timeout": f"{timeout_ms}ms"}
            store = {"url": url, **own, "expected_workers": LIMIT // SHARE}
            hosts.append((request.param({"store": store, **rules}, ManualClock(), machine), timeout_ms))
            return hosts[-1][0]

        yield start
    for host, timeout_ms in hosts:
        host.close()
        assert 1000 * max(host.waits) < timeout_ms + MORE_MS


def test_a_failover_by_sentinels_is_the_policy_until_the_new_primary_counts(
    sentinels: Sentinels, start_host: StartHost
) -> None:
    """One rule falls back, the other one denies; nothing is restarted."""
    deny = {"limit": f"{LIMIT}/hour", "on_error": "deny"}
    host = start_host(sentinels.url, default=f"{LIMIT}/hour", limits={"/login": deny})
    assert host.ask(5) == host.ask(5, "/login") == [200] * 5
    sentinels.kill(sentinels.first)
    host.wait_for(answering=False)
    assert host.ask(SHARE + 5).count(429) >= 5
    assert host.ask(5, "/login") == [503] * 5
    wait_until(lambda: sentinels.primary == sentinels.second)
    host.wait_for(answering=True)
    host.ask(LIMIT + 1)
    assert host.ask(LIMIT + 1, "/login").count(429) >= 1
    assert sentinels.ask(sentinels.second, "DBSIZE") == 2
    assert set(host.statuses) == {200, 429, 503}
    # Two whole limits if the replica had not heard of the first five each, and once the share of a process.
    assert host.statuses.count(200) <= 2 * (LIMIT + 5) + SHARE


def test_a_sentinel_that_stands_still_costs_no_request_while_the_primary_answers(
    sentinels: Sentinels, start_host: StartHost
) -> None:
    """Each second a request asks it in vain, for half its time, and the primary that is known afterwards."""
    host = start_host(sentinels.url, 1000, default="100000/hour")
    assert host.ask(1) == [200]
    sentinels.send_signal(sentinels.port, signal.SIGSTOP)
    try:
        wait_until(lambda: host.ask(1) == [200] and max(host.waits) > 0.4)
    finally:
        sentinels.send_signal(sentinels.port, signal.SIGCONT)
    assert host.registry.store.health().errors == 0


def test_a_slot_that_moves_under_load_costs_no_request_and_no_permit(
    cluster: RedisCluster, start_host: StartHost
) -> None:
    many = 2000
    host = start_host(cluster.url, PATIENT_MS, default=f"{many}/hour")
    host.ask(1)
    keys = TaggedKeys("")
    slot = keys.slot(keys.key(f"default|{CLIENT}"))

    def move() -> None:
        for _ in range(6):
            owner = cluster.owner(slot)
            with cluster.moving(slot, next(node for node in cluster.nodes if node is not owner)):
                so_far = len(host.statuses)
                wait_until(lambda so_far=so_far: len(host.statuses) > so_far)

    mover = threading.Thread(target=move)
    mover.start()
    while mover.is_alive() or len(host.statuses) < many:
        host.ask(20)
    host.ask(1)
    assert host.registry.store.health().errors == 0
    assert host.statuses.count(200) == many
    assert set(host.statuses) == {200, 429}


def test_a_server_of_a_cluster_that_stands_still_is_the_policy_for_its_own_clients_only(
    cluster: RedisCluster, start_host: StartHost
) -> None:
    """The others go on to be counted there: they get the whole limit, twice the share of a process."""
    host = start_host(cluster.url, default=f"{LIMIT}/hour")
    keys = TaggedKeys("")
    owners = {f"10.0.0.{n}": cluster.owner(keys.slot(keys.key(f"default|10.0.0.{n}"))) for n in range(12)}
    still = owners["10.0.0.0"]
    assert host.ask(1) == [200]
    still.process.send_signal(signal.SIGSTOP)
    try:
        for client in [client for client, owner in owners.items() if owner is still] * 2:
            host.ask(FAILURES, client=client)
        assert host.registry.store.health().open_since_ns is not None
        served = {client: host.ask(LIMIT + 1, client=client).count(200) for client in owners}
    finally:
        still.process.send_signal(signal.SIGCONT)
    cluster.wait()
    for client, owner in owners.items():
        assert not served[client] if owner is still else SHARE < served[client] <= LIMIT + SHARE
    host.wait_for(answering=True, clients=["10.0.0.0"])


def test_servers_of_a_cluster_that_stand_still_hold_no_request_up(
    cluster: RedisCluster, start_host: StartHost
) -> None:
    """Limits of a client, and one for all: most requests need two servers, of which only one is left."""
    host = start_host(cluster.url, always=["1000/hour per global"], default=f"{LIMIT}/hour")
    clients = [f"10.0.0.{number}" for number in range(30)]

    def ask_all() -> list[int]:
        return [status for client in clients for status in host.ask(2, client=client)]

    ask_all()
    with ExitStack() as stopped:
        for node in cluster.nodes[:2]:
            node.process.send_signal(signal.SIGSTOP)
            stopped.callback(node.process.send_signal, signal.SIGCONT)
        for _ in range(3):
            host.clock.advance(2)
            assert set(ask_all()) <= {200, 429}
    cluster.wait()
    host.wait_for(answering=True, clients=clients)
    assert set(ask_all()) <= {200, 429}
    assert host.registry.store.health().errors > 0
