"""TokenBucket against juju/ratelimit's recorded answers, and where it does not follow the original."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pytest

from ratelimit_middleware.algorithms.base import State
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.token_bucket import TokenBucket
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.errors import InvalidLimitError
from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.stores.memory import MemoryStore
from tests.vectors import juju

pytestmark = pytest.mark.arithmetic

MS = 1_000_000
SECOND = 1_000_000_000
PUBLIC = juju.load("juju_public.jsonl")
EDGES = juju.load("int64_edge.jsonl")
RATES = juju.load("rate_choice_public.jsonl")
ERRORS = juju.load("errors.json")


class Deviation(NamedTuple):
    """A scenario in which ours does not follow, with both sides pinned at the first different answer."""

    call: int
    juju: Mapping[str, object]
    ours: Mapping[str, object]


DEVIATIONS = {
    "clock-before-start": Deviation(0, {"available": 3}, {"available": 2}),
    "edge-take-wait-passes-int64": Deviation(
        0, {"wait_ns": -10_000_000_000}, {"wait_ns": 4_611_686_018_427_387_894_000_000_000}
    ),
    "edge-take-max-int64": Deviation(4, {"wait_ns": 0}, {"wait_ns": 9_223_372_036_854_775_809}),
    "edge-quantum-huge-refill": Deviation(
        5, {"available": -4_611_686_018_427_387_904}, {"available": 4_611_686_018_427_387_904}
    ),
    "edge-ten-second-fill-large-take": Deviation(
        2, {"wait_ns": -9_223_372_033_709_551_616}, {"wait_ns": 9_223_372_040_000_000_000}
    ),
}


class Player(Protocol):
    """Something that answers for a bucket at moments counted from its start."""

    def take(self, at_ns: int, cost: int, max_wait_ns: int | None) -> Decision: ...

    def take_available(self, at_ns: int, most: int) -> int: ...

    def available(self, at_ns: int) -> int: ...


class Pure:
    """The pure functions, somewhere in time."""

    def __init__(self, bucket: TokenBucket, start_ns: int = 0) -> None:
        self.bucket, self.start_ns = bucket, start_ns
        self.state: State = bucket.start(start_ns)

    def take(self, at_ns: int, cost: int, max_wait_ns: int | None) -> Decision:
        decision, self.state = self.bucket.take(self.state, self.start_ns + at_ns, cost, max_wait_ns)
        return decision

    def take_available(self, at_ns: int, most: int) -> int:
        count, self.state = self.bucket.take_available(self.state, self.start_ns + at_ns, most)
        return count

    def available(self, at_ns: int) -> int:
        self.state = self.bucket.step(self.state, self.start_ns + at_ns)
        return self.bucket.capacity - self.bucket.used(self.state, self.start_ns + at_ns)


class Stored:
    """A memory store on a manual clock that stands at the present age of the epoch."""

    def __init__(self, bucket: TokenBucket) -> None:
        self.clock = ManualClock()
        self.start_ns = self.clock.now_ns()
        self.store = MemoryStore(clock=self.clock)
        self.check = Check("key", bucket, "overflow")
        # A charge of nothing makes the bucket: intervals are counted from here.
        self.store.charge(self.check._replace(cost=0))

    def take(self, at_ns: int, cost: int, max_wait_ns: int | None) -> Decision:
        self.clock.set_ns(self.start_ns + at_ns)
        return self.store.take([self.check._replace(cost=cost, max_wait_ns=max_wait_ns)])[0]

    def take_available(self, at_ns: int, most: int) -> int:
        count = min(most, self.available(at_ns))
        return count if count and self.take(at_ns, count, 0).allowed else 0

    def available(self, at_ns: int) -> int:
        """Never below 0: what a store tells of a debt are the waits."""
        self.clock.set_ns(self.start_ns + at_ns)
        too_much = self.check.algorithm.quota + 1
        return self.store.peek(self.check._replace(cost=too_much)).remaining


def bucket_of(scenario: Mapping[str, Any]) -> TokenBucket:
    if scenario["constructor"] == "rate":
        return TokenBucket.from_rate(scenario["rate"], scenario["capacity"])
    return TokenBucket(scenario["capacity"], scenario["fill_interval_ns"] / SECOND, scenario["quantum"])


def wait_of(player: Player, at_ns: int, cost: int, max_wait_ns: int | None) -> tuple[bool, int]:
    """Granted or not, and the wait. Costs begin at 1 in ours; the original grants less without looking."""
    if cost <= 0:
        return True, 0
    # Less than no patience is no patience: only those who need none are granted.
    decision = player.take(at_ns, cost, None if max_wait_ns is None else max(0, max_wait_ns))
    return decision.allowed, decision.wait_ns


def answer(player: Player, bucket: TokenBucket, op: Mapping[str, Any], at_ns: int) -> dict[str, object]:
    """Our answer to one call, in the words of the recording."""
    name, count = op["op"], op.get("count", 0)
    if name in ("rate", "capacity"):
        rate = 1e9 * bucket.quantum / bucket.fill_interval_ns
        return {"rate": rate} if name == "rate" else {"capacity": bucket.capacity}
    if name == "available":
        return {"available": player.available(at_ns)}
    if name == "take_available":
        return {"taken": player.take_available(at_ns, count) if count > 0 else 0}
    if name in ("read", "write"):  # A byte a token; a reader pays for what came, a writer in advance.
        count = op["inner_returns"] if name == "read" else op["size"]
    ok, wait_ns = wait_of(player, at_ns, count, op.get("max_wait_ns"))
    sleeps_ns = [wait_ns] if wait_ns else []
    if name in ("read", "write"):
        return {"sleeps_ns": sleeps_ns, "start_ns": at_ns, "end_ns": at_ns + wait_ns}
    waited: dict[str, object] = {"sleeps_ns": sleeps_ns} if name.startswith("wait") else {"wait_ns": wait_ns}
    return {"ok": ok, **waited} if "max" in name else waited


def deviation(scenario: Mapping[str, Any], player: Player, least: int | None = None) -> Deviation | None:
    """The first call that is answered otherwise; `least` is the least that the player shows as available."""
    bucket, now_ns = bucket_of(scenario), 0
    for call, op in enumerate(scenario["ops"]):
        now_ns = now_ns if op["at_ns"] is None else op["at_ns"]
        ours = answer(player, bucket, op, now_ns)
        theirs = {word: op["expect"][word] for word in ours}
        if "available" in theirs and least is not None:
            theirs["available"] = max(least, theirs["available"])
        if ours != theirs:
            return Deviation(call, theirs, ours)
        if scenario.get("sleep_advances_clock"):
            now_ns = op["expect"]["end_ns"]
    return None


@pytest.mark.parametrize("scenario", PUBLIC, ids=lambda s: str(s["id"]))
@pytest.mark.parametrize("start_ns", [0, 1_700_000_000 * SECOND + 12_345])
def test_every_scenario_is_answered_to_the_nanosecond(scenario: dict[str, Any], start_ns: int) -> None:
    player = Pure(bucket_of(scenario), start_ns)
    assert deviation(scenario, player) == DEVIATIONS.get(scenario["id"])


@pytest.mark.parametrize("scenario", EDGES, ids=lambda s: str(s["id"]))
def test_where_the_original_overflows_ours_does_not(scenario: dict[str, Any]) -> None:
    assert deviation(scenario, Pure(bucket_of(scenario))) == DEVIATIONS.get(scenario["id"])


def never_goes_back(scenario: Mapping[str, Any]) -> bool:
    moments = [op["at_ns"] for op in scenario["ops"] if op["at_ns"] is not None]
    return moments == sorted(moments)


@pytest.mark.parametrize("scenario", [s for s in PUBLIC if never_goes_back(s)], ids=lambda s: str(s["id"]))
def test_a_memory_store_that_remembers_the_key_gives_the_same_answers(scenario: dict[str, Any]) -> None:
    """Without the four scenarios whose clock goes back: a store's does not."""
    assert deviation(scenario, Stored(bucket_of(scenario)), least=0) is None


