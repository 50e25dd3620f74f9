"""Taking with a wait and giving back: GCRA against the recorded reservations of golang.org/x/time/rate.

The same token bucket in another form. Where the meaning is the same, the answers are; where it is not, the
scenario is listed with both answers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest

from ratelimit_middleware.algorithms.base import State
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.errors import InvalidLimitError
from tests.vectors import xtime_rate

pytestmark = pytest.mark.arithmetic

NEVER_NS = 2**63 - 1
EPOCH_NS = 1_700_000_000_000_000_000
SCENARIOS = xtime_rate.load("xtime_rate_public.jsonl") + xtime_rate.load("overflow_edge.jsonl")
Answer: TypeAlias = Mapping[str, object]


class Deviation(NamedTuple):
    """A scenario in which ours does not follow, with both sides pinned at the first different answer.

    Attributes:
        why: a heading of docs/deviations/xtime-rate.md.
        call: number of that call.
        theirs: what differs in the original's answer (all of it, where ours refuses the numbers).
        ours: the same of ours, or the number that is refused.
    """

    why: str
    call: int
    theirs: Answer
    ours: Answer


DEVIATIONS = {
    "allow-full-at-start": Deviation(
        "cut wait",
        9,
        {"ok": True, "tokens_after": -9.99999993922529e-09},
        {"ok": False, "tokens_after": 0.99999999},
    ),
    "allow-fractional-rate": Deviation(
        "cut wait",
        2,
        {"ok": True, "tokens_after": -1.000000082740371e-10},
        {"ok": False, "tokens_after": 0.9999999999},
    ),
    "allow-high-rate": Deviation(
        "cut wait",
        2,
        {"ok": True, "tokens_after": -0.0009999999999998899},
        {"ok": False, "tokens_after": 0.999},
    ),
    "cancel-after-time-to-act-is-noop": Deviation(
        "late cancel", 2, {"tokens_after": 0.010000000000000009}, {"tokens_after": 1.0}
    ),
    "cancel-immediate-reservation": Deviation(
        "late cancel", 4, {"tokens_after": 1.000000004}, {"tokens_after": 4.0}
    ),
    "cancel-twice": Deviation("cancelled twice", 5, {"tokens_after": 3.0}, {"tokens_after": -3.0}),
    "set-burst-up-and-down": Deviation("other burst", 1, {"tokens_after": 0.0}, {"tokens_after": 7.0}),
    "cancel-with-clock-behind": Deviation(
        "clock goes back", 2, {"tokens_after": 0.0}, {"tokens_after": -1.0}
    ),
    "set-with-older-time": Deviation("clock goes back", 1, {"tokens_after": 0.0}, {"tokens_after": -5.0}),
    "time-goes-back-refused-does-not-move-clock": Deviation(
        "clock goes back", 1, {"tokens_after": 0.0}, {"tokens_after": -5.0}
    ),
    "tiny-limit-not-full-at-start": Deviation(
        "full at start", 0, {"tokens_after": 0.9223372036854777}, {"tokens_after": 1.0}
    ),
    "overflow-queue-of-slow-reservations": Deviation(
        "full at start", 0, {"tokens_after": 9.223372036854776}, {"tokens_after": 10.0}
    ),
    "allow-burst-zero": Deviation("odd numbers", 0, {"ok": False, "tokens_after": 0.0}, {"refused": "burst"}),
    "every-zero-is-infinite": Deviation(
        "odd numbers", 0, {"limit": "inf", "tokens_after": 0.0}, {"refused": "limit"}
    ),
    "set-to-infinite-and-back": Deviation("odd numbers", 2, {"tokens_after": 0.0}, {"refused": "limit"}),
    "zero-limit-spends-burst": Deviation(
        "odd numbers", 0, {"burst": 5, "tokens_after": 0.0}, {"refused": "limit"}
    ),
    "zero-limit-then-raised": Deviation(
        "odd numbers", 0, {"ok": True, "tokens_after": 0.0}, {"refused": "limit"}
    ),
    "negative-limit": Deviation("odd numbers", 0, {"tokens": 0.0, "tokens_after": 0.0}, {"refused": "limit"}),
    "overflow-wait-wraps": Deviation(
        "odd numbers",
        0,
        {"tokens": 0.09223372036854775, "tokens_after": 0.09223372036854775},
        {"refused": "period"},
    ),
}


class Booking(NamedTuple):
    """A granted reservation, and the numbers it was made in."""

    at_ns: int
    cost: int
    gcra: GCRA


class Limiter:
    """The words of the original, said with GCRA."""

    def __init__(self, limit: float | str, burst: int) -> None:
        self.gcra = gcra(limit, burst)
        self.state: State = self.gcra.start(EPOCH_NS)
        self.bookings: dict[str, Booking] = {}
        self.cancelled: set[str] = set()

    def answer(self, op: Mapping[str, Any], now_ns: int) -> dict[str, object]:
        name = op["op"]
        if name == "allow_n":
            decision, self.state = self.gcra.take(self.state, now_ns, op["n"], 0)
            return {"ok": decision.allowed}
        if name == "reserve_n":
            decision, self.state = self.gcra.take(self.state, now_ns, op["n"], None)
            if decision.allowed:
                self.bookings[op["res"]] = Booking(decision.at_ns, op["n"], self.gcra)
                return {"ok": True, "delay_ns": decision.wait_ns}
            return {"ok": False, "delay_ns": NEVER_NS if decision.retry_after_ns is None else None}
        if name == "delay_from":
            booking = self.bookings.get(op["res"])
            return {"delay_ns": NEVER_NS if booking is None else max(0, booking.at_ns - now_ns)}
        if name == "cancel_at":
            self.cancel(op["res"], now_ns)
        elif name == "set_limit_at":
            self.change(gcra(op["limit"], self.gcra.burst), now_ns)
        elif name == "set_burst_at":
            self.change(GCRA(self.gcra.limit, self.gcra.period, op["burst"]), now_ns)
        elif name in ("limit", "burst"):
            return {"limit": self.gcra.limit / self.gcra.period_ns * 1e9, "burst": self.gcra.burst}
        return {}

    def cancel(self, name: str, now_ns: int) -> None:
        """Once: that is the business of whoever holds the booking."""
        if name in self.bookings and name not in self.cancelled:
            self.cancelled.add(name)
            at_ns, cost, then = self.bookings[name]
            state = then.adopt(self.state, now_ns, self.gcra, "keep")
            state = then.give_back(state, now_ns, cost, at_ns)
            self.state = self.gcra.adopt(state, now_ns, then, "keep")

    def change(self, new: GCRA, now_ns: int) -> None:
        self.state = new.adopt(self.state, now_ns, self.gcra, "keep")
        self.gcra = new

    def tokens(self, now_ns: int) -> float:
        last_ns, debt = self.state[:2]
        debt -= (now_ns - last_ns) * self.gcra.ticks_per_ns
        missing = Fraction(max(0, debt), self.gcra.permit_ticks)
        return float(self.gcra.burst - missing)


def gcra(limit: float | str, burst: int) -> GCRA:
    """The limit per second as a fraction: 7.77 are 777 in 100 s."""
    rate = Fraction(str(limit)) if limit != "inf" else Fraction(0)
    return GCRA(rate.numerator, rate.denominator, burst)


def differs(word: str, theirs: object, ours: object) -> bool:
    """But for doubles: theirs cuts a wait to whole nanoseconds where ours rounds up."""
    return ours != pytest.approx(theirs, abs=1 if word == "delay_ns" else 1e-7, rel=0)


def deviation(scenario: Mapping[str, Any], why: str = "") -> Deviation | None:
    """The first call that is answered otherwise, or leaves other tokens behind."""
    limiter: Limiter | None = None
    for call, op in enumerate(scenario["ops"]):
        now_ns, theirs = EPOCH_NS + op["at_ns"], op["expect"]
        try:
            limiter = limiter or Limiter(scenario["limit"], scenario["burst"])
            ours = {**limiter.answer(op, now_ns), "tokens_after": limiter.tokens(now_ns)}
        except InvalidLimitError as error:
            return Deviation(why, call, theirs, {"refused": error.what})
        words = [word for word in theirs if word in ours and differs(word, theirs[word], ours[word])]
        if words:
            theirs = {word: theirs[word] for word in words}
            return Deviation(why, call, theirs, {word: ours[word] for word in words})
    return None


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: str(s["id"]))
def test_reservations_follow_the_original_but_for_the_listed_deviations(scenario: dict[str, Any]) -> None:
    listed = DEVIATIONS.get(scenario["id"])
    assert deviation(scenario, listed.why if listed else "") == listed


def test_docs_list_each_deviation_with_both_answers() -> None:
    def told(answer: Answer) -> str:
        return ", ".join(f"{word} {value}" for word, value in answer.items())

    page = (
        Path(__file__).parents[2].joinpath("docs", "deviations", "xtime-rate.md").read_text(encoding="utf-8")
    )
    rows = re.findall(r"^\| `(\S+)` \| (.+?) \| (\d+) \| (.+?) \| (.+?) \|$", page, re.MULTILINE)
    table = [(name, d.why, str(d.call), told(d.theirs), told(d.ours)) for name, d in DEVIATIONS.items()]
    assert sorted(rows) == sorted(table)
    assert all(f"\n## {d.why.capitalize()}\n" in page for d in DEVIATIONS.values())
    assert set(DEVIATIONS) <= {scenario["id"] for scenario in SCENARIOS}


def test_the_wait_handed_out_is_always_enough() -> None:
    """A third of a second has no whole nanoseconds: the original cuts, and its token is not there."""
    bucket = GCRA(3, 1, 1)
    _, state = bucket.take(bucket.start(EPOCH_NS), EPOCH_NS)
    refusal, state = bucket.take(state, EPOCH_NS)
    assert refusal.retry_after_ns == 333_333_334
    assert not bucket.peek(state, EPOCH_NS + 333_333_333).allowed
    assert bucket.peek(state, EPOCH_NS + 333_333_334).allowed


def test_a_storm_of_clients_that_leave_costs_those_who_stay_nothing() -> None:
    """Twelve queue; all who wait leave from the end; the next one stands where the first of them stood."""
    bucket = GCRA(50, 1, 5)
    bookings, state = [], bucket.start(EPOCH_NS)
    for _ in range(12):
        decision, state = bucket.take(state, EPOCH_NS, 1, None)
        bookings.append(decision.at_ns)
    for at_ns in reversed(bookings[5:]):
        state = bucket.give_back(state, EPOCH_NS, 1, at_ns)
    assert bucket.take(state, EPOCH_NS, 1, None)[0].at_ns == bookings[5]
