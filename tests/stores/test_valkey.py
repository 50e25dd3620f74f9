"""On Valkey the store does what it does on Redis: these are tests of the other modules, asked of Valkey.

A server of Valkey's stands in the place of each that they would start.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from tests.redis_cluster import RedisCluster
from tests.redis_sentinel import Sentinels
from tests.redis_server import RedisServer, lasting_keys, require_valkey
from tests.stores.test_redis_cluster import (
    keys,
    prefix,
    store,
    test_4_processes_get_exactly_the_1000_there_are,
    test_limits_on_all_servers_are_booked_all_or_none,
)
from tests.stores.test_redis_fleet import (
    admitted,
    test_4_processes_with_50_clients_each_get_exactly_the_1000_there_are,
)
from tests.stores.test_redis_same_answers import (
    test_a_long_trace_answers_as_the_pure_function_does,
    test_every_answer_is_that_of_the_memory_store,
    test_moments_that_are_no_whole_microseconds_are_up_to_one_later_and_never_earlier,
    twins,
)
from tests.stores.test_redis_sentinel import test_behind_a_guard_no_request_notices_more_than_the_policy
from tests.stores.test_redis_vectors import make_store, test_guava, test_juju, test_nginx, test_sentinel
from tests.test_redis_chaos import (
    start_host,
    test_a_redis_that_is_emptied_under_load_costs_no_request,
    test_while_redis_does_not_answer_the_policy_holds_and_afterwards_the_limit,
)

# pytest finds tests and fixtures by the names of this module.
__all__ = [
    "admitted",
    "keys",
    "make_store",
    "prefix",
    "start_host",
    "store",
    "test_4_processes_get_exactly_the_1000_there_are",
    "test_4_processes_with_50_clients_each_get_exactly_the_1000_there_are",
    "test_a_long_trace_answers_as_the_pure_function_does",
    "test_a_redis_that_is_emptied_under_load_costs_no_request",
    "test_behind_a_guard_no_request_notices_more_than_the_policy",
    "test_every_answer_is_that_of_the_memory_store",
    "test_guava",
    "test_juju",
    "test_limits_on_all_servers_are_booked_all_or_none",
    "test_moments_that_are_no_whole_microseconds_are_up_to_one_later_and_never_earlier",
    "test_nginx",
    "test_sentinel",
    "test_while_redis_does_not_answer_the_policy_holds_and_afterwards_the_limit",
    "twins",
]


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("valkey"), program=require_valkey())
    try:
        yield server
        assert lasting_keys(server.url) == []
    finally:
        server.kill()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path, program=require_valkey())
    yield server
    server.kill()


@pytest.fixture
def sentinels(tmp_path: Path) -> Iterator[Sentinels]:
    sentinels = Sentinels(tmp_path, program=require_valkey())
    yield sentinels
    sentinels.stop()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    cluster = RedisCluster(tmp_path_factory.mktemp("valkeys"), program=require_valkey())
    yield cluster
    cluster.stop()


def test_it_is_valkey_that_answers(redis_server: RedisServer) -> None:
    with Redis.from_url(redis_server.url) as client:
        assert client.info("server")["server_name"] == "valkey"