def test_a_key_forgotten_while_full_counts_its_intervals_anew() -> None:
    """The next refill comes a whole interval after the first request, not sooner."""
    bucket = TokenBucket(1, 1)
    remembered, forgotten = Pure(bucket), Pure(bucket, 1500 * MS)
    assert bucket.forget_at_ns(remembered.state) == 0
    assert remembered.take(1500 * MS, 2, None).wait_ns == 500 * MS
    assert forgotten.take(0, 2, None).wait_ns == 1000 * MS


def test_docs_list_each_deviation_with_both_answers() -> None:
    def told(answer: Mapping[str, object]) -> str:
        return ", ".join(f"{word} {value}" for word, value in answer.items())

    page = Path(__file__).parents[2].joinpath("docs", "deviations", "juju.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\S+)` \| (\d+) \| (.+?) \| (.+?) \|$", page, re.MULTILINE)
    table = [(name, str(d.call), told(d.juju), told(d.ours)) for name, d in DEVIATIONS.items()]
    assert sorted(rows) == sorted(table)
    assert set(DEVIATIONS) <= {scenario["id"] for scenario in PUBLIC + EDGES}


@pytest.mark.parametrize("row", RATES, ids=lambda row: str(row["rate"]))
def test_the_interval_and_quantum_of_a_rate_are_the_originals(row: dict[str, Any]) -> None:
    bucket = TokenBucket.from_rate(row["rate"], 1)
    assert (bucket.fill_interval_ns, bucket.quantum) == (row["fill_interval_ns"], row["quantum"])
    rate = 1e9 * bucket.quantum / bucket.fill_interval_ns
    assert (rate, abs(rate - row["rate"]) / row["rate"]) == (row["actual_rate"], row["rel_error"])


