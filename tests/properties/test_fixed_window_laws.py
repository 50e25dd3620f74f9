"""What holds for FixedWindow only: its grid."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratelimit_middleware.algorithms.fixed_window import FixedWindow
from tests.properties.cases import Case, cases
from tests.properties.kinds import units, zones
from tests.properties.laws import START_NS, Hit

pytestmark = pytest.mark.arithmetic


@given(cases(names=("FixedWindow",)), st.lists(st.floats(-3, 3), max_size=40))
def test_a_clock_that_goes_back_and_forth_never_breaks_the_bound(case: Case, moments: list[float]) -> None:
    window, hits = case.algorithm, list[Hit]()
    state = window.start(START_NS)
    for place, moment in enumerate(moments):
        now_ns = START_NS + int(moment * window.window_ns)
        decision, state = window.take(state, now_ns, 1, None if place % 3 else 0)
        if decision.allowed:
            hits.append(Hit(decision.at_ns, 1))
    case.kind.keeps(window, hits, case.waits)


@given(st.builds(FixedWindow, st.just(1), units, zones), st.integers(0, 2**62))
def test_windows_follow_each_other_without_gap_or_overlap(window: FixedWindow, moment_ns: int) -> None:
    end_ns = window.start(moment_ns)[1]
    for _ in range(30):
        start_ns, next_ns, _, _ = window.start(end_ns)
        assert start_ns == end_ns < next_ns
        assert window.start(next_ns - 1)[:2] == (start_ns, next_ns)
        end_ns = next_ns
