"""SmoothWarmingUp against Guava's recorded answers, and its own numbers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from ratelimit_middleware.algorithms.base import AdoptMode, State
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.smooth_bursty import SmoothBursty
from ratelimit_middleware.algorithms.smooth_warming_up import SmoothWarmingUp
from ratelimit_middleware.errors import InvalidLimitError
from tests.vectors.guava import Record, load_errors, load_public
from tests.vectors.guava.deviations import DEVIATIONS, IN_A_STORE
from tests.vectors.guava.replay import Alone, InStore, limiter, recorded, replayed, told

pytestmark = pytest.mark.arithmetic

MS = 1_000_000
SECOND = 1_000_000_000
EPOCH_US = 1_700_000_000_000_000
LAST_TICKET_NS = (2**63 - 1) * 1000

SCENARIOS = load_public("warming")
ERRORS = load_errors("warming")
FOLLOWED = [record for record in ERRORS if record.id not in DEVIATIONS]
DEVIATING = [record for record in ERRORS if record.id in DEVIATIONS]


def named(record: object) -> str:
    return record.id if isinstance(record, Record) else str(record)


@pytest.mark.parametrize("start_us", [0, EPOCH_US])
@pytest.mark.parametrize("record", SCENARIOS, ids=named)
def test_guavas_answers_are_reproduced_to_the_bit(record: Record, start_us: int) -> None:
    subject = Alone(limiter(record), start_us * 1000)
    assert record.initial is not None
    assert (subject.state[0], subject.algorithm.max_permits) == record.initial[2:5:2]
    answers = replayed(record, subject, start_us)
    assert answers == recorded(record, answers)


@pytest.mark.parametrize("record", SCENARIOS, ids=named)
def test_guavas_answers_are_reproduced_in_a_store(record: Record) -> None:
    answers = replayed(record, InStore(limiter(record)))
    assert answers == recorded(record, answers)


@pytest.mark.parametrize("record", FOLLOWED, ids=named)
def test_refusals_and_odd_arguments_are_as_recorded(record: Record) -> None:
    assert told(record) == ("same", "same")
    if record.accepted:
        subject = Alone(limiter(record))
        assert record.get_rate in (None, 1e6 / subject.algorithm.stable_us)
        answers = replayed(record, subject)
        assert answers == recorded(record, answers)


@pytest.mark.parametrize("record", DEVIATING, ids=named)
def test_a_listed_deviation_is_what_the_table_says(record: Record) -> None:
    """Fails too if the record no longer deviates."""
    assert DEVIATIONS[record.id][1:] == told(record)
    assert "same" not in told(record)


def test_every_listed_record_is_there() -> None:
    public = {record.id for record in (*SCENARIOS, *load_public("bursty"))}
    errors = {record.id for record in (*ERRORS, *load_errors("bursty"))}
    assert (len(public), len(errors)) == (82, 96)
    assert set(IN_A_STORE) < public
    assert set(DEVIATIONS) < errors


def waits_ms(algorithm: SmoothWarmingUp, state: State, calls: int, now_ns: int = 0) -> list[int]:
    """Waits of one caller that sleeps each of them."""
    waits = []
    for _ in range(calls):
        decision, state = algorithm.take(state, now_ns, 1, None)
        now_ns = decision.at_ns
        waits.append(decision.wait_ns // MS)
    return waits


def warmed(algorithm: SmoothWarmingUp) -> tuple[State, int]:
    """The state after the stored permits have been used up, when the debt has just been paid."""
    _, state = algorithm.take(algorithm.start(0), 0, int(algorithm.max_permits) + 1)
    return state, state[1] * 1000


def test_five_a_second_warm_up_in_two_seconds_as_published() -> None:
    bucket = SmoothWarmingUp(5, 2)
    assert waits_ms(bucket, bucket.start(0), 9) == [0, 560, 480, 400, 320, 240, 200, 200, 200]


def test_half_a_warm_up_of_idle_time_makes_half_cold() -> None:
    bucket = SmoothWarmingUp(5, 2)
    state, now_ns = warmed(bucket)
    assert waits_ms(bucket, state, 3, now_ns) == [0, 200, 200]
    assert waits_ms(bucket, state, 3, now_ns + SECOND) == [0, 200, 200]
    assert waits_ms(bucket, state, 4, now_ns + 3 * SECOND // 2) == [0, 360, 280, 210]
    assert waits_ms(bucket, state, 3, now_ns + 2 * SECOND) == [0, 560, 480]


@pytest.mark.parametrize(("factor", "cold_ms"), [(1, 100), (1.5, 146), (10, 752)])
def test_any_cold_factor_of_one_or_more_does(factor: float, cold_ms: int) -> None:
    bucket = SmoothWarmingUp(10, 1, factor)
    waits = waits_ms(bucket, bucket.start(0), 30)
    assert (waits[1], waits[-1]) == (cold_ms, 100)


@pytest.mark.parametrize("pauses_s", [[0], [0, 3, 100], [1000]])
def test_without_a_warm_up_the_rate_holds_after_any_pause(pauses_s: list[int]) -> None:
    """In the original permits become NaN at the first pause, and nothing is limited any more."""
    bucket = SmoothWarmingUp(5, 0)
    state, now_ns = bucket.start(0), 0
    for pause_s in pauses_s:
        now_ns = max(now_ns, state[1] * 1000) + pause_s * SECOND
        waits = []
        for _ in range(4):
            decision, state = bucket.take(state, now_ns, 1, None)
            waits.append(decision.wait_ns // MS)
        assert waits == [0, 200, 400, 600]


def test_a_cost_beyond_all_time_never_turns_into_a_gift() -> None:
    """The original's sum becomes negative: a debt of three hundred thousand years is a credit then."""
    bucket = SmoothWarmingUp(1e-13, 2)
    _, state = bucket.take(bucket.start(0), 0)
    decision, state = bucket.take(state, 5000, 1, None)
    assert decision.at_ns == LAST_TICKET_NS
    assert not bucket.peek(state, 10**18).allowed