def built(record: Mapping[str, Any]) -> TokenBucket:
    args = record["args"]
    if record["constructor"] == "rate":
        return TokenBucket.from_rate(float(args["rate"]), args["capacity"])
    return TokenBucket(args["capacity"], args["fill_interval_ns"] / SECOND, args["quantum"])


@pytest.mark.parametrize("record", [r for r in ERRORS if r["panics"]], ids=lambda r: str(r["note"]))
def test_what_panics_in_the_original_is_refused_by_the_same_name(record: dict[str, Any]) -> None:
    words = ("fill interval", "capacity", "quantum is")
    what = next((word.removesuffix(" is") for word in words if word in record["message"]), "rate")
    with pytest.raises(InvalidLimitError) as refusal:
        built(record)
    assert refusal.value.what == what.replace(" ", "_")


@pytest.mark.parametrize("record", [r for r in ERRORS if not r["panics"]], ids=lambda r: str(r["note"]))
def test_what_the_original_accepts_is_accepted(record: dict[str, Any]) -> None:
    """An interval given as a float of seconds is as exact as a double is."""
    bucket, chosen = built(record), record["chosen"]
    assert bucket.quantum == chosen["quantum"]
    if record["constructor"] == "rate":
        assert bucket.fill_interval_ns == chosen["fill_interval_ns"]
    else:
        assert bucket.fill_interval_ns == pytest.approx(chosen["fill_interval_ns"], rel=2**-53)


@pytest.mark.parametrize(
    ("capacity", "fill_interval", "quantum", "word"),
    [
        (1.5, 1, 1, "capacity=1.5"),
        (True, 1, 1, "capacity=True"),
        ("9", 1, 1, "capacity='9'"),
        (2**63, 1, 1, "capacity=9223372036854775808"),
        (1, float("nan"), 1, "fill_interval=nan"),
        (1, float("inf"), 1, "fill_interval=inf"),
        (1, 1e-10, 1, "fill_interval=1e-10"),
        (1, "1s", 1, "fill_interval='1s'"),
        (1, 1, 0.5, "quantum=0.5"),
    ],
)
def test_numbers_that_make_no_sense_are_refused_by_name(
    capacity: int, fill_interval: float, quantum: int, word: str
) -> None:
    with pytest.raises(InvalidLimitError, match=re.escape(word)):
        TokenBucket(capacity, fill_interval, quantum)


