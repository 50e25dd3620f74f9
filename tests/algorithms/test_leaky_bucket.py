"""LeakyBucket against nginx's recorded verdicts, and where it does not follow the original."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest

from ratelimit_middleware.algorithms.base import State
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.leaky_bucket import LeakyBucket
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.errors import InvalidLimitError
from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.stores.memory import MemoryStore
from tests.vectors import nginx

pytestmark = pytest.mark.arithmetic

MS = 1_000_000
SECOND = 1_000_000_000
SCENARIOS = nginx.load("nginx_public.jsonl")
Scenario: TypeAlias = Mapping[str, Any]


class Deviation(NamedTuple):
    """A scenario in which ours does not follow, with both sides pinned at the first different verdict."""

    request: int
    nginx: str
    ours: str


DEVIATIONS = {
    "two-limits-stacked": Deviation(6, "REJECTED", "DELAYED"),
    "client-leaves-while-delayed-5rs-burst5": Deviation(6, "REJECTED", "DELAYED"),
}


class Served(NamedTuple):
    """What a request hears, and the excess it finds (in requests), of the one limit if there is but one."""

    verdict: str
    wait_ns: int
    excess: float


def limits_of(scenario: Scenario) -> list[LeakyBucket]:
    rates = {zone["name"]: zone["rate_per_s"] for zone in scenario["zones"]}
    return [
        LeakyBucket(
            rates[limit["zone"]], limit["burst"], "nodelay" if limit["nodelay"] else limit["delay"] or 0
        )
        for limit in scenario["limits"]
    ]


def verdict_of(decisions: Sequence[Decision], *, dry_run: bool) -> str:
    if not all(decision.allowed for decision in decisions):
        verdict = "REJECTED"
    elif any(decision.wait_ns for decision in decisions):
        verdict = "DELAYED"
    else:
        return "PASSED"
    return f"{verdict}_DRY_RUN" if dry_run else verdict


def as_nginx_does(scenario: Scenario, arrivals_ns: Sequence[int]) -> list[Served]:
    """Each limit is asked at the arrival; all are charged or none; the longest delay holds."""
    limits = limits_of(scenario)
    states: dict[tuple[int, str], State] = {}
    served = []
    for request, at_ns in zip(scenario["requests"], arrivals_ns, strict=True):
        key = request["key"]
        if not key:
            served.append(Served("NOT_COUNTED", 0, 0))
            continue
        held = [states.get((i, key), limit.start(at_ns)) for i, limit in enumerate(limits)]
        taken = [limit.take(state, at_ns, 1, None) for limit, state in zip(limits, held, strict=True)]
        decisions = [decision for decision, _ in taken]
        admitted = all(decision.allowed for decision in decisions)
        if admitted:
            states.update({(i, key): state for i, (_, state) in enumerate(taken)})
        wait_ns = max(decision.wait_ns for decision in decisions) if admitted else 0
        excess = max(0, held[0][0] - at_ns * limits[0].rate_milli) / 10**12
        served.append(Served(verdict_of(decisions, dry_run=scenario["dry_run"]), wait_ns, excess))
    return served


def in_a_store(scenario: Scenario) -> list[str]:
    """All limits book one start time, and clients that leave give their place back."""
    clock = ManualClock()
    store, start_ns = MemoryStore(clock=clock), clock.now_ns()
    checks = [Check(f"{i}:a", limit, f"{i}:more", 1, None) for i, limit in enumerate(limits_of(scenario))]
    verdicts: list[str] = []
    booked: dict[int, Sequence[Decision]] = {}

    def arrive(request: Mapping[str, Any]) -> None:
        if not request["key"]:
            verdicts.append("NOT_COUNTED")
            return
        booked[request["id"]] = store.take(checks)
        verdicts.append(verdict_of(booked[request["id"]], dry_run=scenario["dry_run"]))

    def leave(request: Mapping[str, Any]) -> None:
        for check, decision in zip(checks, booked[request["id"]], strict=True):
            store.give_back(check, decision.at_ns)

    events: list[tuple[int, Callable[[Mapping[str, Any]], None], Mapping[str, Any]]] = []
    for request in scenario["requests"]:
        events.append((request["at_ms"], arrive, request))
        if "disconnect_at_ms" in request and request["disconnect_at_ms"] is not None:
            events.append((request["disconnect_at_ms"], leave, request))
    for at_ms, what, request in sorted(events, key=lambda event: event[0]):
        clock.set_ns(start_ns + at_ms * MS)
        what(request)
    return verdicts


def planned_ns(scenario: Scenario) -> list[int]:
    return [request["at_ms"] * MS for request in scenario["requests"]]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: str(s["id"]))
def test_every_verdict_is_nginxs(scenario: dict[str, Any]) -> None:
    ours = [served.verdict for served in as_nginx_does(scenario, planned_ns(scenario))]
    assert ours == [request["verdict"] for request in scenario["requests"]]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: str(s["id"]))
def test_every_wait_is_the_measured_latency(scenario: dict[str, Any]) -> None:
    """Within the tolerance of the measurement: 10 ms less to 30 ms more."""
    for request, served in zip(
        scenario["requests"], as_nginx_does(scenario, planned_ns(scenario)), strict=True
    ):
        wait_ms = 0.0 if scenario["dry_run"] else served.wait_ns / MS
        if request.get("disconnect_at_ms") is not None:
            wait_ms = min(wait_ms, request["disconnect_at_ms"] - request["at_ms"])
        assert -10 <= request["latency_ms"]["median"] - wait_ms <= 30, request["id"]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: str(s["id"]))
def test_every_run_as_it_arrived_has_the_same_verdicts_and_the_logged_excess(
    scenario: dict[str, Any],
) -> None:
    """The excess to within 1.3 ms of the rate, since nginx counts whole milliseconds."""
    for run in scenario["runs"]:
        served = as_nginx_does(scenario, [SECOND + round(at_ms * MS) for at_ms in run["server_arrival_ms"]])
        assert [s.verdict for s in served] == [request["verdict"] for request in scenario["requests"]]
        if len(scenario["limits"]) == 1:
            logged = [(s.excess, excess) for s, excess in zip(served, run["excess"], strict=True) if excess]
            slack = 0.0013 * scenario["zones"][0]["rate_per_s"] + 0.001
            assert all(ours == pytest.approx(theirs, abs=slack) for ours, theirs in logged)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: str(s["id"]))
def test_a_store_gives_the_same_verdicts_but_for_the_listed_deviations(scenario: dict[str, Any]) -> None:
    theirs = [request["verdict"] for request in scenario["requests"]]
    pairs = enumerate(zip(theirs, in_a_store(scenario), strict=True))
    first = next((Deviation(i, *pair) for i, pair in pairs if pair[0] != pair[1]), None)
    assert first == DEVIATIONS.get(scenario["id"])


def test_docs_list_each_deviation_with_both_verdicts() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "deviations", "nginx.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\S+)` \| (\d+) \| (\w+) \| (\w+) \|$", page, re.MULTILINE)
    assert sorted(rows) == sorted((name, str(d.request), d.nginx, d.ours) for name, d in DEVIATIONS.items())
    assert set(DEVIATIONS) <= {scenario["id"] for scenario in SCENARIOS}


def asked(bucket: LeakyBucket, count: int, max_wait_ns: int | None) -> list[int | None]:
    """Waits in ms of `count` requests at one moment; refusals are None."""
    state, waits = bucket.start(0), list[int | None]()
    for _ in range(count):
        decision, state = bucket.take(state, 0, 1, max_wait_ns)
        waits.append(decision.wait_ns // MS if decision.allowed else None)
    return waits


@pytest.mark.parametrize(
    ("bucket", "max_wait_ms", "waits"),
    [
        (LeakyBucket(10, 3, "nodelay"), 0, [0, 0, 0, 0, None]),
        (LeakyBucket(10, 3, "nodelay"), None, [0, 0, 0, 0, None]),
        (LeakyBucket(10, 3), None, [0, 100, 200, 300, None]),
        (LeakyBucket(10, 3), 200, [0, 100, 200, None, None]),
        (LeakyBucket(10, 3), 0, [0, None, None, None, None]),
        (LeakyBucket(10, 3, 2), None, [0, 0, 0, 100, None]),
        (LeakyBucket(10, 3, 2), 0, [0, 0, 0, None, None]),
        (LeakyBucket(10, 3, 9), 0, [0, 0, 0, 0, None]),
        (LeakyBucket(10, 0), None, [0, None, None, None, None]),
    ],
)
def test_burst_delay_and_patience_make_who_goes_who_waits_who_is_refused(
    bucket: LeakyBucket, max_wait_ms: int | None, waits: list[int | None]
) -> None:
    assert asked(bucket, 5, None if max_wait_ms is None else max_wait_ms * MS) == waits


def test_the_impatient_hear_when_they_need_not_wait_and_the_patient_when_there_is_room() -> None:
    bucket = LeakyBucket(10, 3)
    state = bucket.start(0)
    for _ in range(4):
        _, state = bucket.take(state, 0, 1, None)
    for max_wait_ns, retry_ms, remaining in ((0, 400, 0), (150 * MS, 250, 0), (None, 100, 0)):
        refusal, _ = bucket.take(state, 0, 1, max_wait_ns)
        assert (refusal.retry_after_ns, refusal.remaining) == (retry_ms * MS, remaining)
        assert refusal.reset_after_ns == refusal.retry_after_ns
    assert bucket.take(state, 250 * MS, 1, None)[0].remaining == 1
    assert bucket.take(state, 250 * MS, 1, 0)[0].remaining == 0


def test_retry_after_is_exact_where_the_interval_has_no_whole_nanoseconds() -> None:
    bucket = LeakyBucket(3, 0)
    _, state = bucket.take(bucket.start(0), 0)
    assert bucket.peek(state, 333_333_333).retry_after_ns == 1
    assert bucket.peek(state, 333_333_334).allowed


def test_a_cost_above_what_patience_can_reach_is_never_admitted() -> None:
    bucket = LeakyBucket(10, 3)
    for cost, max_wait_ns, wait_ns in ((4, 300 * MS, 300 * MS), (5, None, None), (4, 300 * MS - 1, None)):
        decision, _ = bucket.take(bucket.start(0), 0, cost, max_wait_ns)
        assert decision.allowed == (wait_ns is not None)
        assert decision.wait_ns == (wait_ns or 0)
        assert decision.retry_after_ns is None


def test_seven_a_second_stay_seven_a_second() -> None:
    bucket = LeakyBucket(7, 7000)
    _, state = bucket.take(bucket.start(0), 0)
    for _ in range(7000):
        _, state = bucket.take(state, 0, 1, None)
    assert bucket.forget_at_ns(state) == 1000 * SECOND + -(-SECOND // 7)


@pytest.mark.parametrize(
    ("rate", "rate_milli"), [(90 / 60, 1500), (100 / 60, 1666), (1.001, 1001), (0.001, 1)]
)
def test_rates_are_cut_to_thousandths_as_in_nginx(rate: float, rate_milli: int) -> None:
    assert LeakyBucket(rate, 0).rate_milli == rate_milli


def test_a_place_is_given_back_only_from_the_end_of_the_queue() -> None:
    bucket = LeakyBucket(10, 5)
    moments, state = [], bucket.start(0)
    for _ in range(4):
        decision, state = bucket.take(state, 0, 1, None)
        moments.append(decision.at_ns)
    assert bucket.give_back(state, 0, 1, moments[1]) == state
    for moment_ns, used in zip(reversed(moments), (3, 2, 1), strict=False):
        state = bucket.give_back(state, 0, 1, moment_ns)
        assert bucket.used(state, 0) == used


def test_scaled_keeps_what_is_admitted_from_cold_in_proportion() -> None:
    assert LeakyBucket(10, 9, 4).scaled(2) == LeakyBucket(20, 19, 9)
    assert LeakyBucket(10, 9, "nodelay").scaled(0.25) == LeakyBucket(2.5, 1, "nodelay")
    assert LeakyBucket(0.001, 0).scaled(0.1) == LeakyBucket(0.001, 0)


def test_keep_scale_and_reset_carry_different_shares() -> None:
    old, new = LeakyBucket(10, 9, "nodelay"), LeakyBucket(5, 19)
    _, state = old.take(old.start(0), 0, 5)
    assert new.used(new.adopt(state, 0, old, "keep"), 0) == 5
    assert new.used(new.adopt(state, 0, old, "scale"), 0) == 10
    assert new.used(new.adopt(state, 0, old, "reset"), 0) == 0


def test_a_booking_made_before_its_use_was_scaled_is_not_given_back() -> None:
    """It would give back more than its scaled self has taken."""
    old, new = LeakyBucket(10, 99, "nodelay"), LeakyBucket(10, 9, "nodelay")
    booking, state = old.take(old.start(SECOND), SECOND, 50)
    state = new.adopt(state, SECOND, old, "scale")
    assert new.used(state, SECOND) == 5
    assert new.give_back(state, SECOND, 50, booking.at_ns) == state


def test_another_limits_start_time_is_no_patience_of_ones_own() -> None:
    """A request that must start at 200 ms and may not wait beyond it is like one that may not wait."""
    bucket = LeakyBucket(10, 3)
    refusal, _ = bucket.take(bucket.start(0), 0, 2, 200 * MS, 200 * MS)
    assert (refusal.allowed, refusal.retry_after_ns) == (False, None)
    assert bucket.peek(bucket.start(0), 0, 2).retry_after_ns is None


def test_a_charge_stands_behind_every_booking() -> None:
    """What drained in between may have left the bucket empty."""
    bucket = LeakyBucket(10, 3, "nodelay")
    booking, state = bucket.take(bucket.start(0), 0)
    half, whole = (bucket.charge(state, at_ms * MS, 1) for at_ms in (50, 100))
    assert bucket.give_back(half, 100 * MS, 1, booking.at_ns)[0] == half[0] - 50 * MS * 10_000
    assert bucket.give_back(whole, 100 * MS, 1, booking.at_ns) == whole


def test_use_is_carried_over_from_another_kind_of_limit() -> None:
    old, new = GCRA(10, 10, 10), LeakyBucket(5, 19)
    _, state = old.take(old.start(0), 0, 4)
    assert new.used(new.adopt(state, 0, old, "keep"), 0) == 4
    assert new.used(new.adopt(state, 0, old, "scale"), 0) == 8


def test_the_window_on_the_wire_is_the_time_to_drain() -> None:
    bucket = LeakyBucket(100 / 60, 19)
    assert (bucket.quota, bucket.window_ns, bucket.smallest_full_take) == (20, 12_004_801_921, 20)


@pytest.mark.parametrize(
    ("rate", "burst", "delay", "word"),
    [
        (0, 1, 0, "rate=0"),
        (0.0005, 1, 0, "rate=0.0005"),
        (-1, 1, 0, "rate=-1"),
        (True, 1, 0, "rate=True"),
        ("5r/s", 1, 0, "rate='5r/s'"),
        (float("nan"), 1, 0, "rate=nan"),
        (float("inf"), 1, 0, "rate=inf"),
        (10**10, 1, 0, "rate=10000000000"),
        (1, -1, 0, "burst=-1"),
        (1, 1.5, 0, "burst=1.5"),
        (1, False, 0, "burst=False"),
        (1, 10**10, 0, "burst=10000000000"),
        (1, 1, -1, "delay=-1"),
        (1, 1, None, "delay=None"),
        (1, 1, "none", "delay='none' is not allowed: expected .*, or 'nodelay'"),
    ],
)
def test_numbers_that_make_no_sense_are_refused_by_name(
    rate: float, burst: int, delay: int, word: str
) -> None:
    with pytest.raises(InvalidLimitError, match=word):
        LeakyBucket(rate, burst, delay)
