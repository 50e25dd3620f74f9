"""Pacing against Sentinel's recorded answers, and what it does beyond them."""

from __future__ import annotations

import re
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.pacing import Pacing
from ratelimit_middleware.errors import InvalidLimitError
from tests.vectors.sentinel import Scenario, load
from tests.vectors.sentinel.replay import MS, agrees, behind_a_store, by_hand, moments

pytestmark = pytest.mark.arithmetic

SECOND = 1_000_000_000
NOW = 1_700_000_000 * SECOND

SCENARIOS = load("rate_limiter")
CANNOT_BE_BUILT = {"rl_edge-02": ("below 0.5 a second", "cannot be built", "one each 2500 ms")}
FOLLOWED = [scenario for scenario in SCENARIOS if scenario.id not in CANNOT_BE_BUILT]


def named(scenario: object) -> str:
    return scenario.id if isinstance(scenario, Scenario) else str(scenario)


def pacing(scenario: Scenario) -> Pacing:
    return Pacing(scenario.data["count"], timedelta(milliseconds=scenario.data["max_queueing_time_ms"]))


def latest(scenario: Scenario, algorithm: Pacing, latest_ns: int) -> int:
    """In Sentinel's unit; -1 for a key that nobody has passed yet."""
    never_ns = algorithm.start(moments(scenario)[0][0])[0]
    return -1 if latest_ns == never_ns else latest_ns // algorithm.unit_ns


def recorded_latest(scenario: Scenario) -> list[int]:
    unit = scenario.data["init"]["clock"]
    return [op["state_after"][f"latest_passed_{unit}"] for op in scenario.ops]


@pytest.mark.parametrize("scenario", FOLLOWED, ids=named)
def test_sentinels_decisions_waits_and_states_are_reproduced(scenario: Scenario) -> None:
    algorithm = pacing(scenario)
    answers = list(by_hand(algorithm, scenario))
    assert agrees(scenario, [outcome for outcome, _ in answers])
    if scenario.ops:
        assert [latest(scenario, algorithm, state[0]) for _, state in answers] == recorded_latest(scenario)


@pytest.mark.parametrize("scenario", FOLLOWED, ids=named)
def test_a_store_reproduces_sentinels_decisions_and_waits(scenario: Scenario) -> None:
    assert agrees(scenario, behind_a_store(pacing(scenario), scenario))


@pytest.mark.parametrize("scenario", [s for s in FOLLOWED if s.data["count"]], ids=named)
def test_the_unit_is_the_clock_that_sentinel_chose(scenario: Scenario) -> None:
    assert pacing(scenario).unit_ns == {"ms": MS, "ns": 1}[scenario.data["init"]["clock"]]


def test_below_half_a_permit_a_second_the_original_cannot_be_built_and_ours_paces() -> None:
    (scenario,) = (scenario for scenario in SCENARIOS if scenario.id in CANNOT_BE_BUILT)
    assert scenario.data["init"]["constructor_error"] == "java.lang.ArithmeticException / by zero"
    assert pacing(scenario).interval_ns == 2500 * MS
    assert starts(Pacing(0.4, 60), 4) == [0, 2500 * MS, 5000 * MS, 7500 * MS]


def test_the_page_lists_the_same_deviation() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "deviations", "sentinel.md").read_text("utf-8")
    rows = re.findall(r"^\| `(rl_\S+)` \| (.+?) \| (.+?) \| (.+?) \|$", page, re.MULTILINE)
    assert {name: tuple(cells) for name, *cells in rows} == CANNOT_BE_BUILT
    assert all(f"\n## {fault}\n" in page for fault, _, _ in CANNOT_BE_BUILT.values())


def starts(algorithm: Pacing, requests: int) -> list[int]:
    """When requests that come together start, after the first of them."""
    state, moments_ns = algorithm.start(NOW), []
    for _ in range(requests):
        decision, state = algorithm.take(state, NOW, 1, None)
        moments_ns.append(decision.at_ns - NOW)
    return moments_ns


def test_ten_a_second_start_one_each_100_ms() -> None:
    assert starts(Pacing(10, 0.3), 4) == [0, 100 * MS, 200 * MS, 300 * MS]


def test_who_would_wait_too_long_is_refused_and_told_when_to_come_back() -> None:
    algorithm = Pacing(10, 0.3)
    state = algorithm.start(NOW)
    for _ in range(4):
        _, state = algorithm.take(state, NOW, 1, None)
    refused, after = algorithm.take(state, NOW + 20 * MS, 1, None)
    assert (refused.allowed, refused.retry_after_ns, refused.remaining) == (False, 80 * MS, 0)
    assert after == state


@pytest.mark.parametrize(
    ("max_wait_ns", "wait_ns", "retry_ns"),
    [(None, 300 * MS, None), (10**12, 300 * MS, None), (300 * MS, 300 * MS, None), (250 * MS, 0, 50 * MS)],
)
def test_the_smaller_of_both_waits_counts(
    max_wait_ns: int | None, wait_ns: int, retry_ns: int | None
) -> None:
    algorithm = Pacing(10, 0.3)
    decision, _ = algorithm.take((NOW + 200 * MS,), NOW, 1, max_wait_ns)
    assert (decision.wait_ns, decision.retry_after_ns) == (wait_ns, retry_ns)


def test_remaining_counts_those_who_may_queue_with_the_askers_patience() -> None:
    algorithm = Pacing(10, 0.3)
    state = algorithm.start(NOW)
    patient, booked = algorithm.take(state, NOW, 1, None)
    assert (algorithm.quota, patient.remaining, patient.reset_after_ns) == (4, 3, 100 * MS)
    assert (algorithm.peek(state, NOW).allowed, algorithm.peek(booked, NOW).remaining) == (True, 0)
    assert algorithm.peek(booked, NOW).reset_after_ns == 100 * MS


