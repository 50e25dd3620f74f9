"""What the originals answered, asked of the script: every recorded scenario that a store can be asked."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest

from ratelimit_middleware.algorithms.base import Algorithm, State
from ratelimit_middleware.algorithms.qps_window import QpsWindow
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.stores._redis_ports import port_of
from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.stores.redis import RedisStore
from tests.algorithms import test_leaky_bucket as nginx
from tests.algorithms import test_pacing as pacing
from tests.algorithms import test_qps_window as qps_window
from tests.algorithms import test_token_bucket as juju
from tests.algorithms import test_warm_up as warm_up
from tests.algorithms import test_warm_up_pacing as warm_up_pacing
from tests.redis_server import RedisServer
from tests.vectors import guava
from tests.vectors.guava import replay
from tests.vectors.sentinel import Scenario
from tests.vectors.sentinel import replay as sentinel

MakeStore: TypeAlias = Callable[..., RedisStore]
YEAR_2000_NS = 946_684_800 * 10**9


@pytest.fixture
def make_store(redis_server: RedisServer, request: pytest.FixtureRequest) -> Iterator[MakeStore]:
    """Stands in for `MemoryStore`."""
    stores: list[RedisStore] = []
    numbers = itertools.count()

    def make(**settings: Any) -> RedisStore:
        prefix = f"{request.node.name}:{next(numbers)}:"
        stores.append(RedisStore(redis_server.url, prefix=prefix, known_refusals=0, **settings))
        return stores[-1]

    yield make
    for store in stores:
        store.close()


class InRedis(replay.InStore):
    """The state as it lies in Redis."""

    @property
    def state(self) -> State:
        store: Any = self._store
        entry, _ = store._threads.read("k")
        _, packed = store._planner._codec.split(entry)
        return port_of(self.algorithm).decode(self.algorithm, packed[8:])


GUAVA = [*guava.load_public("bursty"), *guava.load_public("warming")]


@pytest.mark.parametrize("record", GUAVA, ids=[record.id for record in GUAVA])
def test_guava(record: guava.Record, make_store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the bit, stored permits and the next free ticket included."""
    expected = replay.replayed(record, replay.InStore(replay.limiter(record)))
    monkeypatch.setattr(replay, "MemoryStore", make_store)
    assert replay.replayed(record, InRedis(replay.limiter(record))) == expected


def is_for_redis(scenario: dict[str, Any]) -> bool:
    """Whether all moments and the interval are whole microseconds, and the clock never goes back."""
    times = [op["at_ns"] or 0 for op in scenario["ops"]] + [juju.bucket_of(scenario).fill_interval_ns]
    return juju.never_goes_back(scenario) and not any(time_ns % 1000 for time_ns in times)


JUJU = [scenario for scenario in juju.PUBLIC if is_for_redis(scenario)]


@pytest.mark.parametrize("scenario", JUJU, ids=lambda s: str(s["id"]))
def test_juju(scenario: dict[str, Any], make_store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = juju.deviation(scenario, juju.Stored(juju.bucket_of(scenario)), 0)
    monkeypatch.setattr(juju, "MemoryStore", make_store)
    assert juju.deviation(scenario, juju.Stored(juju.bucket_of(scenario)), 0) == expected


@pytest.mark.parametrize("scenario", nginx.SCENARIOS, ids=lambda s: str(s["id"]))
def test_nginx(scenario: dict[str, Any], make_store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nginx, "MemoryStore", make_store)
    theirs = [request["verdict"] for request in scenario["requests"]]
    pairs = enumerate(zip(theirs, nginx.in_a_store(scenario), strict=True))
    first = next((nginx.Deviation(i, *pair) for i, pair in pairs if pair[0] != pair[1]), None)
    assert first == nginx.DEVIATIONS.get(scenario["id"])


def calls_of(scenario: Scenario) -> list[tuple[int, int]]:
    """Moment (ns) and permits of each call."""
    if "clock" in scenario.data["init"]:
        return sentinel.moments(scenario)
    return [(at_ms * sentinel.MS, cost) for at_ms, cost in scenario.arrivals]


def is_short_and_of_this_century(scenario: Scenario) -> bool:
    """A server's clock is neither near 0 nor finer than a microsecond; and each call is a round trip."""
    calls = calls_of(scenario)
    moments = all(now_ns > YEAR_2000_NS and not now_ns % 1000 for now_ns, _ in calls)
    return moments and all(cost >= 0 for _, cost in calls) and len(calls) <= 1000


BUILDERS: list[tuple[Callable[[Scenario], Algorithm], list[Scenario]]] = [
    (pacing.pacing, pacing.FOLLOWED),
    (warm_up.warm_up, warm_up.SCENARIOS),
    (warm_up_pacing.pacing, warm_up_pacing.COUNTED),
    (lambda scenario: QpsWindow(scenario.data["count"]), qps_window.COUNTED),
]
SENTINEL: dict[str, tuple[Algorithm, Scenario]] = {
    scenario.id: (build(scenario), scenario)
    for build, scenarios in BUILDERS
    for scenario in scenarios
    if not scenario.stubbed and is_short_and_of_this_century(scenario)
}


@pytest.mark.parametrize("name", SENTINEL)
def test_sentinel(name: str, make_store: MakeStore) -> None:
    """As the pure function answers, which follows the original or is listed where it does not."""
    algorithm, scenario = SENTINEL[name]
    wait_ns, clock = int(scenario.data.get("max_queueing_time_ms", 0)) * sentinel.MS, ManualClock()
    calls = calls_of(scenario)
    store, state = make_store(clock=clock), algorithm.start(calls[0][0])
    for now_ns, cost in calls:
        clock.set_ns(now_ns)
        expected, state = algorithm.take(state, now_ns, cost, wait_ns)
        [decision] = store.take([Check("k", algorithm, "|*", cost, wait_ns)])
        assert decision.allowed == expected.allowed
        assert 0 <= decision.at_ns - expected.at_ns < 1000


def test_something_of_each_kind_is_asked() -> None:
    assert {name.partition("_")[0] for name in SENTINEL} == {"rl", "wu", "wr", "dq"}
