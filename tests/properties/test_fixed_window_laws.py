"""What holds for FixedWindow only: its grid."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratelimit_middleware.algorithms.fixed_window import FixedWindow
from tests.properties.kinds import units, zones

pytestmark = pytest.mark.arithmetic


@given(st.builds(FixedWindow, st.just(1), units, zones), st.integers(0, 2**62))
def test_windows_follow_each_other_without_gap_or_overlap(window: FixedWindow, moment_ns: int) -> None:
    end_ns = window.start(moment_ns)[1]
    for _ in range(30):
        start_ns, next_ns, _, _ = window.start(end_ns)
        assert start_ns == end_ns < next_ns
        assert window.start(next_ns - 1)[:2] == (start_ns, next_ns)
        end_ns = next_ns
