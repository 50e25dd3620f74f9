"""RedisStore: the promises of the memory store, on a server; for threads and event loops."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from ratelimit_middleware.algorithms.base import AdoptMode, Algorithm
from ratelimit_middleware.algorithms.concurrency import Concurrency
from ratelimit_middleware.algorithms.fixed_window import FixedWindow
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.leaky_bucket import LeakyBucket
from ratelimit_middleware.algorithms.pacing import Pacing
from ratelimit_middleware.algorithms.penalty import Penalty
from ratelimit_middleware.algorithms.qps_window import QpsWindow
from ratelimit_middleware.algorithms.sliding_counter import SlidingCounter
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.algorithms.smooth_bursty import SmoothBursty
from ratelimit_middleware.algorithms.smooth_warming_up import SmoothWarmingUp
from ratelimit_middleware.algorithms.token_bucket import TokenBucket
from ratelimit_middleware.algorithms.warm_up import WarmUp
from ratelimit_middleware.algorithms.warm_up_pacing import WarmUpPacing
from ratelimit_middleware.algorithms.warm_up_window import WarmUpWindow
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.errors import InvalidLimitError, StoreError
from ratelimit_middleware.stores.base import AsyncStore, Check, Store
from ratelimit_middleware.stores.open import open_store
from ratelimit_middleware.stores.redis import RedisStore
from tests.redis_server import RedisServer

SECOND = 1_000_000_000


def check(
    key: str, algorithm: Algorithm, *, cost: int = 1, max_wait_ns: int | None = 0, shadow: bool = False
) -> Check:
    return Check(key, algorithm, f"{key.partition('|')[0]}|*", cost, max_wait_ns, shadow)


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    """Keys of this test's own."""
    return f"{request.node.name}:"


@pytest.fixture
def store(redis_server: RedisServer, prefix: str) -> Iterator[RedisStore]:
    """On the server's own clock."""
    store = RedisStore(redis_server.url, prefix=prefix)
    yield store
    store.close()


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[Redis]:
    with Redis.from_url(redis_server.url) as client:
        yield client


def test_it_serves_threads_and_event_loops(store: RedisStore) -> None:
    assert isinstance(store, Store)
    assert isinstance(store, AsyncStore)


def test_100_threads_against_a_limit_of_50_get_exactly_50(store: RedisStore) -> None:
    algorithm, admitted, gate = SlidingWindow(50, 60), list[bool](), threading.Barrier(100)

    def caller() -> None:
        gate.wait()
        admitted.append(store.take([check("a|1", algorithm)])[0].allowed)

    threads = [threading.Thread(target=caller) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(admitted), sum(admitted)) == (100, 50)


@pytest.mark.anyio
async def test_300_tasks_against_a_limit_of_50_get_exactly_50(store: RedisStore) -> None:
    ask = [check("a|1", GCRA(1, 3600, 50))]
    answers = await asyncio.gather(*(store.take_async(ask) for _ in range(300)))
    assert sum(decision.allowed for [decision] in answers) == 50
    await store.close_async()


@pytest.mark.anyio
async def test_on_an_event_loop_it_answers_the_same(redis_server: RedisServer, prefix: str) -> None:
    store = RedisStore(redis_server.url, prefix=prefix, clock=ManualClock())
    one = check("a|1", SlidingWindow(2, 60))
    [first] = await store.take_async([one])
    await store.charge_async(one)
    refusal = await store.peek_async(one)
    assert not refusal.allowed
    await store.give_back_async(one, first.at_ns)
    assert (await store.peek_async(one)).allowed
    assert [name async for name in store.scan_async("a|")] == ["a|1"]
    assert await store.reset_async("a|1")
    assert not await store.reset_async("a|1")
    await store.close_async()
    await store.close_async()


