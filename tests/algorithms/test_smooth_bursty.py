"""SmoothBursty against Guava's recorded answers, and its own numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.smooth_bursty import SmoothBursty
from ratelimit_middleware.algorithms.smooth_warming_up import SmoothWarmingUp
from ratelimit_middleware.errors import InvalidLimitError
from tests.properties.laws import capacity
from tests.vectors.guava import Record, load_errors, load_public
from tests.vectors.guava.deviations import DEVIATIONS, IN_A_STORE
from tests.vectors.guava.replay import Alone, InStore, limiter, recorded, replayed, told

pytestmark = pytest.mark.arithmetic

MS = 1_000_000
SECOND = 1_000_000_000
EPOCH_US = 1_700_000_000_000_000

SCENARIOS = load_public("bursty")
ERRORS = load_errors("bursty")
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


@pytest.mark.parametrize("record", [r for r in SCENARIOS if r.id not in IN_A_STORE], ids=named)
def test_guavas_answers_are_reproduced_in_a_store(record: Record) -> None:
    answers = replayed(record, InStore(limiter(record)))
    assert answers == recorded(record, answers)


@pytest.mark.parametrize("record", [r for r in SCENARIOS if r.id in IN_A_STORE], ids=named)
def test_a_store_takes_the_same_rate_for_no_change(record: Record) -> None:
    """Guava multiplies and divides by the same number then, which may move the last bit: pinned."""
    answers = replayed(record, InStore(limiter(record)))
    theirs = recorded(record, answers)
    assert answers != theirs
    assert [a._replace(stored_permits=0) for a in answers] == [a._replace(stored_permits=0) for a in theirs]
    assert [a.stored_permits for a in answers] == pytest.approx([a.stored_permits for a in theirs], rel=1e-15)


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


def test_the_page_lists_the_same_deviations_as_the_table() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "deviations", "guava.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+-\d+)` \| .+? \| (.+?) \| (.+?) \| (.+?) \|$", page, re.MULTILINE)
    assert sorted(rows) == sorted((name, *deviation) for name, deviation in DEVIATIONS.items())
    assert all(f"\n## {deviation.fault}\n" in page for deviation in DEVIATIONS.values())
    assert all(f"`{name}`" in page for name in IN_A_STORE)


def test_a_large_request_goes_at_once_and_the_next_one_pays() -> None:
    bucket = SmoothBursty(2)
    decision, state = bucket.take(bucket.start(0), 0, 10)
    assert (decision.allowed, decision.wait_ns, decision.remaining) == (True, 0, 0)
    assert decision.reset_after_ns == 5 * SECOND
    refused = bucket.peek(state, SECOND)
    assert (refused.allowed, refused.retry_after_ns) == (False, 4 * SECOND)
    decision, _ = bucket.take(state, 0, 1, None)
    assert (decision.wait_ns, decision.at_ns) == (5 * SECOND, 5 * SECOND)


def test_the_calls_of_the_page_start_when_it_says() -> None:
    bucket = SmoothBursty(2)
    state, starts = bucket.start(0), []
    for at_s, cost in [(0, 10), (0, 1), (5, 1), (9, 1), (9, 1), (9, 1), (9, 1)]:
        decision, state = bucket.take(state, at_s * SECOND, cost, None)
        starts.append(decision.at_ns / SECOND)
    assert starts == [0, 5, 5.5, 9, 9, 9, 9.5]


def test_a_key_starts_with_nothing_stored_and_stores_a_second() -> None:
    bucket = SmoothBursty(10)
    state = bucket.start(0)
    assert [capacity(bucket, state, t * SECOND // 10) for t in (0, 1, 5, 10, 1000)] == [1, 2, 6, 11, 11]
    decision = bucket.peek(state, SECOND, 4)
    assert (decision.remaining, decision.reset_after_ns) == (6, 4 * SECOND // 10)


def test_between_two_microseconds_a_refusal_tells_the_exact_nanosecond() -> None:
    bucket = SmoothBursty(2)
    _, state = bucket.take(bucket.start(0), 999)
    refused = bucket.peek(state, 499_999_998)
    assert (refused.allowed, refused.retry_after_ns) == (False, 2)
    assert bucket.peek(state, 500_000_000).allowed


def test_a_try_is_granted_if_the_wait_is_within_its_patience_whatever_its_size() -> None:
    bucket = SmoothBursty(2)
    _, state = bucket.take(bucket.start(0), 0)
    assert not bucket.take(state, 0, 1, 499 * MS)[0].allowed
    assert bucket.take(state, 0, 1, 499 * MS)[0].retry_after_ns == MS
    assert bucket.take(state, 0, 10**9, 500 * MS)[0].allowed


def test_a_booking_for_a_later_start_stores_until_then() -> None:
    bucket = SmoothBursty(10)
    decision, state = bucket.take(bucket.start(0), 0, 3, None, SECOND)
    assert (decision.at_ns, state[:2]) == (SECOND, (7.0, 1_000_000))
    assert bucket.peek(state, 0).retry_after_ns == SECOND


@pytest.mark.parametrize(("rate", "burst_s"), [(10, 1), (7, 1), (3, 0), (0.3, 10)])
def test_waiters_leaving_from_the_end_all_give_their_moment_back(rate: float, burst_s: float) -> None:
    bucket = SmoothBursty(rate, burst_s)
    _, state = bucket.take(bucket.start(0), 0)
    before, moments = state, []
    for _ in range(3):
        decision, state = bucket.take(state, 0, 1, None)
        moments.append(decision.at_ns)
    for at_ns in reversed(moments):
        state = bucket.give_back(state, 0, 1, at_ns)
    assert state[:2] == before[:2]


def test_a_booking_of_half_stored_permits_is_given_back_to_the_bit() -> None:
    bucket = SmoothBursty(10)
    before = bucket.step(bucket.start(0), 250 * MS)
    decision, state = bucket.take(before, 250 * MS, 7)
    assert state[:2] == (0.0, 250_000 + 450_000)
    after = bucket.give_back(state, 300 * MS, 7, decision.at_ns)
    assert after == before


def test_the_last_of_two_bookings_at_one_moment_is_given_back() -> None:
    """The first of them costs nothing: less than a microsecond of its permit is fresh."""
    bucket = SmoothBursty(111_112)
    _, before = bucket.take((0.89, 16, 16, 0.0, -1), 16_000)
    assert before[:2] == (0.0, 16)
    decision, state = bucket.take(before, 16_000)
    assert state[:2] == (0.0, 24)
    assert bucket.give_back(state, 16_000, 1, decision.at_ns)[:2] == before[:2]


def test_a_booking_with_another_behind_it_is_not_given_back() -> None:
    bucket = SmoothBursty(10)
    first, state = bucket.take(bucket.start(0), SECOND, 15)
    _, state = bucket.take(state, SECOND, 10, None)
    assert bucket.give_back(state, SECOND, 15, first.at_ns) == state


def test_a_booking_from_before_a_pause_is_not_given_back() -> None:
    """Time in which the bucket would have been full may have passed since."""
    bucket = SmoothBursty(10)
    first, state = bucket.take(bucket.start(0), SECOND, 3)
    _, state = bucket.take(state, 2 * SECOND, 3)
    assert bucket.give_back(state, 2 * SECOND, 3, first.at_ns) == state


def test_a_booking_from_before_a_change_of_rate_is_not_given_back_at_the_new_price() -> None:
    """Two permits cost as much then as its two and the two behind it did."""
    old, new = SmoothBursty(10), SmoothBursty(5)
    first, state = old.take(old.start(0), 0, 2)
    _, state = old.take(state, 0, 2, None)
    adopted = new.adopt(state, 0, old, "scale")
    assert new.give_back(adopted, 0, 2, first.at_ns) == adopted


def test_what_is_given_back_never_makes_more_than_can_be_stored() -> None:
    old, new = SmoothBursty(10), SmoothBursty(2.5)
    booking, state = old.take(old.start(0), SECOND, 2)
    adopted = new.adopt(state, SECOND, old, "scale")
    assert new.give_back(adopted, SECOND, 2, booking.at_ns) == adopted


def test_a_charge_ends_at_two_windows() -> None:
    bucket = SmoothBursty(10)
    state = bucket.step(bucket.start(0), SECOND)
    assert bucket.used(bucket.charge(state, SECOND, 4), SECOND) == 4
    charged = bucket.charge(state, SECOND, 1000)
    assert (bucket.used(charged, SECOND), charged[1]) == (20, 2_000_000)
    assert bucket.charge(charged, SECOND, 1) == charged


def test_a_change_of_rate_scales_what_is_stored_and_keeps_the_debt() -> None:
    old, new = SmoothBursty(10), SmoothBursty(5)
    stored = old.step(old.start(0), SECOND)
    assert new.adopt(stored, SECOND, old, "scale")[:2] == (5.0, 1_000_000)
    _, debt = old.take(stored, SECOND, 30)
    assert new.adopt(debt, SECOND, old, "scale")[:2] == (0.0, 3_000_000)
    assert new.adopt(debt, SECOND, old, "reset") == new.start(SECOND)


def test_keep_leaves_the_stored_permits_if_there_is_room() -> None:
    old = SmoothBursty(10)
    stored = old.step(old.start(0), 600 * MS)
    kept = [SmoothBursty(rate).adopt(stored, 600 * MS, old, "keep")[0] for rate in (20, 10, 4)]
    assert kept == [6.0, 6.0, 4.0]


def test_permits_used_under_another_algorithm_are_missing_or_debt() -> None:
    gcra, bucket = GCRA(10, 1, 20), SmoothBursty(10)
    used = [gcra.take(gcra.start(0), 0, cost)[1] for cost in (4, 10, 16)]
    adopted = [bucket.adopt(state, 0, gcra, "keep")[:2] for state in used]
    assert adopted == [(6.0, 0), (0.0, 0), (0.0, 600_000)]
    assert [bucket.adopt(state, 0, gcra, "scale")[0] for state in used] == [8.0, 5.0, 2.0]
    assert [bucket.used((*state, 0, 0.0, -1), 0) for state in adopted] == [4, 10, 16]


def test_debt_stays_between_guavas_two_limiters_but_nothing_stored_becomes_free() -> None:
    warming, bucket = SmoothWarmingUp(10, 1), SmoothBursty(10)
    state = warming.start(0)
    assert bucket.adopt(state, 0, warming, "scale")[:2] == (0.0, 0)
    _, state = warming.take(state, 0)
    assert bucket.adopt(state, 0, warming, "keep")[:2] == (0.0, state[1])


def test_a_full_bucket_is_kept_for_an_hour() -> None:
    bucket = SmoothBursty(10)
    _, state = bucket.take(bucket.start(0), 0)
    assert bucket.forget_at_ns(state) == 3600 * SECOND + 1100 * MS


@pytest.mark.parametrize(
    ("rate", "burst_s", "quota", "window_s"),
    [(10, 1, 10, 1), (10, 2.5, 25, 2.5), (0.01, 1, 1, 100), (2, 0, 1, 0.5)],
)
def test_clients_are_told_what_can_be_stored_and_the_time_it_takes(
    rate: float, burst_s: float, quota: int, window_s: float
) -> None:
    bucket = SmoothBursty(rate, burst_s)
    assert (bucket.quota, bucket.window_ns, bucket.smallest_full_take) == (quota, window_s * SECOND, 10**9)


def test_seconds_and_timedelta_make_equal_buckets() -> None:
    assert SmoothBursty(10, 90) == SmoothBursty(10.0, timedelta(minutes=1.5))
    assert SmoothBursty(10) != SmoothBursty(10, 2)


def test_scaled_changes_the_rate_and_what_can_be_stored() -> None:
    assert SmoothBursty(10, 2).scaled(0.25) == SmoothBursty(2.5, 2)
    assert SmoothBursty(10, 2).scaled(0.25).max_permits == 5


@pytest.mark.parametrize("cost", [0, -1])
def test_a_cost_below_one_is_refused_in_debt_too(cost: int) -> None:
    bucket = SmoothBursty(10)
    _, state = bucket.take(bucket.start(0), 0, 5)
    with pytest.raises(InvalidLimitError, match=f"cost={cost}"):
        bucket.take(state, 0, cost)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: SmoothBursty(0), "permits_per_second=0 .*from 1e-15 to 1e[+]06"),
        (lambda: SmoothBursty(-1), "permits_per_second=-1 "),
        (lambda: SmoothBursty(1_000_001), "permits_per_second=1000001 "),
        (lambda: SmoothBursty(float("nan")), "permits_per_second=nan "),
        (lambda: SmoothBursty(float("inf")), "permits_per_second=inf "),
        (lambda: SmoothBursty(permits_per_second=True), "permits_per_second=True "),
        (lambda: SmoothBursty("5"), "permits_per_second='5' "),  # type: ignore[arg-type]
        (lambda: SmoothBursty(1, -1), "max_burst_seconds=-1 .*from 0 to 1e[+]08"),
        (lambda: SmoothBursty(1, float("nan")), "max_burst_seconds=nan "),
        (lambda: SmoothBursty(1, timedelta(seconds=-1)), "max_burst_seconds=-1.0 "),
        (lambda: SmoothBursty(10).scaled(0), "factor=0 "),
        (lambda: SmoothBursty(10).scaled(1e6), "permits_per_second=10000000.0 "),
    ],
)
def test_numbers_that_make_no_sense_are_refused_by_name(make: Callable[[], object], words: str) -> None:
    with pytest.raises(InvalidLimitError, match=words):
        make()