def test_an_unknown_refill_is_refused_with_the_known_ones() -> None:
    word: Any = "steady"
    with pytest.raises(InvalidLimitError, match=r"refill='steady'.*'interval' or 'greedy'"):
        TokenBucket(1, 1, 1, word)


@pytest.mark.parametrize("rate", [True, "7", None])
def test_a_rate_that_is_no_number_is_refused(rate: float) -> None:
    with pytest.raises(InvalidLimitError, match="rate="):
        TokenBucket.from_rate(rate, 1)


def test_seconds_and_timedelta_make_equal_buckets() -> None:
    assert TokenBucket(5, 60) == TokenBucket(5, timedelta(minutes=1))
    assert TokenBucket(5, 60) != TokenBucket(5, 61)
    assert TokenBucket(5, 60) != TokenBucket(5, 60, refill="greedy")


def test_greedy_refill_brings_a_token_as_soon_as_its_part_has_flowed_in() -> None:
    """Ten an hour: by the interval all ten come after an hour, greedily one each six minutes."""
    stepwise, greedy = TokenBucket(10, 3600, 10), TokenBucket(10, 3600, 10, "greedy")
    for bucket, wait_s in ((stepwise, 3600), (greedy, 360)):
        _, state = bucket.take(bucket.start(0), 0, 10)
        refusal, state = bucket.take(state, 0)
        assert (refusal.retry_after_ns, refusal.remaining) == (wait_s * SECOND, 0)
        assert not bucket.take(state, wait_s * SECOND - 1)[0].allowed
        assert bucket.take(state, wait_s * SECOND)[0].remaining == (9 if bucket is stepwise else 0)


