"""What docs/sentinel.md shows is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ratelimit_middleware.algorithms.pacing import Pacing
from ratelimit_middleware.algorithms.qps_window import QpsWindow
from ratelimit_middleware.algorithms.sliding_counter import SlidingCounter
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.algorithms.warm_up_pacing import WarmUpPacing
from tests.properties.laws import capacity

pytestmark = pytest.mark.arithmetic

PAGE = Path(__file__).parents[2].joinpath("docs", "sentinel.md").read_text("utf-8")
MS = 1_000_000
SECOND = 1_000_000_000
NOON = 1_700_049_600 * SECOND


def row(head: str) -> list[int]:
    (cells,) = re.findall(rf"^\| {re.escape(head)} \| (.*) \|$", PAGE, re.MULTILINE)
    return [int(cell) for cell in cells.split("|")]


def test_the_python_of_the_page_runs() -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    exec(code, {})  # noqa: S102 - our own page


@pytest.mark.parametrize(("head", "whole_ms"), [("whole milliseconds", True), ("exact (default)", False)])
def test_the_warm_up_is_as_the_page_shows(head: str, whole_ms: bool) -> None:
    algorithm, starts = WarmUpPacing(100, 10, whole_ms=whole_ms), row(head)
    state, passed = algorithm.start(NOON), [0] * len(starts)
    for at_ms in range(1000 * len(starts)):
        decision, state = algorithm.take(state, NOON + at_ms * MS)
        passed[at_ms // 1000] += decision.allowed
    assert passed == starts


def test_pacing_goes_by_the_clock_as_the_page_shows() -> None:
    pacing = Pacing(10, 0.3)
    state, asked_ms = pacing.start(NOON), [0, 0, 0, 0, 20, 10_000, 10_000]
    answers = []
    for at_ms in asked_ms:
        decision, state = pacing.take(state, NOON + at_ms * MS, 1, None)
        answers.append(decision.retry_after or decision.wait)
    assert answers == [0, 0.1, 0.2, 0.3, 0.08, 0, 0.1]
    assert pacing.peek(state, NOON + 20_000 * MS, 5).allowed
    assert (pacing.quota, pacing.window_ns) == (4, 400 * MS)


def test_the_two_windows_of_a_second_differ_as_the_page_shows() -> None:
    admitted = []
    for window in (QpsWindow(10), SlidingWindow(10, 1)):
        _, state = window.take(window.start(NOON), NOON + 499 * MS, 10)
        admitted.append([capacity(window, state, NOON + ms * MS) for ms in (999, 1000, 1498, 1499)])
    assert admitted == [[0, 10, 10, 10], [0, 0, 0, 10]]


def test_a_counter_lets_nineteen_through_as_the_page_shows() -> None:
    counter = SlidingCounter(10, 60)
    _, state = counter.take(counter.start(NOON), NOON + 59 * SECOND, 10)
    assert counter.peek(state, NOON + 60 * SECOND).retry_after == 6
    passed = []
    for second in range(60, 119):
        decision, state = counter.take(state, NOON + second * SECOND)
        passed += [second] * decision.allowed
    assert passed == list(range(66, 119, 6))
