"""One request over several slots: what is given back, and when it starts. The answers are made up."""

from __future__ import annotations

import pytest

from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.stores._cluster_take import Answer, JointTake
from ratelimit_middleware.stores._cluster_talk import SplitSlotError
from ratelimit_middleware.stores.base import Check

NOW, MS = 10**18, 1_000_000
WINDOW = SlidingWindow(10, 60)


def check(key: str, *, max_wait_ms: int = 0, shadow: bool = False) -> Check:
    return Check(key, WINDOW, "*", 1, max_wait_ms * MS, shadow)


YES = Decision(True, NOW, 0, None, 10, 5, 60 * 10**9)  # noqa: FBT003 - fields in order
NO = Decision(False, NOW, 0, 10**9, 10, 0, 60 * 10**9)  # noqa: FBT003 - fields in order


def yes(wait_ms: int = 0) -> Decision:
    return YES._replace(at_ns=NOW + wait_ms * MS, wait_ns=wait_ms * MS)


def take(*checks: Check, slots: str) -> JointTake:
    """A request whose checks are in the slots of these letters."""
    where = {check.key: slot for check, slot in zip(checks, slots, strict=True)}
    return JointTake(checks, where.__getitem__)


def keys(request: JointTake) -> list[list[str]]:
    return [[check.key for check in part.ask.checks] for part in request.pending]


def given_back(request: JointTake) -> list[str]:
    return [check.key for check, _ in request.excess]


def test_checks_of_one_slot_are_asked_together() -> None:
    request = take(check("a"), check("b"), check("c"), slots="xyx")
    assert keys(request) == [["a", "c"], ["b"]]
    request.heard([[yes(), yes()], [yes()]])
    assert (request.pending, request.excess) == ([], [])
    assert request.decisions() == [yes()] * 3


def test_a_refusal_gives_back_what_others_have_granted_and_tells_their_numbers_untouched() -> None:
    request = take(check("a"), check("b"), check("seen", shadow=True), slots="xyx")
    request.heard([[yes(), yes()], [NO]])
    assert given_back(request) == ["a"]  # the shadow check stays booked
    assert [d.allowed for d in request.decisions()] == [True, False, True]
    assert [d.remaining for d in request.decisions()] == [6, 0, 5]


def test_a_part_without_an_answer_is_an_error_and_all_others_are_given_back() -> None:
    request = take(check("a"), check("b"), check("seen", shadow=True), slots="xyx")
    answers: list[Answer] = [[yes(), yes()], StoreError("gone")]
    request.heard(answers)
    assert given_back(request) == ["a", "seen"]
    with pytest.raises(StoreError, match="gone"):
        request.decisions()


def test_the_least_patient_check_decides_how_long_all_may_wait() -> None:
    request = take(check("a", max_wait_ms=900), check("b", max_wait_ms=300), check("c"), slots="xyz")
    assert [part.ask.checks[0].max_wait_ns for part in request.pending] == [300 * MS, 300 * MS, 0]


def test_those_that_would_start_sooner_book_again_for_the_wait_of_the_last() -> None:
    request = take(check("a", max_wait_ms=900), check("b"), check("seen", shadow=True), slots="xyy")
    request.heard([[yes(40)], [yes(), yes()]])
    assert given_back(request) == ["b"]
    assert [(part.ask.wait_us, part.places) for part in request.pending] == [(40_000, (1,))]
    request.heard([[yes(40)]])
    assert (request.pending, request.excess) == ([], [])
    assert [d.wait_ns for d in request.decisions()] == [40 * MS, 40 * MS, 0]


def test_who_refuses_the_later_moment_gives_all_back() -> None:
    request = take(check("a", max_wait_ms=900), check("b"), slots="xy")
    request.heard([[yes(40)], [yes()]])
    request.heard([[NO]])
    assert given_back(request) == ["a"]
    assert [d.allowed for d in request.decisions()] == [True, False]


def test_slots_that_never_agree_are_an_error_and_nothing_stays_booked() -> None:
    request = take(check("a", max_wait_ms=900), check("b", max_wait_ms=900), slots="xy")
    request.heard([[yes(1)], [yes(2)]])
    for wait_ms in range(3, 100):
        if not request.pending:
            break
        request.heard([[yes(wait_ms)]])
    assert sorted(given_back(request)) == ["a", "b"]
    with pytest.raises(StoreError, match="no moment was found"):
        request.decisions()


def test_a_moving_slot_is_asked_bucket_by_bucket_and_those_of_one_bucket_stay_together() -> None:
    request = take(check("a"), check("b"), check("a"), check("c"), slots="xxxy")
    answers: list[Answer] = [SplitSlotError("moving"), [NO]]
    request.heard(answers)
    assert keys(request) == [["a", "a"], ["b"]]
    assert [(part.places, part.is_alone) for part in request.pending] == [((0, 2), True), ((1,), True)]
    request.heard([[yes(), yes()], [yes()]])
    assert sorted(given_back(request)) == ["a", "a", "b"]
    assert [d.allowed for d in request.decisions()] == [True, True, True, False]
