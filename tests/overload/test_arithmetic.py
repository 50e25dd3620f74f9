"""What is too much, what fits, how late a loop is: exact moments, no clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratelimit_middleware.errors import InvalidLimitError
from ratelimit_middleware.overload.adaptive import Adaptive, Senses
from ratelimit_middleware.overload.capacity import Capacity
from ratelimit_middleware.overload.lateness import Lateness

pytestmark = pytest.mark.arithmetic

NS = 10**9
MS = 10**6
NOW = 1_700_000_000 * NS
CALM = Senses()
BUSY = Senses(loop_lag_ns=200 * MS, cpu=0.95, load=9.0)


def served(capacity: Capacity, per_second: int, took_ms: int, seconds: float, start_ns: int = NOW) -> int:
    """Requests that end at an even rate; the moment after the last."""
    now_ns = start_ns
    for _ in range(int(per_second * seconds)):
        now_ns += NS // per_second
        capacity.completed(now_ns, took_ms * MS)
    return now_ns


def test_what_fits_is_throughput_times_latency() -> None:
    capacity = Capacity()
    now_ns = served(capacity, 200, 50, 2)
    assert capacity.at(now_ns) == 10  # 200 a second, each 50 ms: 10 at a time


def test_a_queue_does_not_make_the_server_larger() -> None:
    """Latency that grows under load is not the best one while quicker requests are in the last second."""
    capacity = Capacity()
    now_ns = served(capacity, 200, 50, 1)
    now_ns = served(capacity, 200, 900, 0.5, now_ns)
    assert capacity.at(now_ns) == 10


def test_the_best_piece_counts_not_the_average() -> None:
    capacity = Capacity()
    now_ns = served(capacity, 1000, 10, 0.1)
    now_ns = served(capacity, 10, 10, 0.5, now_ns)
    assert capacity.at(now_ns) == 10


def test_before_the_first_request_has_ended_ten_fit() -> None:
    assert Capacity().at(NOW) == 10


def test_while_nothing_ends_the_last_estimate_holds() -> None:
    capacity = Capacity()
    now_ns = served(capacity, 200, 100, 2)
    assert capacity.at(now_ns) == 20
    assert capacity.at(now_ns + 3600 * NS) == 20


def test_after_a_second_other_requests_count() -> None:
    capacity = Capacity()
    now_ns = served(capacity, 200, 100, 1)
    now_ns = served(capacity, 100, 20, 2, now_ns)
    assert capacity.at(now_ns) == 2


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 2000)), max_size=80))
def test_at_least_one_fits_and_never_more_than_all_that_ended(ended: list[tuple[int, int]]) -> None:
    capacity, now_ns = Capacity(), NOW
    for gap_ms, took_ms in ended:
        now_ns += gap_ms * MS
        capacity.completed(now_ns, took_ms * MS)
        slowest_ms = max(took for _, took in ended)
        assert 1 <= capacity.at(now_ns) <= max(1, len(ended) * -(-slowest_ms // 100))


def test_a_fixed_number_holds_however_calm_it_is() -> None:
    settings = Adaptive(max_in_flight=3)
    assert [settings.exceeded(n, 1, CALM) for n in range(5)] == ["", "", "", "max_in_flight", "max_in_flight"]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (Adaptive(loop_lag_ns=100 * MS), "loop_lag"),
        (Adaptive(cpu=0.9), "cpu"),
        (Adaptive(load=2.5), "load"),
        (Adaptive(load=2.5, cpu=0.9, loop_lag_ns=100 * MS), "loop_lag"),
    ],
)
def test_a_loaded_server_sheds_what_is_not_alone(settings: Adaptive, reason: str) -> None:
    assert settings.exceeded(5, 1, CALM) == ""
    assert settings.exceeded(1, 1, BUSY) == reason
    assert settings.exceeded(0, 1, BUSY) == ("loop_lag" if settings.loop_lag_ns else "")


def test_with_bbr_those_whom_a_late_loop_has_not_come_to_are_there_too() -> None:
    """Where all handlers block the loop, nobody is ever in progress when the next one comes."""
    capacity = Capacity()
    now_ns = served(capacity, 100, 10, 1)
    settings = Adaptive(bbr=True, loop_lag_ns=50 * MS)
    assert (capacity.at(now_ns), capacity.within(now_ns, 60 * MS)) == (1, 6)
    assert settings.exceeded(0, 1, Senses(60 * MS), waiting=6) == "loop_lag"
    assert settings.exceeded(0, 1, Senses(40 * MS), waiting=4) == ""
    assert settings.exceeded(0, 9, Senses(60 * MS), waiting=6) == ""
    assert capacity.within(now_ns + 2 * NS, 60 * MS) == 0


def test_with_bbr_a_loaded_server_sheds_what_does_not_fit() -> None:
    settings = Adaptive(bbr=True, cpu=0.9)
    assert [settings.exceeded(n, 4, BUSY) for n in range(6)] == ["", "", "", "", "cpu", "cpu"]
    assert settings.exceeded(100, 4, CALM) == ""


def test_the_threshold_itself_is_no_load() -> None:
    settings = Adaptive(loop_lag_ns=100 * MS, cpu=0.9, load=2.0)
    assert settings.exceeded(5, 1, Senses(100 * MS, 0.9, 2.0)) == ""


@pytest.mark.parametrize(
    "numbers",
    [
        {},
        {"bbr": True},
        {"max_in_flight": 0},
        {"loop_lag_ns": 0},
        {"cpu": 0},
        {"cpu": 1.0},
        {"cpu": float("nan")},
        {"load": 0.0},
        {"load": float("inf")},
        {"max_in_flight": 5, "bbr": True},
    ],
)
def test_numbers_that_make_no_sense_are_refused(numbers: dict[str, float]) -> None:
    with pytest.raises(InvalidLimitError):
        Adaptive(**numbers)  # type: ignore[arg-type]


def test_for_a_store_it_admits_everything() -> None:
    settings = Adaptive(max_in_flight=3)
    decision, state = settings.take((), NOW)
    assert (decision.allowed, decision.at_ns, state) == (True, NOW, ())


def test_one_long_step_is_no_overload_and_a_second_one_is() -> None:
    lateness = Lateness()
    lateness.came(NOW, NOW - 300 * MS)
    assert lateness.at(NOW) == 0
    lateness.came(NOW + 300 * MS, NOW + 50 * MS)
    assert lateness.at(NOW + 300 * MS) == 250 * MS
    lateness.came(NOW + 350 * MS, NOW + 350 * MS)
    assert lateness.at(NOW + 350 * MS) == 0


def test_what_is_overdue_counts_before_it_comes() -> None:
    lateness = Lateness()
    lateness.came(NOW, NOW - 300 * MS)
    assert lateness.at(NOW + 200 * MS, due_ns=NOW + 50 * MS) == 150 * MS


def test_what_was_a_second_ago_counts_no_more() -> None:
    lateness = Lateness()
    lateness.came(NOW, NOW - 300 * MS)
    lateness.came(NOW + 300 * MS, NOW)
    assert lateness.at(NOW + 1300 * MS) == 300 * MS
    assert lateness.at(NOW + 1301 * MS) == 0
    lateness.came(NOW + 9000 * MS, NOW + 8000 * MS)
    assert lateness.at(NOW + 9000 * MS) == 0
