"""take_together: what no store's own tests show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from ratelimit_middleware.algorithms.base import State, granted
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.decision import Decision
from ratelimit_middleware.stores._joint import take_together
from ratelimit_middleware.stores.base import Check

pytestmark = pytest.mark.arithmetic

NOW = 10**18
SECOND = 10**9


def load(key: str, check: Check, now_ns: int) -> State:
    return check.algorithm.start(now_ns)


@dataclass(frozen=True)
class Restless(SlidingWindow):
    """Admits always, a moment after the one asked for."""

    def take(
        self,
        state: State,
        now_ns: int,
        cost: int = 1,
        max_wait_ns: int | None = 0,
        from_ns: int = 0,
        within: int | None = None,
    ) -> tuple[Decision, State]:
        at_ns = max(now_ns, from_ns) + 1
        return granted(at_ns, now_ns, self.limit, 5, 0), state


def test_a_search_that_does_not_end_books_nothing() -> None:
    """Two would start at different moments."""
    restless: Any = Restless(9, 60)
    checks = [Check(key, restless, "*", 1, None) for key in ("a", "b")]
    taken = take_together(checks, ["a", "b"], load, NOW)
    assert taken.states == []
    assert not any(decision.allowed for decision in taken.decisions)
    assert all(decision.retry_after_ns for decision in taken.decisions)


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 0, 1)])
def test_checks_that_share_a_bucket_all_count_shadow_or_not(order: tuple[int, ...]) -> None:
    window = SlidingWindow(9, 60)
    checks = [
        Check("a", window, "*"),
        Check("a", window, "*", 2, shadow=True),
        Check("a", window, "*", 3, shadow=True),
    ]
    taken = take_together([checks[place] for place in order], ["a"] * 3, load, NOW)
    assert all(decision.allowed for decision in taken.decisions)
    [(_, _, state)] = taken.states
    assert window.used(state, NOW) == 6


def test_a_check_that_never_waits_tells_its_wait_from_now_on() -> None:
    """The queue asks for a start ahead, which the next request need not ask for again."""
    once_in_ten, every_two = SlidingWindow(1, 10), SlidingWindow(1, 2)
    checks = [Check("queue", every_two, "*", 1, 5 * SECOND), Check("window", once_in_ten, "*")]
    keys = [check.key for check in checks]
    states = {key: state for key, _, state in take_together(checks, keys, load, NOW).states}
    refused = take_together(checks, keys, lambda key, _check, _now_ns: states[key], NOW)
    wait_ns = max(decision.retry_after_ns or 0 for decision in refused.decisions)
    assert wait_ns == 10 * SECOND
    later = take_together(checks, keys, lambda key, _check, _now_ns: states[key], NOW + wait_ns)
    assert all(decision.allowed for decision in later.decisions)
