"""WarmUp against Sentinel's recorded answers, and where it does not follow the original."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from ratelimit_middleware.algorithms.base import State
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.algorithms.warm_up import Core, WarmUp
from ratelimit_middleware.errors import InvalidLimitError
from tests.properties.laws import capacity
from tests.vectors.sentinel import Scenario, load, outcome_sha256

pytestmark = pytest.mark.arithmetic

MS = 1_000_000
SECOND = 1_000_000_000
EPOCH_SECOND = 1_700_000_000 * SECOND
RAMP = [33, 34, 36, 38, 41, 44, 47, 52, 58, 68, 83, 100, 100]


class Deviation(NamedTuple):
    """A scenario in which ours does not follow, with both sides pinned.

    Attributes:
        fault: what is wrong with the original; a heading of docs/deviations.md.
        first: number of the first call that is answered otherwise or leaves other tokens behind.
        sentinel: permits that the original admits.
        ours: permits that ours admits.
    """

    fault: str
    first: int
    sentinel: int
    ours: int


DEVIATIONS = {
    "wu_acquire-01": Deviation("window", 115, 265, 248),
    "wu_acquire-02": Deviation("window", 46, 124, 116),
    "wu_mid-04": Deviation("window", 1846, 2495, 2495),
    "wu_mid-05": Deviation("window", 973, 1800, 1800),
    "wu_node_random-01": Deviation("window", 284, 147, 143),
    "wu_ramp-01": Deviation("window", 1101, 2559, 2557),
    "wu_ramp-02": Deviation("window", 551, 1153, 1152),
    "wu_edge_small-02": Deviation("never admits", 0, 0, 12),
    "wu_edge_small-04": Deviation("never admits", 0, 0, 20),
    "wu_edge_small-07": Deviation("never admits", 0, 0, 7),
    "wu_nextup-04": Deviation("never admits", 0, 0, 66),
    "wu_deadzone-01": Deviation("dead zone", 6, 9, 6),
    "wu_deadzone-02": Deviation("dead zone", 4, 10, 7),
    "wu_edge_small-05": Deviation("dead zone", 0, 44, 39),
    "wu_edge_small-08": Deviation("dead zone", 21, 30, 23),
    "wu_clock-01": Deviation("clock near 0", 0, 10, 5),
}


class Answer(NamedTuple):
    """One call: passed or not, and the core afterwards."""

    passed: bool
    core: Core


def warm_up(scenario: Scenario) -> WarmUp:
    data = scenario.data
    return WarmUp(data["count"], data["warm_up_period_s"], data["cold_factor"])


def ours(scenario: Scenario) -> list[Answer]:
    """Through the public `take`; stub-driven ones through `decide`."""
    if scenario.stubbed:
        return ours_stubbed(scenario)
    algorithm, answers = warm_up(scenario), []
    state = algorithm.start(scenario.arrivals[0][0] * MS)
    for at_ms, cost in scenario.arrivals:
        decision, state = algorithm.take(state, at_ms * MS, cost)
        answers.append(Answer(decision.allowed, state[:2]))
    return answers


def ours_stubbed(scenario: Scenario) -> list[Answer]:
    algorithm, answers = warm_up(scenario), []
    core: Core = algorithm.start(scenario.arrivals[0][0] * MS)[:2]
    for op in scenario.ops:
        statistics = op["pass_qps"], op["previous_pass_qps"]
        passed, core = algorithm.decide(core, op["at_ms"], op["acquire"], *statistics)
        answers.append(Answer(passed, core))
    return answers


def ours_on_sentinels_statistics(scenario: Scenario) -> list[Answer]:
    """Through `decide`, with the two half seconds and the calendar second counted here."""
    algorithm, answers = warm_up(scenario), []
    core: Core = algorithm.start(scenario.arrivals[0][0] * MS)[:2]
    halves: dict[int, int] = defaultdict(int)
    for at_ms, cost in scenario.arrivals:
        half, second = at_ms // 500, at_ms // 1000 * 2
        before = halves[second - 2] + halves[second - 1]
        passed, core = algorithm.decide(core, at_ms, cost, halves[half] + halves[half - 1], before)
        halves[half] += cost * passed
        answers.append(Answer(passed, core))
    return answers


def agrees(scenario: Scenario, answers: Sequence[Answer]) -> bool:
    """Whether every decision and every state is the recorded one."""
    if scenario.ops:
        return list(answers) == recorded_ops(scenario)
    data = scenario.data
    stored: list[int | None] = [None] * len(data["stored_tokens_per_second"])
    for (at_ms, _), answer in zip(scenario.arrivals, answers, strict=True):
        stored[(at_ms - data["start_ms"]) // 1000] = answer.core[0]
    digest = outcome_sha256((answer.passed, 0) for answer in answers)
    return (digest, stored) == (data["outcome_sha256"], data["stored_tokens_per_second"])


def recorded_ops(scenario: Scenario) -> list[Answer]:
    return [
        Answer(
            op["expect"]["pass"], (op["state_after"]["stored_tokens"], op["state_after"]["last_filled_ms"])
        )
        for op in scenario.ops
    ]


def recorded(scenario: Scenario) -> list[Answer]:
    """Call by call; for a pattern a list that has the recorded digest."""
    if scenario.ops:
        return recorded_ops(scenario)
    full = warm_up(scenario).max_token
    nothing = [Answer(False, (full, at_ms - at_ms % 1000)) for at_ms, _ in scenario.arrivals]  # noqa: FBT003
    for answers in (ours_on_sentinels_statistics(scenario), nothing):
        if agrees(scenario, answers):
            return answers
    raise AssertionError(f"no decisions with the digest of {scenario.id}")


def admitted(scenario: Scenario, answers: Sequence[Answer]) -> int:
    return sum(cost for (_, cost), answer in zip(scenario.arrivals, answers, strict=True) if answer.passed)


def most_in_a_second(scenario: Scenario, answers: Sequence[Answer]) -> int:
    hits = [hit for hit, answer in zip(scenario.arrivals, answers, strict=True) if answer.passed]
    first = most = total = 0
    for at_ms, cost in hits:
        total += cost
        while hits[first][0] <= at_ms - 1000:
            total -= hits[first][1]
            first += 1
        most = max(most, total)
    return most


SCENARIOS = load("warm_up")
FOLLOWED = [scenario for scenario in SCENARIOS if scenario.id not in DEVIATIONS]
DEVIATING = [scenario for scenario in SCENARIOS if scenario.id in DEVIATIONS]


def named(scenario: object) -> str:
    return scenario.id if isinstance(scenario, Scenario) else str(scenario)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=named)
def test_the_bucket_has_sentinels_numbers(scenario: Scenario) -> None:
    algorithm, init = warm_up(scenario), scenario.data["init"]
    assert (algorithm.warning_token, algorithm.max_token) == (init["warning_token"], init["max_token"])
    if algorithm.max_token > algorithm.warning_token:
        assert algorithm.slope == float(init["slope"])


@pytest.mark.parametrize("scenario", FOLLOWED, ids=named)
def test_sentinels_decisions_and_states_are_reproduced(scenario: Scenario) -> None:
    assert agrees(scenario, ours(scenario))


@pytest.mark.parametrize("scenario", DEVIATING, ids=named)
def test_a_listed_deviation_is_what_the_table_says(scenario: Scenario) -> None:
    """Fails too if the scenario no longer deviates."""
    theirs, answers = recorded(scenario), ours(scenario)
    first = next(call for call, pair in enumerate(zip(theirs, answers, strict=True)) if pair[0] != pair[1])
    sums = admitted(scenario, theirs), admitted(scenario, answers)
    assert DEVIATIONS[scenario.id][1:] == (first, *sums)
    assert not agrees(scenario, answers)


@pytest.mark.parametrize("scenario", [s for s in DEVIATING if DEVIATIONS[s.id].fault == "window"], ids=named)
def test_where_the_window_deviates_sentinels_own_statistics_give_sentinels_answers(
    scenario: Scenario,
) -> None:
    """Only the bound is ours; the first difference is a pass beyond `count` in one second."""
    theirs = ours_on_sentinels_statistics(scenario)
    assert agrees(scenario, theirs)
    first, count, arrivals = DEVIATIONS[scenario.id].first, scenario.data["count"], scenario.arrivals
    now_ms, cost = arrivals[first]
    hits = zip(arrivals[:first], theirs[:first], strict=True)
    in_second = sum(n for (at_ms, n), answer in hits if answer.passed and at_ms > now_ms - 1000)
    assert theirs[first].passed
    assert in_second + cost > count


@pytest.mark.parametrize("scenario", [s for s in SCENARIOS if not s.stubbed], ids=named)
def test_no_second_holds_more_than_count_in_any_scenario(scenario: Scenario) -> None:
    assert most_in_a_second(scenario, ours(scenario)) <= max(1, scenario.data["count"])


def test_the_page_lists_the_same_deviations_as_this_table() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "deviations.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(wu_\S+)` \| (.+?) \| (\d+) \| (\d+) \|$", page, re.MULTILINE)
    table = [(name, d.fault, str(d.sentinel), str(d.ours)) for name, d in DEVIATIONS.items()]
    assert sorted(rows) == sorted(table)
    assert all(f"\n### {deviation.fault}\n" in page for deviation in DEVIATIONS.values())
    assert {scenario.id for scenario in DEVIATING} == set(DEVIATIONS)


def ramp(algorithm: WarmUp, rate: int, seconds: int, start_ns: int = EPOCH_SECOND) -> list[int]:
    """Admissions in each second under `rate` evenly spaced requests a second."""
    state, passed = algorithm.start(start_ns), [0] * seconds
    for request in range(rate * seconds):
        decision, state = algorithm.take(state, start_ns + request * SECOND // rate)
        passed[request // rate] += decision.allowed
    return passed


def warmed(algorithm: WarmUp, seconds: int, start_ns: int = EPOCH_SECOND) -> State:
    """The state after `seconds` of full load, twice the count."""
    rate = int(2 * algorithm.count)
    state = algorithm.start(start_ns)
    for request in range(rate * seconds):
        _, state = algorithm.take(state, start_ns + request * SECOND // rate)
    return state


def test_a_rule_of_100_a_second_warms_up_as_published() -> None:
    assert ramp(WarmUp(100, 10), 500, len(RAMP)) == RAMP


@pytest.mark.parametrize("start_ns", [0, 1, 999 * MS, EPOCH_SECOND])
def test_the_start_is_cold_whatever_the_clock_says(start_ns: int) -> None:
    algorithm = WarmUp(100, 10)
    assert capacity(algorithm, algorithm.start(start_ns), start_ns) == 33
    assert ramp(algorithm, 500, 3, start_ns // SECOND * SECOND) == RAMP[:3]


@pytest.mark.parametrize(
    ("count", "period_s", "factor"),
    [(2, 10, 3), (1, 10, 3), (1, 1, 3), (3, 1, 50), (10, 8, 10), (2, 1, 3), (7.9, 0.01, 2), (5, 1, 8)],
)
def test_every_count_is_reached_in_the_end(count: float, period_s: float, factor: float) -> None:
    passed = ramp(WarmUp(count, period_s, factor), 20, 60)
    assert passed[-10:] == [int(count)] * 10


@pytest.mark.parametrize(("count", "seconds_each"), [(0.5, 2), (0.1, 10), (0.25, 4)])
def test_below_one_a_second_one_permit_in_its_time_is_to_be_had(count: float, seconds_each: int) -> None:
    passed = ramp(WarmUp(count, 10), 10, 10 * seconds_each)
    assert passed == ([1] + [0] * (seconds_each - 1)) * 10


def test_count_0_refuses_everything_and_says_that_waiting_is_useless() -> None:
    decision, _ = WarmUp(0, 10).take(WarmUp(0, 10).start(0), 0, 1, None)
    assert (decision.allowed, decision.retry_after_ns, decision.remaining) == (False, None, 0)


def test_two_quiet_seconds_cool_a_bucket_of_5_seconds_down() -> None:
    algorithm = WarmUp(100, 5)
    state = warmed(algorithm, 12)
    idle_ns = (SECOND // 2, SECOND, 2 * SECOND)
    assert [capacity(algorithm, state, EPOCH_SECOND + 12 * SECOND + ns) for ns in idle_ns] == [100, 43, 33]


def test_a_refused_take_tells_when_the_next_permit_comes() -> None:
    """33 permits go at 0.2 s; they count in two half seconds, so the next one comes at 1.0 s."""
    algorithm = WarmUp(100, 10)
    now_ns = EPOCH_SECOND + SECOND // 5
    state = algorithm.start(now_ns)
    for _ in range(33):
        _, state = algorithm.take(state, now_ns)
    decision = algorithm.peek(state, now_ns)
    assert (decision.allowed, decision.retry_after_ns, decision.remaining) == (False, 4 * SECOND // 5, 0)


def test_a_booking_ahead_is_made_for_the_first_moment_with_room() -> None:
    algorithm = WarmUp(1, 10)
    _, state = algorithm.take(algorithm.start(EPOCH_SECOND), EPOCH_SECOND)
    waits = []
    for _ in range(3):
        decision, state = algorithm.take(state, EPOCH_SECOND, 1, None)
        waits.append(decision.wait_ns)
    assert waits == [SECOND, 2 * SECOND, 3 * SECOND]
    assert algorithm.peek(state, EPOCH_SECOND).retry_after_ns == 4 * SECOND


def test_a_cost_above_the_cold_threshold_needs_the_traffic_of_others() -> None:
    algorithm = WarmUp(100, 10)
    assert algorithm.smallest_full_take == 33
    refused = algorithm.peek(algorithm.start(EPOCH_SECOND), EPOCH_SECOND, 34)
    assert (refused.allowed, refused.retry_after_ns) == (False, None)
    assert algorithm.peek(warmed(algorithm, 14), EPOCH_SECOND + 29 * SECOND // 2, 70).allowed


def test_a_given_back_booking_leaves_the_half_second_too() -> None:
    algorithm = WarmUp(100, 10)
    state = algorithm.start(EPOCH_SECOND)
    booking, booked = algorithm.take(state, EPOCH_SECOND, 33)
    after = algorithm.give_back(booked, EPOCH_SECOND, 33, booking.at_ns)
    assert after == algorithm.step(state, EPOCH_SECOND)
    assert algorithm.give_back(after, EPOCH_SECOND, 33, booking.at_ns) == after


def test_the_log_holds_one_entry_a_millisecond_of_the_last_second() -> None:
    algorithm = WarmUp(5000, 1, 1.5)
    now_ns, state = EPOCH_SECOND, algorithm.start(EPOCH_SECOND)
    for _ in range(8000):
        now_ns += SECOND // 4000
        _, state = algorithm.take(state, now_ns)
        assert len(state[-1]) <= 2 * 1001
    assert all(early // MS < late // MS for early, late in pairwise(state[-1][::2]))


def test_hits_of_one_millisecond_leave_with_the_last_of_them() -> None:
    algorithm = WarmUp(2, 0.01)
    _, state = algorithm.take(algorithm.start(EPOCH_SECOND), EPOCH_SECOND)
    _, state = algorithm.take(state, EPOCH_SECOND + MS - 1)
    assert algorithm.peek(state, EPOCH_SECOND + SECOND).retry_after_ns == MS - 1
    last_ns = EPOCH_SECOND + SECOND + MS - 1
    assert [algorithm.used(state, last_ns - 1), algorithm.used(state, last_ns)] == [2, 0]


def test_bookings_far_ahead_keep_the_log_bounded() -> None:
    algorithm = WarmUp(1000, 1)
    state = algorithm.start(EPOCH_SECOND)
    for hit in range(3000):
        decision, state = algorithm.take(state, EPOCH_SECOND, 1, None, EPOCH_SECOND + hit * MS)
        assert decision.allowed
        assert len(state[-1]) <= 2 * 1001


def test_a_reload_keeps_a_warm_bucket_warm() -> None:
    old, new = WarmUp(100, 10), WarmUp(1000, 20, 4)
    now_ns = EPOCH_SECOND + 31 * SECOND // 2
    state = warmed(old, 15)
    assert capacity(new, new.adopt(state, now_ns, old, "keep"), now_ns) > 800
    assert capacity(new, new.adopt(state, now_ns, old, "reset"), now_ns) == 250


def test_rounding_the_passes_up_on_a_reload_and_back_does_not_warm() -> None:
    """One pass of four a second becomes one of one a second, and that four of four."""
    algorithm, other = WarmUp(4, 3, 3.5), WarmUp(1, 1, 1.5)
    _, state = algorithm.take(algorithm.start(EPOCH_SECOND), EPOCH_SECOND)
    there = other.adopt(state, EPOCH_SECOND, algorithm, "scale")
    back = algorithm.adopt(there, EPOCH_SECOND, other, "scale")
    later_ns = EPOCH_SECOND + 2 * SECOND - MS
    assert algorithm.used(back, EPOCH_SECOND) == 4
    assert capacity(algorithm, back, later_ns) <= capacity(algorithm, state, later_ns)


def test_use_is_carried_over_from_another_kind_of_limit() -> None:
    window, algorithm = SlidingWindow(50, 1), WarmUp(100, 10)
    _, state = window.take(window.start(EPOCH_SECOND), EPOCH_SECOND, 10)
    assert capacity(algorithm, algorithm.adopt(state, EPOCH_SECOND, window, "keep"), EPOCH_SECOND) == 23
    assert capacity(algorithm, algorithm.adopt(state, EPOCH_SECOND, window, "scale"), EPOCH_SECOND) == 13


def test_scaled_multiplies_the_count() -> None:
    assert WarmUp(3, timedelta(seconds=10)).scaled(0.25) == WarmUp(0.75, 10)
    assert WarmUp(3, 10).scaled(0.25).quota == 1
    with pytest.raises(InvalidLimitError, match="factor="):
        WarmUp(3, 10).scaled(0)


@pytest.mark.parametrize("count", [-1, float("nan"), float("inf"), 1e10, True, "many"])
def test_a_count_that_makes_no_sense_is_refused(count: float) -> None:
    with pytest.raises(InvalidLimitError, match="count="):
        WarmUp(count, 10)


@pytest.mark.parametrize("period", [0, -1, float("nan"), "10s", None])
def test_a_warm_up_period_that_makes_no_sense_is_refused(period: float) -> None:
    with pytest.raises(InvalidLimitError, match="warm_up_period="):
        WarmUp(10, period)


@pytest.mark.parametrize("factor", [1, 0, -3, float("nan"), float("inf"), True, "3"])
def test_a_cold_factor_that_makes_no_sense_is_refused(factor: float) -> None:
    with pytest.raises(InvalidLimitError, match="cold_factor="):
        WarmUp(10, 10, factor)
