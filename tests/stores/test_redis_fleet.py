"""Many hosts and one limit."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.stores.leased import LeasedStore
from ratelimit_middleware.stores.redis import RedisStore
from tests.redis_server import RedisServer
from tests.stores.lease_worker import ASK, LEASE, PREFIX
from tests.stores.redis_worker import THOUSAND

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def admitted(redis_server: RedisServer) -> Counter[str]:
    """What 4 processes with 50 clients each get of each limit."""
    command = [sys.executable, "-m", "tests.stores.redis_worker", redis_server.url]
    workers = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    together: Counter[str] = Counter()
    try:
        for worker in workers:
            together.update(json.loads(worker.communicate(timeout=50)[0]))
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    return together


@pytest.mark.parametrize("name", THOUSAND)
def test_4_processes_with_50_clients_each_get_exactly_the_1000_there_are(
    redis_server: RedisServer, admitted: Counter[str], name: str
) -> None:
    assert admitted[name] == 1000
    store = RedisStore(redis_server.url, prefix=f"thousand-{name}:")
    assert not store.take([Check("all", THOUSAND[name], "*")])[0].allowed
    store.reset("all")
    store.close()


def test_4_processes_with_leases_get_no_more_and_together_with_what_comes_back_all(
    redis_server: RedisServer,
) -> None:
    """Half of the requests at most ask the server, though 50 come at once."""
    command = [sys.executable, "-m", "tests.stores.lease_worker", redis_server.url]
    workers = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    told = [json.loads(worker.communicate(timeout=50)[0]) for worker in workers]
    store = LeasedStore(RedisStore(redis_server.url, prefix=PREFIX, known_refusals=0), LEASE)
    left = sum(store.take(ASK)[0].allowed for _ in range(1000))
    store.reset("all")
    store.close()
    by_workers = sum(each["admitted"] for each in told)
    assert by_workers <= 1000
    assert by_workers + left == 1000
    assert sum(each["asked"] for each in told) < 4 * 500