def test_greedy_refill_never_rounds() -> None:
    """Seven a second for a thousand seconds."""
    bucket = TokenBucket(1, 1, 7, "greedy")
    _, state = bucket.take(bucket.start(0), 0)
    for _ in range(7000):
        _, state = bucket.take(state, 0, 1, None)
    assert bucket.forget_at_ns(state) == 1000 * SECOND + -(-SECOND // 7)


def test_a_cost_above_the_capacity_waits_and_is_never_there_at_once() -> None:
    bucket = TokenBucket(5, 1)
    waiting, _ = bucket.take(bucket.start(0), 0, 8, None)
    assert waiting.wait_ns == 3 * SECOND
    refusal = bucket.peek(bucket.start(0), 0, 8)
    assert (refusal.allowed, refusal.retry_after_ns, refusal.remaining) == (False, None, 5)


def test_a_place_in_the_queue_is_given_back_only_from_its_end() -> None:
    bucket = TokenBucket(1, 1)
    moments, state = [], bucket.start(0)
    for _ in range(4):
        decision, state = bucket.take(state, 0, 1, None)
        moments.append(decision.at_ns // SECOND)
    assert moments == [0, 1, 2, 3]
    assert bucket.give_back(state, 0, 1, 1 * SECOND) == state
    for at_s, used in ((3, 3), (2, 2), (1, 1)):
        state = bucket.give_back(state, 0, 1, at_s * SECOND)
        assert bucket.used(state, 0) == used


def test_a_bucket_that_was_full_meanwhile_takes_nothing_back() -> None:
    bucket = TokenBucket(2, 1)
    first, state = bucket.take(bucket.start(0), 0)
    _, state = bucket.take(state, 5 * SECOND, 2)
    assert bucket.give_back(state, 5 * SECOND, 1, first.at_ns) == state


def test_giving_back_more_than_the_bucket_holds_fills_it_and_no_more() -> None:
    bucket = TokenBucket(5, 1)
    booking, state = bucket.take(bucket.start(0), 0, 8, None)
    state = bucket.give_back(state, 2 * SECOND, 8, booking.at_ns)
    assert bucket.used(state, 2 * SECOND) == 0


def test_a_charge_stands_behind_every_booking() -> None:
    """A token that came in between may have found the bucket full."""
    bucket = TokenBucket(2, 1)
    booking, state = bucket.take(bucket.start(0), 0)
    before, after = (bucket.charge(state, at_ms * MS, 1) for at_ms in (999, 1000))
    assert bucket.give_back(before, SECOND, 1, booking.at_ns) == (2, SECOND, 999 * MS, 999 * MS)
    assert bucket.give_back(after, SECOND, 1, booking.at_ns) == after


def test_where_the_intervals_have_moved_an_earlier_booking_is_not_given_back() -> None:
    """Nobody can tell any more how many tokens came in behind it."""
    old, new = TokenBucket(5, 2), TokenBucket(5, 1)
    booking, state = old.take(old.start(SECOND), SECOND)
    state = old.adopt(new.adopt(state, 2500 * MS, old, "keep"), 2500 * MS, new, "keep")
    assert old.give_back(state, 2500 * MS, 1, booking.at_ns) == state


def test_a_booking_made_before_its_use_was_scaled_is_not_given_back() -> None:
    """It would give back more than its scaled self has taken."""
    old, new = TokenBucket(100, 1), TokenBucket(10, 1)
    booking, state = old.take(old.start(SECOND), SECOND, 50)
    state = new.adopt(state, SECOND, old, "scale")
    assert new.used(state, SECOND) == 5
    assert new.give_back(state, SECOND, 50, booking.at_ns) == state


def test_take_available_takes_what_is_there_and_never_waits() -> None:
    bucket = TokenBucket(5, 1, refill="greedy")
    count, state = bucket.take_available(bucket.start(0), 0, 3)
    assert count == 3
    count, state = bucket.take_available(state, 500 * MS, 9)
    assert count == 2
    assert bucket.take_available(state, 500 * MS, 9) == (0, state)


def test_scaled_takes_up_with_the_interval_what_a_whole_quantum_cannot_express() -> None:
    bucket = TokenBucket(10, 1)
    assert bucket.scaled(2) == TokenBucket(20, 1, 2)
    assert bucket.scaled(2.5) == TokenBucket(25, 0.8, 2)
    assert bucket.scaled(0.25) == TokenBucket(2, 4)
    assert bucket.scaled(0.01) == TokenBucket(1, 100)


def test_keep_scale_and_reset_carry_different_shares() -> None:
    old, new = TokenBucket(10, 1), TokenBucket(20, 1, 1, "greedy")
    _, state = old.take(old.start(0), 0, 5)
    assert new.used(new.adopt(state, 0, old, "keep"), 0) == 5
    assert new.used(new.adopt(state, 0, old, "scale"), 0) == 10
    assert new.used(new.adopt(state, 0, old, "reset"), 0) == 0


def test_reloads_do_not_put_off_a_refill() -> None:
    """The part of an interval that has gone by is kept, however often the numbers change."""
    bucket, other = TokenBucket(10, 10), TokenBucket(11, 10)
    _, state = bucket.take(bucket.start(0), 0, 10)
    for second in range(1, 10):
        state = other.adopt(state, second * SECOND, bucket, "keep")
        state = bucket.adopt(state, second * SECOND, other, "keep")
    assert bucket.peek(state, 10 * SECOND).allowed


def test_use_is_carried_over_from_another_kind_of_limit() -> None:
    old, new = GCRA(10, 10, 10), TokenBucket(20, 1)
    _, state = old.take(old.start(0), 0, 4)
    assert new.used(new.adopt(state, 0, old, "keep"), 0) == 4
    assert new.used(new.adopt(state, 0, old, "scale"), 0) == 8


def test_the_window_on_the_wire_is_the_time_to_fill() -> None:
    assert TokenBucket(10, 60, 4).window_ns == 180 * SECOND
    assert TokenBucket(10, 60, 4, "greedy").window_ns == 150 * SECOND
