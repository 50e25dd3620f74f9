"""WarmUpWindow: a hard window that starts cold, warms up under load and cools when quiet."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from ratelimit_middleware.algorithms.base import State
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.algorithms.warm_up_window import WarmUpWindow
from ratelimit_middleware.errors import InvalidLimitError
from tests.properties.laws import capacity

pytestmark = pytest.mark.arithmetic

SECOND = 1_000_000_000
EPOCH = 1_700_000_000 * SECOND  # a whole second; minutes and hours begin elsewhere
MINUTE = EPOCH // (60 * SECOND) * 60 * SECOND
RAMP = [33, 34, 36, 38, 41, 44, 47, 52, 58, 68, 83, 100, 100]


def evenly(rate: int, seconds: int, start_ns: int = EPOCH) -> list[int]:
    """Moments of `rate` evenly spaced requests a second."""
    return [start_ns + request * SECOND // rate for request in range(rate * seconds)]


def run(algorithm: WarmUpWindow, moments: Iterable[int], state: State) -> tuple[dict[int, int], State]:
    """Admissions by number of the second since `EPOCH`, and the last state."""
    passed: dict[int, int] = {}
    for now_ns in moments:
        decision, state = algorithm.take(state, now_ns)
        second = (now_ns - EPOCH) // SECOND
        passed[second] = passed.get(second, 0) + decision.allowed
    return passed, state


def ramp(algorithm: WarmUpWindow, rate: int, seconds: int) -> list[int]:
    return list(run(algorithm, evenly(rate, seconds), algorithm.start(EPOCH))[0].values())


def warm(algorithm: WarmUpWindow, seconds: int = 14) -> State:
    """The state after `seconds` of twice the full load."""
    return run(algorithm, evenly(2 * algorithm.limit, seconds), algorithm.start(EPOCH))[1]


def test_a_rule_of_100_a_second_warms_up_within_one_request_of_sentinels_curve() -> None:
    passed = ramp(WarmUpWindow(100, 1, 10), 500, len(RAMP))
    assert all(abs(ours - theirs) <= 1 for ours, theirs in zip(passed, RAMP, strict=True)), passed


def test_the_thresholds_are_sentinels_with_fractions_kept() -> None:
    """Published: 33.33 34.87 36.60 38.64 41.05 44.01 47.71 52.41 58.82 68.12 83.61."""
    algorithm = WarmUpWindow(100, 1, 10)
    tokens = [1000, 967, 933, 897, 859, 818, 774, 727, 675, 617, 549, 500]
    assert [algorithm.limit_at((stored - 500) * 1000) for stored in tokens] == RAMP[:-1]


def test_a_limit_per_minute_warms_up_over_its_minutes() -> None:
    algorithm = WarmUpWindow(60, 60, 600)
    now_ns, state = MINUTE, algorithm.start(MINUTE)
    passed = [0] * 14
    for request in range(14 * 120):
        now_ns = MINUTE + request * SECOND // 2
        decision, state = algorithm.take(state, now_ns)
        passed[request // 120] += decision.allowed
    assert passed[0] == 20
    assert sorted(passed) == passed
    assert passed[-1] == 60


@pytest.mark.parametrize(("limit", "factor"), [(1, 3), (2, 3), (3, 3), (5, 10), (7, 1.5), (1000, 3)])
def test_every_limit_is_reached_under_full_load(limit: int, factor: float) -> None:
    passed = ramp(WarmUpWindow(limit, 1, 10, factor), 4 * limit, 40)
    assert passed[0] == max(1, int(limit / factor))
    assert passed[-1] == limit


@pytest.mark.parametrize(("limit", "rate", "seed"), [(30, 20, 2), (100, 60, 1), (300, 200, 3)])
def test_random_arrivals_between_cold_and_full_rate_are_served_once_warm(
    limit: int, rate: int, seed: int
) -> None:
    """Hits drift over the borders of periods; a saturated cold limit must not be taken for quiet."""
    arrivals, now_s, moments = random.Random(seed), 0.0, []  # noqa: S311 - traffic, no secret
    while now_s < 30:
        moments.append(EPOCH + int(now_s * SECOND))
        now_s += arrivals.expovariate(rate)
    algorithm = WarmUpWindow(limit, 1, 10)
    passed, _ = run(algorithm, moments, algorithm.start(EPOCH))
    offered = sum(now_ns >= EPOCH + 15 * SECOND for now_ns in moments)
    assert sum(count for second, count in passed.items() if second >= 15) >= 0.9 * offered


@pytest.mark.parametrize(("rate", "threshold"), [(33, 100), (32, 34)])
def test_a_steady_load_of_the_cold_limit_warms_up_and_less_does_not(rate: int, threshold: int) -> None:
    algorithm = WarmUpWindow(100, 1, 10)
    _, state = run(algorithm, evenly(rate, 20), algorithm.start(EPOCH))
    assert algorithm.limit_at(algorithm.step(state, EPOCH + 20 * SECOND)[1]) == threshold


def test_quiet_periods_cool_it_down() -> None:
    algorithm = WarmUpWindow(100, 1, 10)
    state = warm(algorithm)
    idle = [capacity(algorithm, state, EPOCH + 73 * SECOND // 5 + quiet * SECOND) for quiet in range(6)]
    assert idle == [100, 71, 55, 45, 38, 33]
    assert algorithm.forget_at_ns(state) == EPOCH + 19 * SECOND


def test_seconds_on_and_off_warm_up_too() -> None:
    """Passes count even when the next period is silent."""
    algorithm = WarmUpWindow(100, 1, 10, 1.5)
    moments = [now_ns for now_ns in evenly(200, 60) if (now_ns - EPOCH) // SECOND % 4 < 3]
    passed, _ = run(algorithm, moments, algorithm.start(EPOCH))
    assert (passed[0], passed[58]) == (66, 100)


def test_what_a_client_hears_is_the_full_limit_and_what_is_left_now() -> None:
    algorithm = WarmUpWindow(100, 1, 10)
    decision, _ = algorithm.take(algorithm.start(EPOCH), EPOCH)
    assert (algorithm.quota, algorithm.window_ns) == (100, SECOND)
    assert (decision.limit, decision.remaining, decision.reset_after_ns) == (100, 32, SECOND)


def test_a_refusal_looks_at_the_limit_after_the_next_border() -> None:
    """33 permits at 0.9 s raise the limit to 34 at 1.0 s: the next permit comes then, not at 1.9 s."""
    algorithm = WarmUpWindow(100, 1, 10)
    now_ns = EPOCH + 9 * SECOND // 10
    decision, state = algorithm.take(algorithm.start(EPOCH), now_ns, 33)
    assert (decision.remaining, decision.reset_after_ns) == (0, SECOND // 10)
    assert algorithm.peek(state, now_ns).retry_after_ns == SECOND // 10
    assert algorithm.peek(state, now_ns, 2).retry_after_ns == SECOND


def test_a_booking_ahead_is_decided_with_the_limit_of_its_moment() -> None:
    algorithm = WarmUpWindow(100, 1, 10)
    state = warm(algorithm)
    now_ns, ahead_ns = EPOCH + 15 * SECOND, EPOCH + 20 * SECOND
    assert algorithm.take(state, now_ns, 71)[0].allowed
    later, _ = algorithm.take(state, now_ns, 34, None, ahead_ns)
    assert not later.allowed
    later, _ = algorithm.take(state, now_ns, 33, None, ahead_ns)
    assert (later.at_ns, later.wait_ns) == (ahead_ns, 5 * SECOND)


def test_waiting_bookings_follow_each_other_under_the_limit() -> None:
    algorithm = WarmUpWindow(3, 1, 10)
    state, waits = algorithm.start(EPOCH), []
    for _ in range(4):
        decision, state = algorithm.take(state, EPOCH, 1, None)
        waits.append(decision.wait_ns)
    assert waits == [0, SECOND, 2 * SECOND, 3 * SECOND]
    assert algorithm.take(state, EPOCH, 1, SECOND)[0].retry_after_ns == 3 * SECOND


def test_a_cost_above_the_cold_limit_needs_the_traffic_of_others() -> None:
    algorithm = WarmUpWindow(100, 1, 10)
    assert algorithm.smallest_full_take == 33
    refused = algorithm.peek(algorithm.start(EPOCH), EPOCH, 34)
    assert (refused.allowed, refused.retry_after_ns, refused.remaining) == (False, None, 33)
    assert algorithm.peek(warm(algorithm), EPOCH + 73 * SECOND // 5, 100).allowed


def test_a_given_back_booking_does_not_warm_up() -> None:
    algorithm = WarmUpWindow(100, 1, 10)
    state = algorithm.start(EPOCH)
    booking, booked = algorithm.take(state, EPOCH, 33)
    after = algorithm.give_back(booked, EPOCH, 33, booking.at_ns)
    assert after == state
    assert algorithm.give_back(after, EPOCH, 33, booking.at_ns) == after


def test_a_reload_keeps_the_temperature_and_the_hits() -> None:
    old, new = WarmUpWindow(100, 1, 10), WarmUpWindow(50, 1, 30, 5)
    now_ns = EPOCH + 14 * SECOND + SECOND // 4
    _, state = old.take(warm(old), now_ns, 20)
    used = old.used(state, now_ns)
    assert capacity(new, new.adopt(state, now_ns, old, "keep"), now_ns) == max(0, 50 - used)
    assert capacity(new, new.adopt(state, now_ns, old, "scale"), now_ns) == 50 - -(-used // 2)
    assert capacity(new, new.adopt(state, now_ns, old, "reset"), now_ns) == 10


def test_the_temperature_is_rounded_to_colder() -> None:
    old, new = WarmUpWindow(7, 1, 3), WarmUpWindow(10, 1, 9, 5)
    state, now_ns = old.start(EPOCH), EPOCH
    for _ in range(3):
        _, state = old.take(state, now_ns, 2)
        now_ns += SECOND
        state = old.step(state, now_ns)
        back = old.adopt(new.adopt(state, now_ns, old, "keep"), now_ns, new, "keep")
        assert state[1] <= back[1] <= state[1] + 1000
    there = new.adopt((*state[:1], 1, *state[2:]), now_ns, old, "keep")
    assert there[1] == 3


def test_a_plain_window_that_gets_a_warm_up_keeps_its_hits_and_starts_cold() -> None:
    window, algorithm = SlidingWindow(100, 1), WarmUpWindow(100, 1, 10)
    _, state = window.take(window.start(EPOCH), EPOCH, 20)
    assert capacity(algorithm, algorithm.adopt(state, EPOCH, window, "keep"), EPOCH) == 13


def test_scaled_multiplies_the_limit() -> None:
    assert WarmUpWindow(10, 1, 10).scaled(0.25) == WarmUpWindow(2, 1, 10)
    assert WarmUpWindow(10, 1, 10).scaled(0.001).limit == 1


def test_the_cold_factor_is_kept_as_a_small_fraction() -> None:
    assert WarmUpWindow(100, 1, 10, 1.1).cold_limit == 90
    assert WarmUpWindow(11, 1, 10, 1.1).cold_limit == 10


def test_a_warm_up_shorter_than_two_periods_is_refused_with_advice() -> None:
    with pytest.raises(
        InvalidLimitError, match=r"two periods of the limit \(120 s\).*write the limit per second"
    ):
        WarmUpWindow(100, 60, 119)
    assert WarmUpWindow(100, 60, 120).quota == 100


@pytest.mark.parametrize("factor", [1, 1.0000001, 0.5, 1001, float("nan"), float("inf"), True, "3"])
def test_a_cold_factor_that_makes_no_sense_is_refused(factor: float) -> None:
    with pytest.raises(InvalidLimitError, match="cold_factor="):
        WarmUpWindow(10, 1, 10, factor)


@pytest.mark.parametrize(("limit", "period"), [(0, 1), (2.5, 1), (5, 0), (5, -1)])
def test_a_window_that_makes_no_sense_is_refused(limit: int, period: float) -> None:
    with pytest.raises(InvalidLimitError):
        WarmUpWindow(limit, period, 10)
