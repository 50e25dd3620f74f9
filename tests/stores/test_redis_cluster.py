"""A Redis Cluster: one limit for all, all or nothing over its servers, and while slots move between them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ratelimit_middleware.algorithms.concurrency import Concurrency
from ratelimit_middleware.algorithms.leaky_bucket import LeakyBucket
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.errors import StoreError, UnreadableBucketError
from ratelimit_middleware.stores._cluster_calls import ClusterCalls
from ratelimit_middleware.stores._redis_keys import TaggedKeys
from ratelimit_middleware.stores._redis_talk import Talk
from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.stores.redis import RedisStore
from tests.redis_cluster import RedisCluster, free_ports
from tests.redis_server import RedisServer, make_certificate, require_server

ROOT = Path(__file__).resolve().parents[2]
MINUTE = 60_000_000_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    require_server()
    cluster = RedisCluster(tmp_path_factory.mktemp("cluster"), "--cluster-require-full-coverage", "no")
    yield cluster
    cluster.stop()


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    """Keys of this test's own."""
    return f"{request.node.name}:".replace("{", "(")


@pytest.fixture
def store(cluster: RedisCluster, prefix: str) -> Iterator[RedisStore]:
    store = RedisStore(cluster.url, prefix=prefix, known_refusals=0)
    yield store
    store.close()


def window(key: str, limit: int, *, max_wait_ns: int = 0, shadow: bool = False) -> Check:
    return Check(key, SlidingWindow(limit, 60), "*", 1, max_wait_ns, shadow)


def slot(key: str) -> int:
    keys = TaggedKeys("any:")
    return keys.slot(keys.key(key))


@pytest.fixture
def keys(cluster: RedisCluster) -> list[str]:
    """One for each server: the clients differ."""
    found: dict[int, str] = {}
    for number in range(1000):
        key = f"a|{number}"
        found.setdefault(cluster.owner(slot(key)).port, key)
        if len(found) == 3:
            return [*found.values()]
    raise AssertionError("keys are not spread")


def used(store: RedisStore, key: str, limit: int) -> int:
    return limit - 1 - store.peek(window(key, limit)).remaining


def granted(decisions: Sequence[Decision]) -> bool:
    return all(decision.allowed for decision in decisions)


def test_the_keys_of_a_client_are_in_one_slot_and_clients_are_spread_over_all() -> None:
    assert slot("login|10.0.0.1") == slot("default|10.0.0.1") == slot("default%232|10.0.0.1")
    assert slot("login|*global") == slot("login%232|*global") != slot("default|*global")
    assert len({slot(f"login|{number}") for number in range(2000)}) > 1800


def test_the_slot_is_the_one_that_redis_itself_says(cluster: RedisCluster) -> None:
    for prefix in ("", "ratelimit:", "a}b:", "é"):
        keys = TaggedKeys(prefix)
        for key in ("", "a", "a|b", "/items/{id}|{x}", "a|}{", "\udcff|é"):
            written = keys.key(key)
            assert keys.slot(written) == cluster.nodes[0].ask("CLUSTER", "KEYSLOT", written)
            assert keys.names([written]) == [key]


def test_limits_on_all_servers_are_booked_all_or_none(store: RedisStore, keys: list[str]) -> None:
    checks = [window(keys[0], 10), window(keys[1], 3), window(keys[2], 10)]
    answers = [store.take(checks) for _ in range(6)]
    assert [granted(answer) for answer in answers] == [True] * 3 + [False] * 3
    assert [d.remaining for d in answers[2]] == [7, 0, 7]
    assert [(d.allowed, d.remaining) for d in answers[5]] == [(True, 7), (False, 0), (True, 7)]
    assert [used(store, key, 10) for key in (keys[0], keys[2])] == [3, 3]


@pytest.mark.anyio
async def test_so_they_are_on_an_event_loop_by_300_at_once(store: RedisStore, keys: list[str]) -> None:
    checks = [window(key, limit) for key, limit in zip(keys, (1000, 50, 1000), strict=True)]
    answers = await asyncio.gather(*(store.take_async(checks) for _ in range(300)))
    assert sum(granted(answer) for answer in answers) == 50
    await store.close_async()
    counts = await asyncio.to_thread(lambda: [used(store, key, 1000) for key in (keys[0], keys[2])])
    assert counts == [50, 50]