def test_each_event_loop_has_connections_of_its_own(store: RedisStore) -> None:
    ask = [check("a|1", SlidingWindow(100, 60))]

    async def ask_often() -> int:
        answers = await asyncio.gather(*(store.take_async(ask) for _ in range(20)))
        await store.close_async()
        return sum(decision.allowed for [decision] in answers)

    admitted: list[int] = []
    threads = [threading.Thread(target=lambda: admitted.append(asyncio.run(ask_often()))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert admitted == [20, 20]
    assert asyncio.run(ask_often()) == 20


def test_a_refusal_by_one_limit_consumes_nothing_from_the_others(store: RedisStore) -> None:
    wide, narrow = check("wide|1", SlidingWindow(10, 60)), check("narrow|1", SlidingWindow(2, 60))
    answers = [store.take([wide, narrow]) for _ in range(6)]
    assert [d.allowed for _, d in answers] == [True, True, False, False, False, False]
    assert store.peek(wide).remaining == 7


def test_a_refused_request_leaves_no_bucket_behind(store: RedisStore) -> None:
    store.take([check("a|1", SlidingWindow(10, 60)), check("b|1", SlidingWindow(2, 60), cost=3)])
    store.take([check("b|1", SlidingWindow(2, 60), cost=3)])
    store.peek(check("b|1", SlidingWindow(2, 60)))
    store.give_back(check("b|1", SlidingWindow(2, 60)), 0)
    assert list(store.scan()) == []


@pytest.mark.parametrize(
    "algorithm",
    [SlidingWindow(3, 60), GCRA(1, 3600, 3), FixedWindow(3, "year"), LeakyBucket(0.01, 2, "nodelay")],
)
def test_the_clock_of_a_web_host_changes_nothing(
    redis_server: RedisServer, prefix: str, monkeypatch: pytest.MonkeyPatch, algorithm: Algorithm
) -> None:
    """Right, an hour ahead, an hour behind: the server's time counts, also for what is remembered of it."""
    right_ns, stores = time.time_ns, list[RedisStore]()
    for hours in (0, 1, -1):
        monkeypatch.setattr("time.time_ns", lambda hours=hours: right_ns() + hours * 3600 * SECOND)
        stores.append(RedisStore(redis_server.url, prefix=prefix))
    one = check("a|1", algorithm)
    assert [store.take([one])[0].remaining for store in stores] == [2, 1, 0]
    for _ in range(2):  # the second time from what each knows already
        refusals = [store.take([one])[0] for store in stores]
        waits_s = [(refusal.retry_after_ns or 0) / SECOND for refusal in refusals]
        assert not any(refusal.allowed for refusal in refusals)
        assert max(waits_s) - min(waits_s) < 30
        assert 0 < min(waits_s) <= max(waits_s) <= algorithm.window_ns / SECOND
    for store in stores:
        store.close()


def test_every_key_has_a_time_to_live_from_its_first_write(
    store: RedisStore, client: Redis, prefix: str
) -> None:
    store.take([check("a|1", SlidingWindow(10, 60)), check("b|1", GCRA(1, 60, 10), cost=5)])
    store.charge(check("c|1", SlidingWindow(10, 3600)))
    ttl = {name: client.ttl(prefix + name) for name in ("a|1", "b|1", "c|1")}
    assert 58 <= ttl["a|1"] <= 61
    assert 298 <= ttl["b|1"] <= 301
    assert 3598 <= ttl["c|1"] <= 3601
    for _ in range(9):
        store.take([check("a|1", SlidingWindow(10, 60))])
        assert client.ttl(prefix + "a|1") > 0


def test_what_counts_for_nothing_is_not_kept(store: RedisStore, client: Redis, prefix: str) -> None:
    """Who was never refused has nothing to remember; one refusal is forgotten by the next admission."""
    penalty = Penalty(3, (60,))
    store.take([check("a|1", penalty)])
    assert not client.exists(prefix + "a|1")
    store.take([check("a|1", penalty.strike)])
    assert 58 <= client.ttl(prefix + "a|1") <= 61
    store.take([check("a|1", penalty)])
    assert not client.exists(prefix + "a|1")


def test_a_penalty_and_its_strikes_need_no_second_call(store: RedisStore, client: Redis, prefix: str) -> None:
    """The entry of one is the entry of the other."""
    penalty = Penalty(2, (60,))
    before = client.info("commandstats")["cmdstat_evalsha"]["calls"]
    asked: list[Algorithm] = [penalty, penalty.strike, penalty.strike, penalty, penalty.strike]
    allowed = [store.take([check("a|1", one)])[0].allowed for one in asked]
    assert allowed == [True, True, True, False, True]
    assert client.info("commandstats")["cmdstat_evalsha"]["calls"] == before + len(asked)


@pytest.mark.parametrize(("mode", "remaining"), [("keep", 9), ("scale", 14), ("reset", 19)])
def test_another_store_with_other_numbers_adopts_the_bucket(
    redis_server: RedisServer, prefix: str, mode: AdoptMode, remaining: int
) -> None:
    old, new = (RedisStore(redis_server.url, prefix=prefix, keep_state=mode) for _ in range(2))
    for _ in range(10):
        old.take([check("a|1", SlidingWindow(40, 60))])
    assert new.peek(check("a|1", SlidingWindow(20, 60))).remaining == remaining
    old.close()
    new.close()


def test_two_workers_with_other_numbers_share_a_bucket_in_turn(store: RedisStore) -> None:
    """A rolling deployment: whoever comes finds what the others have taken."""
    old, new = check("a|1", SlidingWindow(40, 60)), check("a|1", SlidingWindow(20, 60))
    admitted = [store.take([each])[0].allowed for _ in range(12) for each in (old, new)]
    assert admitted == [True] * 20 + [True, False, True, False]


@pytest.mark.anyio
async def test_requests_that_share_a_call_adopt_too(store: RedisStore) -> None:
    for _ in range(10):
        await store.take_async([check("a|1", SlidingWindow(40, 60))])
    asks = [check(f"a|{number % 2}", SlidingWindow(20, 60)) for number in range(60)]
    answers = await asyncio.gather(*(store.take_async([ask]) for ask in asks))
    assert sum(decision.allowed for [decision] in answers) == 10 + 20
    await store.close_async()


def test_an_entry_that_nobody_can_read_counts_as_none(store: RedisStore, client: Redis, prefix: str) -> None:
    client.set(f"{prefix}a|1", b"\xff\xff something else", ex=60)
    assert store.take([check("a|1", SlidingWindow(2, 60))])[0].remaining == 1
    assert store.take([check("a|1", SlidingWindow(2, 60))])[0].remaining == 0


def test_a_key_of_another_type_is_an_error_and_is_left_alone(
    store: RedisStore, client: Redis, prefix: str
) -> None:
    client.rpush(f"{prefix}a|1", "x")
    client.expire(f"{prefix}a|1", 60)
    with pytest.raises(StoreError, match="WRONGTYPE"):
        store.take([check("a|1", SlidingWindow(2, 60))])
    assert client.lrange(f"{prefix}a|1", 0, -1) == [b"x"]


def test_permits_given_back_in_this_process_are_there_at_once(store: RedisStore) -> None:
    one = [check("a|1", SlidingWindow(1, 60))]
    [booked] = store.take(one)
    assert not store.take(one)[0].allowed
    store.give_back(one[0], booked.at_ns)
    assert store.take(one)[0].allowed

    store.reset("a|1")

    async def on_a_loop() -> None:
        [booked] = await store.take_async(one)
        assert not (await store.take_async(one))[0].allowed
        await store.give_back_async(one[0], booked.at_ns)
        assert (await store.take_async(one))[0].allowed
        await store.close_async()

    asyncio.run(on_a_loop())


def test_keys_of_any_length_and_text_are_kept_apart(store: RedisStore) -> None:
    keys = ["", "\0", "=", "x" * 5000, "x" * 4999 + "y", "\udcff", "é", "a b\r\nDEL a", "*", "[a]?\\", "{a}b"]
    for key in keys:
        assert store.take([check(key, SlidingWindow(1, 60))])[0].allowed
    assert not any(store.take([check(key, SlidingWindow(1, 60))])[0].allowed for key in keys)
    assert sorted(store.scan()) == sorted(keys)


def test_a_scan_finds_the_clients_of_one_limit_and_no_foreign_keys(
    store: RedisStore, client: Redis, redis_server: RedisServer
) -> None:
    other = RedisStore(redis_server.url, prefix="another:")
    names = [f"login|{number}" for number in range(30)] + ["log|1", "login[|1", "loginn|1"]
    for name in names:
        store.take([check(name, SlidingWindow(1, 60))])
        other.take([check(name, SlidingWindow(1, 60))])
    client.set("login|77", "x", ex=60)
    assert sorted(store.scan("login|")) == sorted(names[:30])
    assert list(store.scan("login[")) == ["login[|1"]
    assert sorted(store.scan()) == sorted(names)
    assert store.stats().keys >= 2 * len(names)
    other.close()


def test_reset_frees_a_client_at_once(store: RedisStore) -> None:
    ask = [check("a|1", SlidingWindow(1, 60))]
    store.take(ask)
    assert not store.take(ask)[0].allowed
    assert (store.reset("a|1"), store.reset("a|1")) == (True, False)
    assert store.take(ask)[0].allowed


def test_close_twice_is_fine_and_a_call_opens_it_again(store: RedisStore) -> None:
    store.close()
    store.close()
    assert store.take([check("a|1", SlidingWindow(1, 60))])[0].allowed


def test_a_server_that_has_forgotten_the_script_gets_it_again(store: RedisStore, client: Redis) -> None:
    ask = [check("a|1", SlidingWindow(9, 60))]
    store.take(ask)
    client.script_flush()
    assert store.take(ask)[0].remaining == 7


class Homemade(SlidingWindow):
    """An algorithm of somebody's own."""

    def scaled(self, factor: float) -> Homemade:
        return Homemade(max(1, int(self.limit * factor)), self.period)


def test_an_algorithm_without_a_script_is_refused_by_name(store: RedisStore) -> None:
    with pytest.raises(StoreError, match=r"Homemade\(limit=5.* cannot be counted in Redis"):
        store.take([check("a|1", Homemade(5, 10))])
    with pytest.raises(StoreError, match="cannot be counted in Redis"):
        asyncio.run(store.take_async([check("a|1", Homemade(5, 10))]))


@pytest.mark.parametrize(
    "algorithm", [WarmUp(1e9, 10**6), Pacing(1e-8, 10**10), WarmUpPacing(1, 10**7, 1e4, 10**6)]
)
def test_what_the_script_of_sentinels_limiters_could_not_count_exactly_is_refused(
    store: RedisStore, algorithm: Algorithm
) -> None:
    with pytest.raises(StoreError, match=r"cannot be counted in Redis: its (permits exceed|queue may take)"):
        store.accept(algorithm)


@pytest.mark.parametrize("algorithm", [GCRA(1, 1e10, 10**9), SlidingWindow(1, 1e10)])
def test_numbers_too_large_to_be_exact_are_refused(store: RedisStore, algorithm: Algorithm) -> None:
    with pytest.raises(StoreError, match=r"exceed 2\^51"):
        store.take([check("a|1", algorithm)])


@pytest.mark.parametrize("algorithm", [SlidingWindow(10**9, 1e-6), GCRA(10**9, 1e-6, 3), GCRA(10**9, 1, 3)])
def test_rates_above_a_million_a_second_are_not_unlimited(
    redis_server: RedisServer, prefix: str, algorithm: Algorithm
) -> None:
    store = RedisStore(redis_server.url, prefix=prefix, clock=ManualClock())
    ask = check("a|1", algorithm, cost=algorithm.quota)
    assert store.take([ask])[0].allowed
    assert not store.take([ask])[0].allowed
    store.close()


@pytest.mark.anyio
async def test_slots_come_back_when_they_are_given_back_or_their_lease_ends(
    redis_server: RedisServer, prefix: str
) -> None:
    clock = ManualClock()
    store = RedisStore(redis_server.url, prefix=prefix, clock=clock)
    slot = check("a|1", Concurrency(1, 30))
    [first] = await store.take_async([slot])
    assert not (await store.take_async([slot]))[0].allowed
    await store.give_back_async(slot, first.at_ns)
    [second] = await store.take_async([slot])
    assert second.allowed
    clock.advance(20)
    await store.renew_async(slot, second.at_ns)
    clock.advance(20)
    assert not (await store.take_async([slot]))[0].allowed
    clock.advance(10)
    assert (await store.take_async([slot]))[0].allowed
    clock.set_ns(clock.now_ns() - 3600 * SECOND)  # the server's clock steps back: so does the lease
    assert not (await store.take_async([slot]))[0].allowed
    clock.advance(30)
    assert (await store.take_async([slot]))[0].allowed
    await store.close_async()


def test_more_slots_than_the_script_can_handle_are_refused(store: RedisStore) -> None:
    with pytest.raises(StoreError, match="expected a limit of 2000 at most"):
        store.accept(Concurrency(2001))
    store.accept(Concurrency(2000))


def test_a_request_may_have_255_limits(store: RedisStore) -> None:
    checks = [check(f"a|{number}", SlidingWindow(1, 60)) for number in range(255)]
    assert all(decision.allowed for decision in store.take(checks))
    assert not any(decision.allowed for decision in store.take(checks))
    with pytest.raises(StoreError, match="256 checks"):
        store.take([*checks, check("b|1", SlidingWindow(1, 60))])


def test_urls_name_the_store(redis_server: RedisServer) -> None:
    store = open_store(f"{redis_server.url}?prefix=mine:&timeout=0.5&db=1")
    assert isinstance(store, RedisStore)
    assert store.take([check("a|1", SlidingWindow(1, 60))])[0].allowed
    with Redis.from_url(redis_server.url, db=1) as client:
        assert client.keys() == [b"mine:a|1"]
    store.close()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://localhost", "'http' is no scheme"),
        ("redis://:secret@localhost?db=x", "'x' is no number"),
        ("redis://:secret@localhost?retry_on_timeout=1", "'retry_on_timeout' is not known"),
        ("redis://:secret@localhost:99999", "a port from 1 to 65535"),
        ("unix://run/redis.sock", "three slashes"),
    ],
)
def test_a_url_that_makes_no_sense_is_refused_and_its_password_is_not_quoted(url: str, said: str) -> None:
    with pytest.raises(StoreError, match=said) as caught:
        RedisStore(url).take([check("a|1", SlidingWindow(1, 60))])
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), "soon"])
def test_a_timeout_that_makes_no_sense_is_refused(timeout: object) -> None:
    with pytest.raises(InvalidLimitError, match="timeout="):
        RedisStore(timeout=timeout)  # type: ignore[arg-type]  # that is the test