def test_the_queue_of_another_limits_start_time_begins_there() -> None:
    """Another limit starts the request in 5 s; this one's queue is counted from then on."""
    algorithm = Pacing(10, 0)
    first, state = algorithm.take(algorithm.start(NOW), NOW, 1, 5 * SECOND, NOW + 5 * SECOND)
    assert first.wait_ns == 5 * SECOND
    second, _ = algorithm.take(state, NOW, 1, 5 * SECOND, NOW + 5 * SECOND)
    assert (second.allowed, second.retry_after_ns) == (False, 100 * MS)


def test_between_two_milliseconds_nothing_is_gained() -> None:
    """The original cuts the clock to milliseconds; here the distance is exact."""
    algorithm = Pacing(10, 0)
    _, state = algorithm.take(algorithm.start(NOW), NOW + MS - 1)
    assert algorithm.peek(state, NOW + 100 * MS).retry_after_ns == MS - 1


def test_idle_time_gives_no_burst() -> None:
    algorithm = Pacing(10, 0)
    _, state = algorithm.take(algorithm.start(NOW), NOW)
    later_ns = NOW + 3600 * SECOND
    decision, state = algorithm.take(state, later_ns)
    assert decision.allowed
    assert algorithm.peek(state, later_ns).retry_after_ns == 100 * MS


def test_a_large_request_pays_for_itself_before_it_starts() -> None:
    algorithm = Pacing(10, 0.5)
    _, state = algorithm.take(algorithm.start(NOW), NOW)
    refused = algorithm.take(state, NOW, 20, None)[0]
    assert refused.retry_after_ns == 1500 * MS
    assert algorithm.take(state, NOW + 1500 * MS, 20, None)[0].wait_ns == 500 * MS


def test_a_key_never_seen_counts_as_idle_for_a_minute() -> None:
    """Longer, and a client whose idle key is forgotten after a minute would gain by it."""
    algorithm = Pacing(10, 0)
    assert algorithm.peek(algorithm.start(NOW), NOW, 600).allowed
    assert algorithm.peek(algorithm.start(NOW), NOW, 601).retry_after_ns == 100 * MS
    slow = Pacing(0.001, 0)
    assert slow.peek(slow.start(NOW), NOW).allowed


def test_waiters_that_leave_from_the_end_give_their_moments_back() -> None:
    algorithm = Pacing(10, 0.5)
    _, state = algorithm.take(algorithm.start(NOW), NOW)
    first, one = algorithm.take(state, NOW, 2, None)
    second, two = algorithm.take(one, NOW, 1, None)
    assert algorithm.give_back(two, NOW, 2, first.at_ns) == two
    left = algorithm.give_back(two, NOW, 1, second.at_ns)
    assert left == one
    assert algorithm.give_back(left, NOW, 2, first.at_ns) == state


def test_count_0_refuses_everything_and_says_that_waiting_is_useless() -> None:
    algorithm = Pacing(0, 10)
    decision, _ = algorithm.take(algorithm.start(NOW), NOW, 1, None)
    assert (decision.allowed, decision.retry_after_ns, decision.remaining) == (False, None, 0)
    assert (algorithm.smallest_full_take, algorithm.quota) == (0, 0)


@pytest.mark.parametrize(
    ("count", "interval_ns"),
    [
        (1.4, 714 * MS),
        (3, 333_333_333),
        (1000, MS),
        (1001, 999_001),
        (0.4999, 2_000_400_080),
        (2.5, 400 * MS),
    ],
)
def test_the_interval_is_rounded_as_in_the_original(count: float, interval_ns: int) -> None:
    algorithm = Pacing(count, 3600)
    assert algorithm.interval_ns == interval_ns
    assert {late - early for early, late in pairwise(starts(algorithm, 5))} == {interval_ns}


def test_booked_moments_stay_when_the_numbers_change() -> None:
    old, new = Pacing(10, 1), Pacing(20, 1)
    _, state = old.take(old.start(NOW), NOW, 5, None)
    for _ in range(3):
        decision, state = old.take(state, NOW, 1, None)
    assert new.take(new.adopt(state, NOW, old, "keep"), NOW, 1, None)[0].at_ns == decision.at_ns + 50 * MS
    assert new.adopt(state, NOW, old, "reset") == new.start(NOW)


def test_another_kind_of_limit_leaves_a_queue() -> None:
    bucket, algorithm = GCRA(10, 1, 10), Pacing(10, 1)
    _, state = bucket.take(bucket.start(NOW), NOW, 3)
    assert algorithm.used(algorithm.adopt(state, NOW, bucket, "keep"), NOW) == 3
    assert algorithm.adopt(bucket.start(NOW), NOW, bucket, "keep") == algorithm.start(NOW)


def test_scaled_multiplies_the_count() -> None:
    assert Pacing(10, timedelta(seconds=1)).scaled(0.25) == Pacing(2.5, 1)
    with pytest.raises(InvalidLimitError, match="factor="):
        Pacing(10, 1).scaled(0)


@pytest.mark.parametrize("count", [-1, 1e-10, float("nan"), float("inf"), 1e10, True, "many", None])
def test_a_count_that_makes_no_sense_is_refused(count: float) -> None:
    with pytest.raises(InvalidLimitError, match="count="):
        Pacing(count, 1)


@pytest.mark.parametrize("queueing", [-1, float("nan"), "1s", None])
def test_a_queueing_time_that_makes_no_sense_is_refused(queueing: float) -> None:
    with pytest.raises(InvalidLimitError, match="max_queueing_time="):
        Pacing(10, queueing)