def test_a_refused_try_tells_when_the_ticket_comes_and_cools_nothing() -> None:
    bucket = SmoothWarmingUp(5, 2)
    _, state = bucket.take(bucket.start(0), 0)
    refused, after = bucket.take(state, 100 * MS, 3, 200 * MS)
    assert (refused.allowed, refused.retry_after_ns, refused.remaining) == (False, 260 * MS, 0)
    assert refused.reset_after_ns == 460 * MS
    assert after == state


def test_waiters_leaving_from_the_end_all_give_their_moment_and_their_cold_back() -> None:
    bucket = SmoothWarmingUp(5, 2)
    states, moments = [bucket.start(0)], []
    for _ in range(13):
        decision, state = bucket.take(states[-1], 0, 1, None)
        states.append(state)
        moments.append(decision.at_ns)
    for at_ns, before in zip(reversed(moments), reversed(states[:-1]), strict=True):
        state = bucket.give_back(state, 0, 1, at_ns)
        assert state[:2] == before[:2]


def test_a_booking_with_another_behind_it_is_not_given_back() -> None:
    """Also where the fresh price of nine permits and of those behind it makes a stored price of nine."""
    bucket = SmoothWarmingUp(5, 2)
    state = bucket.start(0)
    for _ in range(2):
        _, state = bucket.take(state, state[1] * 1000)
    assert state[0] == 8.0
    booking, state = bucket.take(state, state[1] * 1000, 9)
    for behind in range(1, 6):
        _, later = bucket.take(state, booking.at_ns, behind, None)
        assert bucket.give_back(later, booking.at_ns, 9, booking.at_ns) == later


def test_a_booking_with_others_behind_it_is_not_given_back_where_parts_of_microseconds_hide_them() -> None:
    """The fractions dropped from three bookings make them as cheap as the first would be alone."""
    bucket = SmoothWarmingUp(1e6, 6e-6, 1)
    booking, state = bucket.take((bucket.threshold + 0.5, 0, 0, 0.0, -1), 0, 2)
    for _ in range(2):
        _, state = bucket.take(state, 0, 1, None)
    assert state[:2] == (0.0, 2)
    assert bucket.give_back(state, 0, 2, booking.at_ns) == state


