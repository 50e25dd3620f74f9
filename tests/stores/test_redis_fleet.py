"""Many hosts and one limit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.stores.redis import RedisStore
from tests.redis_server import RedisServer
from tests.stores.redis_worker import THOUSAND

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", THOUSAND)
def test_4_processes_with_50_clients_each_get_exactly_the_1000_there_are(
    redis_server: RedisServer, name: str
) -> None:
    command = [sys.executable, "-m", "tests.stores.redis_worker", redis_server.url, name]
    workers = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    admitted = [int(worker.communicate(timeout=50)[0]) for worker in workers]
    assert sum(admitted) == 1000
    store = RedisStore(redis_server.url, prefix=f"thousand-{name}:")
    assert not store.take([Check("all", THOUSAND[name], "*")])[0].allowed
    store.reset("all")
    store.close()
