"""Blocks that grow with the refusals: exact moments, fading, and a state that no numbers mint."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratelimit_middleware.algorithms.base import State
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.penalty import Penalty, Strike
from ratelimit_middleware.errors import InvalidLimitError

pytestmark = pytest.mark.arithmetic

NS = 10**9
NOW = 1_700_000_000 * NS
PENALTY = Penalty(3, (60, 300), forget_after=600)


def struck(state: State, now_ns: int, times: int = 1, penalty: Penalty = PENALTY) -> tuple[int, State]:
    """So many refusals at one moment: what is left of the block, ns, and the state."""
    left_ns = 0
    for _ in range(times):
        decision, state = penalty.strike.take(state, now_ns)
        assert decision.allowed
        left_ns = decision.reset_after_ns
    return left_ns, state


def test_the_last_of_the_refusals_in_a_row_begins_the_block() -> None:
    left_ns, state = struck(PENALTY.start(NOW), NOW, 2)
    assert left_ns == 0
    assert PENALTY.peek(state, NOW).allowed
    left_ns, state = struck(state, NOW)
    assert left_ns == 60 * NS
    decision = PENALTY.peek(state, NOW + 10 * NS)
    assert (decision.allowed, decision.retry_after_ns) == (False, 50 * NS)


def test_the_block_ends_at_the_moment_that_was_told() -> None:
    _, state = struck(PENALTY.start(NOW), NOW, 3)
    assert not PENALTY.peek(state, NOW + 60 * NS - 1).allowed
    assert PENALTY.peek(state, NOW + 60 * NS).allowed


def test_a_request_that_is_admitted_begins_the_row_anew() -> None:
    _, state = struck(PENALTY.start(NOW), NOW, 2)
    _, state = PENALTY.take(state, NOW)
    assert struck(state, NOW, 2)[0] == 0
    assert struck(state, NOW, 3)[0] == 60 * NS


def test_refusals_while_the_block_lasts_do_not_count() -> None:
    _, state = struck(PENALTY.start(NOW), NOW, 3)
    assert struck(state, NOW + NS, 50) == (59 * NS, state)


def test_each_block_is_longer_up_to_the_last() -> None:
    now_ns, state, lengths = NOW, PENALTY.start(NOW), []
    for _ in range(4):
        left_ns, state = struck(state, now_ns, 3)
        lengths.append(left_ns // NS)
        now_ns += left_ns
        _, state = PENALTY.take(state, now_ns)
    assert lengths == [60, 300, 300, 300]


@pytest.mark.parametrize(("quiet_s", "length_s"), [(599, 300), (600, 60)])
def test_a_quiet_time_after_the_block_forgets_the_level(quiet_s: int, length_s: int) -> None:
    _, state = struck(PENALTY.start(NOW), NOW, 3)
    assert struck(state, NOW + (60 + quiet_s) * NS, 3)[0] == length_s * NS


def test_refusals_far_apart_are_not_in_a_row() -> None:
    _, state = struck(PENALTY.start(NOW), NOW, 2)
    assert struck(state, NOW + 600 * NS)[0] == 0
    assert struck(state, NOW + 599 * NS)[0] == 60 * NS


def test_the_quiet_time_is_the_longest_block_unless_said() -> None:
    assert Penalty(3, (60, 300)).forget_after_ns == 300 * NS


def test_a_request_that_may_start_later_must_not_start_in_a_block() -> None:
    _, state = struck(PENALTY.start(NOW), NOW, 3)
    decision, _ = PENALTY.take(state, NOW, 1, 61 * NS, NOW + 61 * NS)
    assert (decision.allowed, decision.at_ns) == (True, NOW + 61 * NS)
    assert not PENALTY.take(state, NOW, 1, 0, NOW)[0].allowed


def test_other_numbers_keep_what_has_happened() -> None:
    _, state = struck(PENALTY.start(NOW), NOW, 3)
    other = Penalty(2, (5,))
    assert other.adopt(state, NOW, PENALTY, "keep") == state
    assert PENALTY.strike.adopt(state, NOW, PENALTY, "scale") == state
    assert PENALTY.adopt(state, NOW, PENALTY.strike, "reset") == PENALTY.start(NOW)
    assert PENALTY.adopt((NOW, 0), NOW, GCRA(1, 1, 1), "keep") == PENALTY.start(NOW)
    assert PENALTY.scaled(0.25) is PENALTY


def test_whoever_was_never_refused_is_forgotten_at_once() -> None:
    _, state = PENALTY.take(PENALTY.start(NOW), NOW)
    assert PENALTY.forget_at_ns(state) <= NOW


@given(st.lists(st.tuples(st.integers(0, 700), st.booleans()), max_size=60))
def test_dropping_a_state_that_may_be_forgotten_changes_nothing(steps: list[tuple[int, bool]]) -> None:
    now_ns, state = NOW, PENALTY.start(NOW)
    for after_s, is_refused in steps:
        now_ns += after_s * NS
        if now_ns >= PENALTY.forget_at_ns(state):
            fresh = PENALTY.start(now_ns)
            assert PENALTY.take(state, now_ns) == PENALTY.take(fresh, now_ns)
            assert PENALTY.strike.take(state, now_ns) == PENALTY.strike.take(fresh, now_ns)
        algorithm: Penalty | Strike = PENALTY.strike if is_refused else PENALTY
        decision, state = algorithm.take(state, now_ns)
        assert decision.allowed or decision.retry_after_ns
        state = PENALTY.give_back(PENALTY.charge(state, now_ns, 5), now_ns, 1, now_ns)


@pytest.mark.parametrize(
    ("after", "blocks", "forget_after", "what"),
    [
        (0, (60,), None, "after"),
        (True, (60,), None, "after"),
        (1, (), None, "block"),
        (1, (0,), None, "block"),
        (1, (60, 30), None, "block"),
        (1, (60,), 0, "forget_after"),
    ],
)
def test_nonsense_is_refused(after: int, blocks: tuple[float, ...], forget_after: float, what: str) -> None:
    with pytest.raises(InvalidLimitError, match=what):
        Penalty(after, blocks, forget_after)