def test_threads_too(store: RedisStore, keys: list[str]) -> None:
    checks = [window(key, 40) for key in keys]
    admitted: list[bool] = []
    threads = [
        threading.Thread(target=lambda: admitted.extend(granted(store.take(checks)) for _ in range(10)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # A refusal that comes while another request is being refused may see its permits: fewer, never more.
    assert sum(admitted) <= 40
    assert len(admitted) == 80
    while granted(store.take(checks)):
        admitted.append(True)
    assert sum(admitted) == 40


def test_shadow_checks_of_another_slot_are_decided_by_themselves(store: RedisStore, keys: list[str]) -> None:
    checks = [window(keys[0], 2), window(keys[1], 4, shadow=True), window(keys[2], 9)]
    answers = [[d.allowed for d in store.take(checks)] for _ in range(5)]
    assert answers == [[True] * 3] * 2 + [[False, True, True]] * 2 + [[False, False, True]]
    assert used(store, keys[2], 9) == 2


@pytest.mark.parametrize("is_async", [False, True])
def test_limits_that_wait_in_several_slots_start_at_one_moment(
    cluster: RedisCluster, prefix: str, is_async: bool, keys: list[str]
) -> None:
    """The plain window counts at the start of the request, not when it was asked."""
    clock = ManualClock()
    store = RedisStore(cluster.url, prefix=prefix, clock=clock, known_refusals=0)
    slow = Check(keys[0], LeakyBucket(1 / 10, 5), "*", 1, MINUTE)
    slower = Check(keys[1], LeakyBucket(1 / 20, 5), "*", 1, 2 * MINUTE)
    checks = [slow, slower, window(keys[2], 2)]

    def take() -> list[Decision]:
        if not is_async:
            return store.take(checks)

        async def once() -> list[Decision]:
            try:
                return await store.take_async(checks)
            finally:
                await store.close_async()

        return asyncio.run(once())

    waits = [[d.wait_ns for d in take()] for _ in range(2)]
    assert waits == [[0, 0, 0], [20 * 10**9] * 3]
    assert not granted(take())
    clock.advance(60)  # the first has left the window, the second is in it for 20 seconds more
    assert store.peek(checks[2]).remaining == 0
    assert granted([store.peek(checks[2])])
    clock.advance(20)
    assert store.peek(checks[2]).remaining == 1
    store.close()


def test_who_cannot_wait_so_long_is_refused_and_has_booked_nothing(
    cluster: RedisCluster, prefix: str, keys: list[str]
) -> None:
    store = RedisStore(cluster.url, prefix=prefix, clock=ManualClock(), known_refusals=0)
    patient = Check(keys[0], LeakyBucket(1 / 50, 5), "*", 1, MINUTE)
    hasty = Check(keys[1], LeakyBucket(1, 5), "*", 1, 10**9)
    assert granted(store.take([patient, hasty]))
    assert [d.allowed for d in store.take([patient, hasty])] == [False, True]
    assert store.take([patient])[0].wait_ns == 50 * 10**9
    store.close()


def test_servers_that_have_forgotten_the_script_get_it_again(
    store: RedisStore, cluster: RedisCluster, keys: list[str]
) -> None:
    checks = [window(key, 10) for key in keys]
    store.take(checks)
    for node in cluster.nodes:
        node.ask("SCRIPT", "FLUSH")
    assert granted(store.take(checks))
    assert [used(store, check.key, 10) for check in checks] == [2, 2, 2]


@pytest.mark.anyio
async def test_a_request_that_is_cancelled_gets_its_permits_back_from_all_servers(
    store: RedisStore, keys: list[str]
) -> None:
    checks = [window(key, 100) for key in keys]
    await store.take_async(checks)
    for steps in range(12):
        tasks = [asyncio.ensure_future(store.take_async(checks)) for _ in range(4)]
        for _ in range(steps):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await store.close_async()
    before = asyncio.all_tasks()
    counts = [99 - (await store.peek_async(check)).remaining for check in checks]
    assert counts[0] == counts[1] == counts[2] == 1
    await store.close_async()
    assert asyncio.all_tasks() <= before


@pytest.mark.anyio
async def test_a_request_that_is_cancelled_while_its_excess_is_given_back_gives_all_of_it_back(
    store: RedisStore, keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = [window(key, limit) for key, limit in zip(keys, (1, 100, 100), strict=True)]
    before = asyncio.all_tasks()
    await store.take_async(checks)
    give_back, asked = ClusterCalls.give_back, list[asyncio.Task[list[Decision]]]()

    def cancelled(calls: ClusterCalls, excess: Sequence[tuple[Check, int]]) -> Talk[list[StoreError]]:
        asyncio.get_running_loop().call_soon(asked[-1].cancel)
        return give_back(calls, excess)

    monkeypatch.setattr(ClusterCalls, "give_back", cancelled)
    for _ in range(10):
        asked.append(asyncio.ensure_future(store.take_async(checks)))
        with pytest.raises(asyncio.CancelledError):
            await asked[-1]
    await store.close_async()
    assert [99 - (await store.peek_async(check)).remaining for check in checks[1:]] == [1, 1]
    await store.close_async()
    assert asyncio.all_tasks() <= before


def test_slots_scans_resets_charges_and_returns_go_to_the_right_server(
    store: RedisStore, keys: list[str]
) -> None:
    async def on_a_loop() -> list[str]:
        for key in keys:
            await store.charge_async(window(key, 10))
            [decision] = await store.take_async([window(key, 10)])
            await store.give_back_async(window(key, 10), decision.at_ns)
        lease = Check("a|slots", Concurrency(1, 30), "*")
        [first] = await store.take_async([lease])
        await store.renew_async(lease, first.at_ns)
        assert not (await store.take_async([lease]))[0].allowed
        assert await store.reset_async(lease.key)
        found = [key async for key in store.scan_async("a|")]
        await store.close_async()
        return found

    assert sorted(asyncio.run(on_a_loop())) == sorted(keys) == sorted(store.scan("a|"))
    assert [used(store, key, 10) for key in keys] == [1, 1, 1]
    assert [look.decision.remaining for key in keys if (look := store.look(key))] == [9, 9, 9]
    assert store.look("a|none") is None
    assert [store.reset(keys[0]), store.reset(keys[0])] == [True, False]
    assert store.stats().keys >= 2


def test_a_slot_that_has_moved_is_found_and_nothing_is_lost(store: RedisStore, cluster: RedisCluster) -> None:
    key = "moved|1"
    store.take([window(key, 10)])
    for _ in range(2):
        target = next(node for node in cluster.nodes if node is not cluster.owner(slot(key)))
        with cluster.moving(slot(key), target):
            pass
        assert store.take([window(key, 10)])[0].allowed
        assert asyncio.run(take_and_close(store, [window(key, 10)]))[0].allowed
    assert used(store, key, 10) == 5


async def take_and_close(store: RedisStore, checks: list[Check]) -> list[Decision]:
    try:
        return await store.take_async(checks)
    finally:
        await store.close_async()


def test_while_a_slot_moves_each_bucket_is_asked_where_it_is(
    store: RedisStore, cluster: RedisCluster, prefix: str
) -> None:
    """Buckets that have moved, that have not, and new ones, in one request: nothing runs twice."""
    client = "10.9.8.7"
    here, gone, new = (window(f"{name}|{client}", 9) for name in ("here", "gone", "new"))
    store.take([here, gone])
    target = next(node for node in cluster.nodes if node is not cluster.owner(slot(here.key)))
    with cluster.moving(slot(here.key), target) as source:
        key = TaggedKeys(prefix).key(gone.key)
        source.ask("MIGRATE", "127.0.0.1", target.port, key, 0, 1000)
        assert granted(store.take([here, gone, new]))
        assert granted(asyncio.run(take_and_close(store, [here, gone, new])))
        assert store.take([gone])[0].allowed
        assert [used(store, check.key, 9) for check in (here, gone, new)] == [3, 4, 2]
    assert [used(store, check.key, 9) for check in (here, gone, new)] == [3, 4, 2]


def test_moving_slots_under_load_costs_no_request_and_no_permit(
    store: RedisStore, cluster: RedisCluster
) -> None:
    """Six clients with two limits each, all in one slot, while it goes round all servers."""
    home = slot("a|0")
    clients = [str(n) for n in range(400_000) if slot(f"a|{n}") == home][:6]
    stop = threading.Event()

    def move() -> None:
        for _ in range(2):
            for target in cluster.nodes[:3]:
                with cluster.moving(home, target):
                    stop.wait(0.05)
        stop.set()

    async def ask(client: str) -> int:
        admitted = 0
        while not stop.is_set():
            checks = [window(f"a|{client}", 10**6), window(f"b|{client}", 10**6)]
            admitted += granted(await store.take_async(checks))
        return admitted

    async def load() -> list[int]:
        mover = threading.Thread(target=move)
        mover.start()
        counts = await asyncio.gather(*(ask(client) for client in clients))
        await store.close_async()
        mover.join()
        return counts

    counts = asyncio.run(load())
    assert min(counts) > 0
    for name in "ab":
        assert [used(store, f"{name}|{client}", 10**6) for client in clients] == counts


def test_4_processes_get_exactly_the_1000_there_are(cluster: RedisCluster) -> None:
    command = [sys.executable, "-m", "tests.stores.redis_worker", cluster.url, "gcra", "window"]
    workers = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    together: Counter[str] = Counter()
    try:
        for worker in workers:
            together.update(json.loads(worker.communicate(timeout=50)[0]))
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    assert together == {"gcra": 1000, "window": 1000}


def test_a_dead_server_costs_its_own_slots_until_it_is_back(
    store: RedisStore, cluster: RedisCluster, keys: list[str]
) -> None:
    checks = [window(key, 10) for key in keys]
    dead = cluster.owner(slot(keys[0]))
    store.take(checks)
    dead.process.kill()
    dead.process.wait()
    for _ in range(2):
        with pytest.raises(StoreError):
            store.take(checks)
        with pytest.raises(StoreError):
            asyncio.run(take_and_close(store, checks))
    assert granted(store.take(checks[1:]))
    assert [used(store, key, 10) for key in keys[1:]] == [2, 2]  # what they had granted was given back
    dead.start()
    cluster.wait()
    assert granted(store.take(checks))
    assert used(store, keys[0], 10) == 1


def test_servers_that_are_none_or_no_cluster_are_errors_with_a_name(tmp_path: Path) -> None:
    [port] = free_ports(1)
    server = RedisServer(tmp_path, "--port", str(port))
    store = RedisStore(f"redis+cluster://127.0.0.1:1,127.0.0.1:{port}")
    for call in (lambda: store.take([window("a|1", 1)]), store.stats, lambda: store.reset("a")):
        with pytest.raises(StoreError, match=f"127.0.0.1:{port} cannot answer: .*cluster support disabled"):
            call()
    server.kill()
    with pytest.raises(StoreError, match="cannot answer: ConnectionError"):
        asyncio.run(take_and_close(store, [window("a|1", 1)]))
    store.close()


def test_users_and_tls(tmp_path: Path) -> None:
    certificate, options = make_certificate(tmp_path)
    [port] = free_ports(1)
    options += ["--tls-port", str(port), "--tls-cluster", "yes", "--tls-ca-cert-file", str(certificate)]
    cluster = RedisCluster(tmp_path, *options, size=1)
    cluster.nodes[0].ask("ACL", "SETUSER", "shop", "on", ">secret", "~*", "+@all")
    query = f"127.0.0.1:{port}?ssl_ca_certs={certificate}"
    try:
        store = RedisStore(f"rediss+cluster://shop:secret@{query}")
        assert store.take([window("a|1", 9), window("b|2", 9)])[0].remaining == 8
        assert asyncio.run(take_and_close(store, [window("a|1", 9), window("b|2", 9)]))[0].remaining == 7
        store.close()
        stranger = RedisStore(f"rediss+cluster://shop:wrong@{query}")
        with pytest.raises(StoreError, match="AuthenticationError") as caught:
            stranger.take([window("a|1", 9)])
        assert "wrong" not in str(caught.value)
        stranger.close()
    finally:
        cluster.stop()


def test_a_prefix_that_would_mark_the_slot_is_refused() -> None:
    with pytest.raises(StoreError, match="a prefix has no"):
        RedisStore("redis+cluster://localhost", prefix="{shop}:")


def test_a_key_of_another_type_costs_only_its_own_requests(
    cluster: RedisCluster, store: RedisStore, keys: list[str], prefix: str
) -> None:
    broken = TaggedKeys(prefix)
    place = broken.key(keys[0])
    cluster.owner(broken.slot(place)).ask("RPUSH", place, "x")
    ask = [window(key, 10) for key in keys]

    async def at_once() -> list[object]:
        answers = await asyncio.gather(
            *(store.take_async(checks) for checks in (ask, ask[1:], ask[:1], ask[1:])), return_exceptions=True
        )
        await store.close_async()
        return [type(answer) for answer in answers]

    assert asyncio.run(at_once()) == [UnreadableBucketError, list, UnreadableBucketError, list]
    assert [used(store, key, 10) for key in keys[1:]] == [2] * len(keys[1:])
    with pytest.raises(UnreadableBucketError):
        store.look(keys[0])
    assert store.reset(keys[0])
