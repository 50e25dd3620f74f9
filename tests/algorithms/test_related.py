"""A limit that others use up: who asks takes nothing, who counts is never refused."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratelimit_middleware.algorithms.base import Algorithm, State
from ratelimit_middleware.algorithms.fixed_window import FixedWindow
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.related import Related, RelatedCharge
from ratelimit_middleware.algorithms.sliding_counter import SlidingCounter
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.algorithms.token_bucket import TokenBucket
from ratelimit_middleware.algorithms.warm_up_window import WarmUpWindow
from ratelimit_middleware.errors import InvalidLimitError
from ratelimit_middleware.stores._entries import EntryCodec
from ratelimit_middleware.stores._packing import pack

pytestmark = pytest.mark.arithmetic

NS = 10**9
NOW = 1_700_000_000 * NS
LIMITS: list[Algorithm] = [
    SlidingWindow(5, 10),
    GCRA(5, 10, 5),
    TokenBucket(5, 2),
    FixedWindow(5, 10),
    SlidingCounter(5, 10),
    WarmUpWindow(6, 10, 40),
]
limits = pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: type(limit).__name__)


def charged(related: Related, at_ns: list[int], state: State | None = None) -> State:
    """The state after requests of the others at these moments."""
    state = related.start(NOW) if state is None else state
    for moment_ns in at_ns:
        decision, state = related.charged.take(state, moment_ns)
        assert (decision.allowed, decision.at_ns, decision.wait_ns) == (True, moment_ns, 0)
    return state


@limits
def test_it_admits_for_ever_while_the_others_are_quiet(limit: Algorithm) -> None:
    related = Related(limit)
    state = charged(related, [NOW])
    before = related.used(state, NOW)
    for _ in range(50):
        decision, state = related.take(state, NOW)
        assert decision.allowed
    assert related.used(state, NOW) == before == 1


@limits
def test_it_refuses_once_the_others_have_used_the_limit_up(limit: Algorithm) -> None:
    related = Related(limit)
    state = charged(related, [NOW] * 6)
    decision, same = related.take(state, NOW)
    assert not decision.allowed
    assert same == related.step(state, NOW)
    assert decision.retry_after_ns
    assert not related.peek(state, NOW + decision.retry_after_ns - 1).allowed
    assert related.peek(state, NOW + decision.retry_after_ns).allowed


@limits
def test_the_others_are_counted_and_never_refused_however_many_they_are(limit: Algorithm) -> None:
    related = Related(limit)
    state = charged(related, [NOW] * 1000)
    assert related.used(state, NOW) <= 2 * limit.quota
    assert not related.peek(state, NOW).allowed


def test_it_waits_for_room_if_it_may() -> None:
    related = Related(SlidingWindow(2, 10))
    state = charged(related, [NOW, NOW + NS])
    decision, _ = related.take(state, NOW + 4 * NS, 1, 6 * NS)
    assert (decision.allowed, decision.wait_ns) == (True, 6 * NS)
    assert not related.take(state, NOW + 4 * NS, 1, 6 * NS - 1)[0].allowed


def test_a_request_of_the_others_that_waits_counts_when_it_starts() -> None:
    related = Related(SlidingWindow(1, 10))
    decision, state = related.charged.take(related.start(NOW), NOW, 1, None, NOW + 3 * NS)
    assert (decision.at_ns, decision.wait_ns) == (NOW + 3 * NS, 3 * NS)
    assert related.peek(state, NOW).retry_after_ns == 13 * NS
    assert related.charged.give_back(state, NOW, 1, NOW + 3 * NS) == related.start(NOW)


@given(st.lists(st.integers(0, 30), max_size=60), st.integers(1, 4), st.integers(0, 40))
def test_of_a_window_it_tells_what_the_newest_requests_tell(gaps: list[int], limit: int, later: int) -> None:
    """However far the others go beyond the limit: there is room as soon as fewer than it are a period old."""
    related = Related(SlidingWindow(limit, 10))
    moments, now_ns = [], NOW
    for gap in gaps:
        now_ns += gap * NS // 3
        moments.append(now_ns)
    state = charged(related, moments)
    now_ns += later * NS // 3
    recent = [moment for moment in moments if moment > now_ns - 10 * NS]
    decision = related.peek(state, now_ns)
    assert decision.allowed == (len(recent) < limit)
    if not decision.allowed:
        assert decision.retry_after_ns == recent[-limit] + 10 * NS - now_ns


@limits
def test_what_asks_gives_nothing_back_and_charges_nothing(limit: Algorithm) -> None:
    related = Related(limit)
    state = charged(related, [NOW] * 3)
    assert related.give_back(state, NOW, 1, NOW) == related.charge(state, NOW, 1) == related.step(state, NOW)


@limits
def test_both_work_on_one_state_and_new_numbers_adopt_it(limit: Algorithm) -> None:
    related, scaled = Related(limit), Related(limit.scaled(2))
    state = charged(related, [NOW] * 3)
    assert related.adopt(state, NOW, related.charged, "reset") == state
    assert related.charged.adopt(state, NOW, related, "reset") == state
    assert related.scaled(2) == scaled
    for old in (related, related.charged, limit):
        assert scaled.used(scaled.adopt(state, NOW, old, "keep"), NOW) == 3
    assert limit.used(limit.adopt(state, NOW, related, "keep"), NOW) == 3


@limits
def test_a_state_may_be_forgotten_when_the_limit_says_so(limit: Algorithm) -> None:
    related = Related(limit)
    state = charged(related, [NOW] * 8)
    forget_ns = related.forget_at_ns(state)
    assert related.peek(state, forget_ns).allowed == related.peek(related.start(forget_ns), forget_ns).allowed


@pytest.mark.parametrize("wrong", [Related(SlidingWindow(5, 60)), 5, None])
def test_what_is_no_arithmetic_of_its_own_is_refused(wrong: object) -> None:
    for kind in (Related, RelatedCharge):
        with pytest.raises(InvalidLimitError, match="expected an algorithm"):
            kind(wrong)  # type: ignore[arg-type]


@limits
def test_an_entry_of_a_store_is_read_back(limit: Algorithm) -> None:
    """By a worker that has not seen the rules yet, too."""
    related = Related(limit)
    state = charged(related, [NOW] * 3)
    for algorithm in (related, related.charged):
        entry = EntryCodec().encode(algorithm, state)
        assert EntryCodec().decode(entry) == (algorithm, state)


def test_a_file_that_nests_them_without_end_holds_no_entry() -> None:
    head = EntryCodec().head(SlidingWindow(5, 60))
    for _ in range(1000):
        body = pack(("related:Related", head))
        head = struct.pack("<H", 2 + len(body)) + body
    assert EntryCodec().decode(head) is None
