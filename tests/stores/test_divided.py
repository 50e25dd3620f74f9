"""DividedStore: one process's share of each limit."""

from __future__ import annotations

import pytest

from ratelimit_middleware.algorithms.base import Algorithm
from ratelimit_middleware.algorithms.fixed_window import FixedWindow
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.leaky_bucket import LeakyBucket
from ratelimit_middleware.algorithms.pacing import Pacing
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
from ratelimit_middleware.errors import InvalidLimitError
from ratelimit_middleware.stores.base import Check, Store
from ratelimit_middleware.stores.divided import DividedStore
from tests.stores.faulty import check

pytestmark = pytest.mark.arithmetic


def admitted(store: DividedStore, asked: Check, times: int = 200) -> int:
    return sum(store.take([asked])[0].allowed for _ in range(times))


def test_it_is_a_store(clock: ManualClock) -> None:
    assert isinstance(DividedStore(2, clock=clock), Store)


@pytest.mark.parametrize(
    ("limit", "workers", "share"),
    [(100, 4, 25), (10, 4, 2), (3, 4, 1), (1, 1000, 1), (100, 1, 100), (98, 49, 2)],
)
def test_each_process_admits_its_share_rounded_down_and_at_least_one(
    clock: ManualClock, limit: int, workers: int, share: int
) -> None:
    assert admitted(DividedStore(workers, clock=clock), check(limit=limit)) == share


@pytest.mark.parametrize("workers", range(1, 200))
def test_the_rounding_of_a_factor_costs_no_permit(workers: int) -> None:
    assert SlidingWindow(3 * workers, 60).scaled(1 / workers).limit == 3


EVERY_KIND: list[Algorithm] = [
    SlidingWindow(8, 60),
    FixedWindow(8, "minute"),
    SlidingCounter(8, 60),
    WarmUpWindow(30, 1, 10),
    GCRA(8, 60, 8),
    TokenBucket(8, 60),
    LeakyBucket(8, 8),
    SmoothBursty(8),
    SmoothWarmingUp(8, 10),
    WarmUp(30, 10),
    QpsWindow(8),
    Pacing(8, 1),
    WarmUpPacing(30, 10),
]


@pytest.mark.parametrize("algorithm", EVERY_KIND, ids=lambda algorithm: type(algorithm).__name__)
@pytest.mark.parametrize("workers", [4, 1000])
def test_every_algorithm_can_be_divided_and_admits_something_and_no_more_than_before(
    clock: ManualClock, algorithm: Algorithm, workers: int
) -> None:
    asked = Check("a", algorithm, "a*")
    share = admitted(DividedStore(workers, clock=clock), asked)
    whole = admitted(DividedStore(1, clock=clock), asked)
    assert 1 <= share <= whole


def test_a_rate_and_its_burst_are_divided_both(clock: ManualClock) -> None:
    store = DividedStore(4, clock=clock)
    asked = Check("a", GCRA(60, 60, 20), "a*")
    assert admitted(store, asked) == 5
    clock.advance(4)
    assert admitted(store, asked) == 1


def test_a_cost_above_the_share_takes_the_whole_share_and_gives_it_back_once(clock: ManualClock) -> None:
    store = DividedStore(4, clock=clock)
    dear = check(limit=8, cost=5)
    (first,) = store.take([dear])
    assert first.allowed
    assert not store.take([check(limit=8)])[0].allowed
    store.give_back(dear, first.at_ns)
    assert admitted(store, check(limit=8)) == 2


def test_several_checks_are_all_or_nothing(clock: ManualClock) -> None:
    store = DividedStore(4, clock=clock)
    wide, tight = check("wide", 100), check("tight", 4)
    assert [decision.allowed for decision in store.take([wide, tight])] == [True, True]
    assert [decision.allowed for decision in store.take([wide, tight])] == [True, False]
    assert store.peek(wide).remaining == 23  # what is left if one more is taken


def test_a_charge_is_in_full_a_reset_forgets_it(clock: ManualClock) -> None:
    store = DividedStore(4, clock=clock)
    store.charge(check(limit=100, cost=20))
    assert admitted(store, check(limit=100)) == 5
    assert store.reset("a")
    assert not store.reset("a")
    assert admitted(store, check(limit=100)) == 25
    assert store.stats().keys == 1
    store.close()
    assert store.stats() == (0, 100_000, 0)


@pytest.mark.parametrize(("workers", "max_keys"), [(0, 1), (-1, 1), (2, 0)])
def test_nonsense_is_refused(workers: int, max_keys: int) -> None:
    with pytest.raises(InvalidLimitError):
        DividedStore(workers, max_keys=max_keys)
