"""WarmUpPacing against Sentinel's recorded answers, and where it does not follow the original."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ratelimit_middleware.algorithms._queue import round_half_up
from ratelimit_middleware.algorithms.base import State
from ratelimit_middleware.algorithms.pacing import Pacing
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.algorithms.warm_up_pacing import WarmUpPacing
from ratelimit_middleware.errors import InvalidLimitError
from tests.vectors.sentinel import Scenario, load
from tests.vectors.sentinel.replay import (
    MS,
    Outcome,
    agrees,
    behind_a_store,
    by_hand,
    max_wait_ns,
    recorded_ops,
)

pytestmark = pytest.mark.arithmetic

SECOND = 1_000_000_000
NOW = 1_700_000_000 * SECOND


class Deviation(NamedTuple):
    """A scenario in which ours does not follow, with both sides pinned.

    Attributes:
        fault: what is wrong with the original; a heading of docs/deviations/sentinel.md.
        first: number of the first call that hears something else.
        sentinel: permits that the original admits.
        ours: permits that ours admits.
    """

    fault: str
    first: int
    sentinel: int
    ours: int


DEVIATIONS = {
    "wr_edge-01": Deviation("no limit", 1, 58, 6),
    "wr_edge-02": Deviation("no limit", 0, 89, 0),
    "wr_fast-01": Deviation("no limit", 12000, 15100, 10600),
    "wr_edge-07": Deviation("clock near 0", 0, 50, 19),
}

SCENARIOS = load("warm_up_rate_limiter")
STUBBED = [scenario for scenario in SCENARIOS if scenario.stubbed]
COUNTED = [scenario for scenario in SCENARIOS if not scenario.stubbed]
FOLLOWED = [scenario for scenario in COUNTED if scenario.id not in DEVIATIONS]
DEVIATING = [scenario for scenario in COUNTED if scenario.id in DEVIATIONS]


def named(scenario: object) -> str:
    return scenario.id if isinstance(scenario, Scenario) else str(scenario)


def pacing(scenario: Scenario) -> WarmUpPacing:
    """In whole milliseconds, as the original."""
    data = scenario.data
    queueing = timedelta(milliseconds=data["max_queueing_time_ms"])
    return WarmUpPacing(data["count"], data["warm_up_period_s"], data["cold_factor"], queueing, whole_ms=True)


def never_passed(scenario: Scenario, algorithm: WarmUpPacing) -> int:
    latest_ns: int = algorithm.start(scenario.arrivals[0][0] * MS)[2]
    return latest_ns


def states(scenario: Scenario, algorithm: WarmUpPacing, answers: Sequence[State]) -> list[State]:
    """Tokens, the second they were counted in, and the latest pass in ms: -1 if nobody has passed yet."""
    never_ns = never_passed(scenario, algorithm)
    return [
        (stored, filled_ms, -1 if latest_ns == never_ns else latest_ns // MS)
        for stored, filled_ms, latest_ns, *_ in answers
    ]


def recorded_states(scenario: Scenario) -> list[State]:
    names = ("stored_tokens", "last_filled_ms", "latest_passed_ms")
    return [tuple(op["state_after"][name] for name in names) for op in scenario.ops]


def last_of_each_second(scenario: Scenario, tokens: Sequence[int]) -> list[int | None]:
    last: list[int | None] = [None] * len(scenario.data["stored_tokens_per_second"])
    for (at_ms, _), stored in zip(scenario.arrivals, tokens, strict=True):
        last[(at_ms - scenario.data["start_ms"]) // 1000] = stored
    return last


@pytest.mark.parametrize("scenario", SCENARIOS, ids=named)
def test_the_bucket_has_sentinels_numbers(scenario: Scenario) -> None:
    algorithm, init = pacing(scenario), scenario.data["init"]
    assert (algorithm.warning_token, algorithm.max_token) == (init["warning_token"], init["max_token"])
    if algorithm.max_token > algorithm.warning_token:
        assert algorithm.slope == float(init["slope"])


@pytest.mark.parametrize("scenario", FOLLOWED, ids=named)
def test_sentinels_decisions_waits_and_states_are_reproduced(scenario: Scenario) -> None:
    algorithm = pacing(scenario)
    answers = list(by_hand(algorithm, scenario))
    assert agrees(scenario, [outcome for outcome, _ in answers])
    ours = states(scenario, algorithm, [state for _, state in answers])
    if scenario.ops:
        assert ours == recorded_states(scenario)
    else:
        tokens = last_of_each_second(scenario, [state[0] for state in ours])
        assert tokens == scenario.data["stored_tokens_per_second"]


@pytest.mark.parametrize("scenario", FOLLOWED, ids=named)
def test_a_store_reproduces_sentinels_decisions_and_waits(scenario: Scenario) -> None:
    assert agrees(scenario, behind_a_store(pacing(scenario), scenario))


@pytest.mark.parametrize("scenario", STUBBED, ids=named)
def test_sentinels_decisions_on_given_statistics_are_reproduced(scenario: Scenario) -> None:
    algorithm = pacing(scenario)
    latest_ns, core = -MS, algorithm.cold_core(scenario.arrivals[0][0] * MS)
    for op, recorded, state in zip(
        scenario.ops, recorded_ops(scenario), recorded_states(scenario), strict=True
    ):
        now_ns = op["at_ms"] * MS
        at_ns, core = algorithm.decide(core, latest_ns, now_ns, op["acquire"], op["previous_pass_qps"])
        latest_ns = latest_ns if at_ns is None else at_ns
        wait_ms = 0 if at_ns is None else (at_ns - now_ns) // MS
        assert (at_ns is not None, wait_ms) == recorded
        assert (*core, latest_ns // MS) == state


def without_a_limit(scenario: Scenario) -> Iterator[Outcome]:
    """The original where a price that rounds to nothing costs nothing (the bucket being ours)."""
    algorithm, latest_ms = pacing(scenario), -1
    state = algorithm.start(scenario.arrivals[0][0] * MS)
    for at_ms, cost in scenario.arrivals:
        state = algorithm.step(state, at_ms * MS)
        due_ms = latest_ms + round_half_up(cost / algorithm.rate(state[0]) * 1000)
        wait_ms = max(0, due_ms - at_ms)
        passed = wait_ms <= scenario.data["max_queueing_time_ms"]
        if passed:
            latest_ms = at_ms + wait_ms
            second = latest_ms // 1000
            counts = dict(zip(state[4][::2], state[4][1::2], strict=True))
            counts[second] = counts.get(second, 0) + cost
            state = (*state[:4], tuple(number for pair in sorted(counts.items()) for number in pair))
        yield Outcome(passed, wait_ms if passed else 0)


def admitted(scenario: Scenario, outcomes: Sequence[Outcome]) -> int:
    return sum(cost for (_, cost), outcome in zip(scenario.arrivals, outcomes, strict=True) if outcome.passed)


@pytest.mark.parametrize("scenario", DEVIATING, ids=named)
def test_a_listed_deviation_is_what_the_table_says(scenario: Scenario) -> None:
    """Fails too if the scenario no longer deviates."""
    theirs = recorded_ops(scenario) or list(without_a_limit(scenario))
    ours = [outcome for outcome, _ in by_hand(pacing(scenario), scenario)]
    assert agrees(scenario, theirs)
    first = next(call for call, pair in enumerate(zip(theirs, ours, strict=True)) if pair[0] != pair[1])
    sums = admitted(scenario, theirs), admitted(scenario, ours)
    assert DEVIATIONS[scenario.id][1:] == (first, *sums)
    assert behind_a_store(pacing(scenario), scenario) == ours


@pytest.mark.parametrize("scenario", [s for s in DEVIATING if s.data["count"]], ids=named)
def test_where_sentinel_has_no_limit_ours_keeps_the_configured_rate(scenario: Scenario) -> None:
    """All requests but the first, with those that may queue at the end."""
    count, (first_ms, _), (last_ms, _) = scenario.data["count"], scenario.arrivals[0], scenario.arrivals[-1]
    seconds = (last_ms - first_ms + scenario.data["max_queueing_time_ms"]) / 1000
    ours = [outcome for outcome, _ in by_hand(pacing(scenario), scenario)]
    assert admitted(scenario, ours) <= 1 + seconds * count


def test_the_page_lists_the_same_deviations_as_this_table() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "deviations", "sentinel.md").read_text("utf-8")
    rows = re.findall(r"^\| `(wr_\S+)` \| (.+?) \| (.+?) \| (.+?) \|$", page, re.MULTILINE)
    table = [(name, d.fault, f"{d.sentinel} permits", f"{d.ours} permits") for name, d in DEVIATIONS.items()]
    assert sorted(rows) == sorted(table)
    assert all(f"\n## {deviation.fault}\n" in page for deviation in DEVIATIONS.values())
    assert {scenario.id for scenario in DEVIATING} == set(DEVIATIONS)


def ramp(algorithm: WarmUpPacing, rate: int, seconds: int) -> list[int]:
    """Starts in each second under `rate` evenly spaced requests a second, none of which wait."""
    state, passed = algorithm.start(NOW), [0] * seconds
    for request in range(rate * seconds):
        decision, state = algorithm.take(state, NOW + request * SECOND // rate)
        passed[request // rate] += decision.allowed
    return passed


def warmed(algorithm: WarmUpPacing, seconds: int) -> State:
    """The state after `seconds` in which somebody comes whenever there is room."""
    now_ns, state = NOW, algorithm.start(NOW)
    while now_ns < NOW + seconds * SECOND:
        decision, state = algorithm.take(state, now_ns)
        assert decision.allowed
        now_ns += decision.reset_after_ns
    return state


@pytest.mark.parametrize(
    ("algorithm", "published"),
    [
        (WarmUpPacing(100, 10, whole_ms=True), [34, 34, 37, 39, 42, 43, 48, 52, 59, 72, 83, 100, 100]),
        (WarmUpPacing(10, 5, whole_ms=True), [4, 4, 4, 5, 6, 9, 10, 10]),
        (WarmUpPacing(2, 10, whole_ms=True), [1, 1, 1, 1, 0, 1, 1, 2, 1, 2, 2, 2]),
        (WarmUpPacing(1, 10, whole_ms=True), [1, 0, 1, 0, 1, 0, 1, 0, 1, 1, 1]),
    ],
)
def test_whole_milliseconds_climb_as_published(algorithm: WarmUpPacing, published: list[int]) -> None:
    """One request a millisecond. The first two rows as published; the others admit a request now and then."""
    assert ramp(algorithm, 1000, len(published)) == published


@pytest.mark.parametrize("count", [3, 80, 400, 700, 1500, 2500, 100_000])
def test_a_warm_bucket_runs_at_its_count_whatever_it_is(count: int) -> None:
    """The original runs at 80, 400, 700 and 1500 with 77, 333, 1000 and 1000, above 2000 without a limit."""
    algorithm = WarmUpPacing(count, 0.01 if count > 9999 else 1, 1.5, 0)
    warm_ns = algorithm.price_ns(0, 1)
    assert 0 <= warm_ns - SECOND / count < 1
    assert WarmUpPacing(count, 1, 1.5, 0, whole_ms=True).price_ns(0, 1) >= min(warm_ns, MS)


@pytest.mark.parametrize(("count", "interval_ms"), [(80, 13), (400, 3), (700, 1), (1500, 1)])
def test_whole_milliseconds_round_as_the_original(count: int, interval_ms: int) -> None:
    assert WarmUpPacing(count, 1, 3, 0, whole_ms=True).price_ns(0, 1) == interval_ms * MS


def test_the_price_falls_from_cold_to_warm() -> None:
    algorithm = WarmUpPacing(100, 10)
    assert (algorithm.warning_token, algorithm.max_token) == (500, 1000)
    assert [algorithm.price_ns(stored, 1) // MS for stored in (1000, 750, 500, 0)] == [30, 20, 10, 10]
    assert algorithm.price_ns(750, 7) == 140 * MS


def test_a_warm_up_reaches_the_count_and_cools_when_idle() -> None:
    algorithm = WarmUpPacing(50, 4, max_queueing_time=0)
    state = warmed(algorithm, 8)
    now_ns = NOW + 8 * SECOND
    assert ramp(algorithm, 400, 8)[-2:] == [50, 50]
    assert algorithm.price_ns(algorithm.step(state, now_ns)[0], 1) == 20 * MS
    assert algorithm.price_ns(algorithm.step(state, now_ns + 3 * SECOND)[0], 1) == 60 * MS


@pytest.mark.parametrize("count", [0.5, 1, 2, 2.5])
def test_counts_below_the_cold_factor_are_reached_too(count: float) -> None:
    """A second without a pass is no quiet one if the next request could not have started in it."""
    passed = ramp(WarmUpPacing(count, 10, max_queueing_time=0), 40, 120)
    assert sum(passed[:6]) <= 1 + 6 * count / 2
    assert sum(passed[-40:]) >= 36 * count


@pytest.mark.parametrize("count", [0.5, 1, 2])
def test_counts_below_the_cold_factor_cool_again(count: float) -> None:
    algorithm = WarmUpPacing(count, 10, max_queueing_time=0)
    state = algorithm.start(NOW)
    for request in range(120 * 40):
        _, state = algorithm.take(state, NOW + request * SECOND // 40)
    assert state[0] < algorithm.max_token
    assert algorithm.step(state, NOW + 180 * SECOND)[0] == algorithm.max_token


def test_seconds_that_nobody_follows_up_do_not_warm() -> None:
    """As in the original: a client that comes every 3 s, when it may, stays cold."""
    algorithm = WarmUpPacing(1, 10, max_queueing_time=0)
    assert algorithm.price_ns(warmed(algorithm, 60)[0], 1) == 3 * SECOND


def test_those_who_wait_are_counted_in_the_second_in_which_they_start() -> None:
    algorithm = WarmUpPacing(2, 10, max_queueing_time=5)
    state = algorithm.start(NOW)
    for _ in range(3):
        _, state = algorithm.take(state, NOW, 1, None)
    second = NOW // SECOND
    assert state[4] == (second, 1, second + 1, 1, second + 3, 1)


def test_retry_after_knows_that_it_warms_meanwhile() -> None:
    """Two permits wait 28 s at the cold price; when they come back it is a little warmer."""
    algorithm = WarmUpPacing(10, 2, max_queueing_time=0)
    state = warmed(algorithm, 1)
    now_ns = NOW + SECOND - 1
    refused, kept = algorithm.take(state, now_ns, 2)
    assert refused.retry_after_ns is not None
    due_ns = now_ns + refused.retry_after_ns
    assert algorithm.take(kept, due_ns, 2)[0].allowed
    assert not algorithm.take(kept, due_ns - 1, 2)[0].allowed
    assert due_ns < kept[2] + algorithm.price_ns(kept[0], 2)


def test_retry_after_knows_that_those_who_are_booked_warm_it() -> None:
    """At the price of now 50 permits would have their turn in 110 s; but until then 11 waiters pass."""
    algorithm = WarmUpPacing(5, 2, 10, max_queueing_time=20)
    state, now_ns = algorithm.start(NOW), NOW
    for _ in range(11):
        _, state = algorithm.take(state, now_ns, 1, None)
    assert state[2] == NOW + 20 * SECOND
    assert algorithm.price_ns(state[0], 50) == 100 * SECOND
    assert algorithm.take(state, now_ns, 50, 10 * SECOND)[0].retry_after_ns == 21 * SECOND
    assert not algorithm.take(state, now_ns + 21 * SECOND - 1, 50, 10 * SECOND)[0].allowed
    assert algorithm.take(state, now_ns + 21 * SECOND, 50, 10 * SECOND)[0].wait_ns == 9 * SECOND


def test_passes_far_behind_the_queue_are_not_gone_through_second_by_second() -> None:
    """No limiter writes such a state; a store may hold a broken one, which must not keep the process busy."""
    algorithm = WarmUpPacing(10, 5, max_queueing_time=6, whole_ms=True)
    latest_ns, second = NOW + 20 * SECOND, NOW // SECOND
    state = (10**9, 1000 * (second + 10**9), latest_ns, NOW, (second + 10**15, 5))
    refused, _ = algorithm.take(state, NOW, 1)
    assert refused.retry_after_ns == latest_ns + algorithm.price_ns(10**9, 1) - NOW


def test_waiters_that_leave_from_the_end_give_their_moments_back() -> None:
    algorithm = WarmUpPacing(10, 5)
    _, state = algorithm.take(algorithm.start(NOW), NOW)
    first, one = algorithm.take(state, NOW, 1, None)
    assert first.wait_ns == 300 * MS
    assert algorithm.give_back(one, NOW, 1, first.at_ns) == state
    assert algorithm.give_back(one, NOW, 1, NOW) == one


def test_a_place_booked_in_an_earlier_second_comes_back_at_the_least_price() -> None:
    algorithm = WarmUpPacing(10, 5, max_queueing_time=2)
    _, state = algorithm.take(algorithm.start(NOW), NOW + 900 * MS)
    booking, state = algorithm.take(state, NOW + 900 * MS, 1, None)
    later_ns = NOW + 1100 * MS
    state = algorithm.give_back(algorithm.step(state, later_ns), later_ns, 1, booking.at_ns)
    assert state[2] == booking.at_ns - 100 * MS
    assert state[4] == ()


def test_a_place_before_one_that_has_gone_comes_back_at_the_price_of_its_own_second() -> None:
    algorithm = WarmUpPacing(10, 5, max_queueing_time=2)
    _, state = algorithm.take(algorithm.start(NOW), NOW + 900 * MS)
    gone, state = algorithm.take(state, NOW + 900 * MS, 5, None)
    later_ns = NOW + 1100 * MS
    state = algorithm.give_back(algorithm.step(state, later_ns), later_ns, 5, gone.at_ns)
    booking, one = algorithm.take(state, later_ns, 1, None)
    assert booking.at_ns == gone.at_ns - 5 * 100 * MS + 292 * MS
    assert algorithm.give_back(one, later_ns, 1, booking.at_ns) == state


def test_count_0_refuses_everything_and_says_that_waiting_is_useless() -> None:
    algorithm = WarmUpPacing(0, 10)
    decision, _ = algorithm.take(algorithm.start(NOW), NOW, 1, None)
    assert (decision.allowed, decision.retry_after_ns, decision.remaining) == (False, None, 0)
    assert algorithm.decide((0, 0), -1, NOW, 1, 0)[0] is None
    assert (algorithm.smallest_full_take, algorithm.quota) == (0, 0)


@pytest.mark.parametrize("whole_ms", [False, True])
def test_a_count_of_0_gives_nothing_back_of_what_it_has_adopted(whole_ms: bool) -> None:
    algorithm, old = WarmUpPacing(0, 10, whole_ms=whole_ms), SlidingWindow(3, 10)
    state = algorithm.adopt(old.take(old.start(NOW), NOW, 1)[1], NOW, old, "keep")
    assert algorithm.give_back(state, NOW, 1, NOW) == state


def test_a_reload_keeps_a_warm_bucket_warm_and_the_moments_that_were_booked() -> None:
    old, new = WarmUpPacing(50, 4), WarmUpPacing(100, 10, 4)
    state = warmed(old, 8)
    adopted = new.adopt(state, NOW + 8 * SECOND, old, "keep")
    assert adopted[2] == state[2]
    assert new.price_ns(adopted[0], 1) <= 11 * MS
    reset = new.adopt(state, NOW + 8 * SECOND, old, "reset")
    assert new.price_ns(reset[0], 1) == 40 * MS


def test_a_reload_keeps_a_cold_bucket_cold() -> None:
    old, new = WarmUpPacing(50, 4), WarmUpPacing(100, 10, 4)
    adopted = new.adopt(old.start(NOW), NOW, old, "keep")
    assert adopted[0] == new.max_token


def test_a_warm_bucket_is_not_forgotten_before_it_is_cold_again() -> None:
    """3001 tokens are missing at ten a second: 300.1 s, and tokens are counted once a second."""
    algorithm = WarmUpPacing(10, 600, 1.5)
    state = (algorithm.max_token - 3000, NOW // MS, NOW, NOW, (NOW // SECOND, 1))
    cold_ns = algorithm.forget_at_ns(state)
    assert cold_ns == NOW + 301 * SECOND
    assert algorithm.step(state, cold_ns)[0] == algorithm.max_token
    assert algorithm.step(state, cold_ns - 2 * SECOND)[0] < algorithm.max_token


def test_other_kinds_of_limit_leave_a_queue_and_a_cold_bucket() -> None:
    algorithm = WarmUpPacing(100, 10)
    window, pace = SlidingWindow(50, 1), Pacing(10, 1)
    _, log = window.take(window.start(NOW), NOW, 4)
    _, queue = pace.take(pace.start(NOW), NOW)
    for state, old, used in ((log, window, 4), (queue, pace, 1)):
        adopted = algorithm.adopt(state, NOW, old, "keep")
        assert adopted[0] == algorithm.max_token
        assert adopted[2] == NOW + (used - 1) * algorithm.interval_ns


def test_the_state_holds_no_second_that_is_over() -> None:
    algorithm = WarmUpPacing(1000, 2, max_queueing_time=3)
    now_ns, state = NOW, algorithm.start(NOW)
    for _ in range(4000):
        _, state = algorithm.take(state, now_ns, 1, None)
        now_ns += MS // 2 * 5
        assert len(state[4]) <= 2 * 5
    assert all(early < late for early, late in pairwise(state[4][::2]))


def test_scaled_multiplies_the_count() -> None:
    scaled = WarmUpPacing(10, timedelta(seconds=5), 2, 1, whole_ms=True).scaled(0.25)
    assert scaled == WarmUpPacing(2.5, 5, 2, 1, whole_ms=True)
    with pytest.raises(InvalidLimitError, match="factor="):
        scaled.scaled(-1)


@pytest.mark.parametrize(
    ("what", "value"),
    [("count", -1), ("count", True), ("warm_up_period", 0), ("cold_factor", 1), ("max_queueing_time", -0.1)],
)
def test_numbers_that_make_no_sense_are_refused(what: str, value: float) -> None:
    numbers: dict[str, Any] = {"count": 10, "warm_up_period": 10, what: value}
    with pytest.raises(InvalidLimitError, match=f"{what}="):
        WarmUpPacing(**numbers)


def test_the_patience_of_a_scenario_is_its_queueing_time() -> None:
    """What the replay passes as `max_wait_ns` is no other bound than the algorithm's own."""
    assert all(pacing(scenario).max_queueing_ns == max_wait_ns(scenario) for scenario in SCENARIOS)
