"""The decision on requests in progress, against Sentinel's recorded answers."""

from __future__ import annotations

from heapq import heappop, heappush

import pytest

from ratelimit_middleware.algorithms.concurrency import has_room
from tests.vectors.sentinel import Scenario, load

pytestmark = pytest.mark.arithmetic

SCENARIOS = load("default_thread")


def named(scenario: object) -> str:
    return scenario.id if isinstance(scenario, Scenario) else str(scenario)


@pytest.mark.parametrize("scenario", [s for s in SCENARIOS if s.stubbed], ids=named)
def test_sentinels_decisions_on_given_numbers_are_reproduced(scenario: Scenario) -> None:
    count = scenario.data["count"]
    ours = [has_room(op["cur_thread_num"], op["acquire"], count) for op in scenario.ops]
    assert ours == [op["expect"]["pass"] for op in scenario.ops]


@pytest.mark.parametrize("scenario", [s for s in SCENARIOS if not s.stubbed], ids=named)
def test_sentinels_decisions_on_requests_in_progress_are_reproduced(scenario: Scenario) -> None:
    """Each request that passed is one in progress, whatever it asked for, until `hold_ms` later."""
    ends: list[int] = []
    for op in scenario.ops:
        while ends and ends[0] <= op["at_ms"]:
            heappop(ends)
        passed = has_room(len(ends), op["acquire"], scenario.data["count"])
        assert passed == op["expect"]["pass"]
        if passed:
            heappush(ends, op["at_ms"] + op["hold_ms"])