def test_without_redis_py_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(StoreError, match=r"pip install .ratelimit-middleware\[redis\]"):
        open_store("redis://localhost")


@pytest.mark.anyio
async def test_without_hiredis_it_works_too(
    redis_server: RedisServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ratelimit_middleware.stores._redis_loop_link._packer", lambda: None)
    store = RedisStore(redis_server.url, prefix=prefix)
    assert (await store.take_async([check("a|1", SlidingWindow(1, 60))]))[0].allowed
    assert not (await store.take_async([check("a|1", SlidingWindow(1, 60))]))[0].allowed
    await store.close_async()


def test_no_server_is_a_store_error(tmp_path: Path) -> None:
    store = RedisStore(f"unix://{tmp_path}/none.sock")
    with pytest.raises(StoreError, match=r"none\.sock cannot answer"):
        store.take([check("a|1", SlidingWindow(1, 60))])
    with pytest.raises(StoreError, match=r"none\.sock cannot answer"):
        asyncio.run(store.take_async([check("a|1", SlidingWindow(1, 60))]))
    store.close()


ALL_KINDS: list[Algorithm] = [
    SlidingWindow(2, 60),
    GCRA(1, 30, 2),
    LeakyBucket(1 / 30, 1, "nodelay"),
    TokenBucket(2, 30),
    TokenBucket(2, 30, refill="greedy"),
    SmoothBursty(1 / 60),
    SmoothWarmingUp(1 / 60, 0),
    FixedWindow(2, 60),
    FixedWindow(2, "minute"),
    SlidingCounter(2, 60),
    WarmUpWindow(2, 60, 120, 1.5),
    QpsWindow(2),
    Pacing(2, 0),
    Pacing(3, 1),
    WarmUp(2, 10),
    WarmUp(0.5, 10),
    WarmUpPacing(3, 2, 3, 0),
    WarmUpPacing(12.3, 5, 2.5, 1),
]


@pytest.mark.parametrize("algorithm", ALL_KINDS, ids=repr)
@pytest.mark.parametrize("back_s", [0.001, 3600, 10**8])
def test_a_server_whose_clock_steps_back_neither_locks_out_nor_gives_more(
    redis_server: RedisServer, prefix: str, algorithm: Algorithm, back_s: float
) -> None:
    """As if the time between had not been: whoever was refused waits no longer for it than two windows."""
    clock = ManualClock()
    store = RedisStore(redis_server.url, prefix=prefix, clock=clock, known_refusals=0)
    ask = check("a|1", algorithm)
    while store.take([ask])[0].allowed:
        pass
    before_ns = store.peek(ask).retry_after_ns
    clock.set_ns(clock.now_ns() - int(back_s * SECOND))
    after_ns = store.peek(ask).retry_after_ns
    assert before_ns is not None
    assert after_ns is not None
    assert 0 < after_ns <= max(before_ns, 2 * algorithm.window_ns)
    clock.set_ns(clock.now_ns() + after_ns)
    assert store.take([ask])[0].allowed
    store.close()


def test_loops_of_other_threads_may_come_while_closed_ones_are_swept(redis_server: RedisServer) -> None:
    store = RedisStore(redis_server.url)

    class Other(asyncio.SelectorEventLoop):
        def is_closed(self) -> bool:
            store._loops.setdefault(later, store._sides.loop())  # another thread has its turn here
            return super().is_closed()

    later, other = asyncio.new_event_loop(), Other()
    store._loops[other] = store._sides.loop()

    async def take() -> None:
        assert (await store.take_async([check("a|1", SlidingWindow(1, 60))]))[0].allowed
        await store.close_async()

    asyncio.run(take())
    assert set(store._loops) == {other, later}
    for loop in (other, later):
        loop.close()
    store.close()