@pytest.mark.parametrize("mode", ["keep", "scale"])
def test_new_numbers_leave_the_bucket_as_cold_as_it_is_and_keep_the_debt(mode: AdoptMode) -> None:
    old, new = SmoothWarmingUp(5, 2), SmoothWarmingUp(20, 4, 2)
    _, state = old.take(old.start(0), 0, 4)
    adopted = new.adopt(state, 0, old, mode)
    assert adopted[0] / new.max_permits == pytest.approx(state[0] / old.max_permits, rel=1e-15)
    assert adopted[1] == state[1]


def test_a_bucket_that_comes_from_elsewhere_is_cold_and_pays_what_was_used() -> None:
    gcra, bucket = GCRA(10, 1, 20), SmoothWarmingUp(10, 1)
    _, state = gcra.take(gcra.start(0), 0, 4)
    assert bucket.adopt(state, 0, gcra, "keep")[:2] == (bucket.max_permits, 400_000)
    assert bucket.adopt(state, 0, gcra, "scale")[:2] == (bucket.max_permits, 200_000)
    assert bucket.adopt(state, 0, gcra, "reset") == bucket.start(0)
    without = SmoothWarmingUp(10, 0)
    assert bucket.adopt(without.start(0), 0, without, "keep")[0] == bucket.max_permits
    bursty = SmoothBursty(10)
    assert bucket.adopt(bursty.start(0), 0, bursty, "keep")[:2] == (bucket.max_permits, 0)


def test_a_charge_is_paid_at_the_cold_price_and_ends_at_two_windows() -> None:
    bucket = SmoothWarmingUp(5, 2)
    state = bucket.start(0)
    assert bucket.charge(state, 0, 1) == bucket.take(state, 0)[1]
    charged = bucket.charge(state, 0, 1000)
    assert charged[:2] == (0.0, 3_000_000)
    assert bucket.used(charged, 0) == 15
    assert bucket.charge(charged, 0, 1) == charged


def test_it_is_forgotten_when_it_is_cold_again() -> None:
    bucket = SmoothWarmingUp(5, 2)
    _, state = bucket.take(bucket.start(0), 0)
    assert bucket.forget_at_ns(state) == 560 * MS + 200 * MS
    assert bucket.step(state, bucket.forget_at_ns(state))[:2] == (bucket.max_permits, 760_000)


@pytest.mark.parametrize(("rate", "quota", "window_s"), [(5, 5, 1), (2.5, 2, 0.8), (0.01, 1, 100)])
def test_clients_are_told_the_permits_of_a_second(rate: float, quota: int, window_s: float) -> None:
    bucket = SmoothWarmingUp(rate, 10)
    assert (bucket.quota, bucket.window_ns, bucket.smallest_full_take) == (quota, window_s * SECOND, 10**9)


def test_seconds_and_timedelta_make_equal_buckets() -> None:
    assert SmoothWarmingUp(5, 90) == SmoothWarmingUp(5.0, timedelta(minutes=1.5), 3)
    assert SmoothWarmingUp(5, 90) != SmoothWarmingUp(5, 91)
    assert SmoothWarmingUp(5, 90) != SmoothWarmingUp(5, 90, 2)


def test_scaled_changes_the_rate_only() -> None:
    assert SmoothWarmingUp(10, 4, 2).scaled(0.25) == SmoothWarmingUp(2.5, 4, 2)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: SmoothWarmingUp(0, 1), "permits_per_second=0 "),
        (lambda: SmoothWarmingUp(float("inf"), 1), "permits_per_second=inf "),
        (lambda: SmoothWarmingUp(1, -1), "warm_up_period=-1 "),
        (lambda: SmoothWarmingUp(1, float("nan")), "warm_up_period=nan "),
        (lambda: SmoothWarmingUp(1, 2e8), "warm_up_period=200000000.0 .*at most 10.8 seconds"),
        (lambda: SmoothWarmingUp(1, 1, 0.5), "cold_factor=0.5 .*from 1 to 1e[+]06"),
        (lambda: SmoothWarmingUp(1, 1, float("nan")), "cold_factor=nan "),
        (lambda: SmoothWarmingUp(1, 1, cold_factor=True), "cold_factor=True "),
    ],
)
def test_numbers_that_make_no_sense_are_refused_by_name(make: Callable[[], object], words: str) -> None:
    with pytest.raises(InvalidLimitError, match=words):
        make()
