"""What is said when the limiter itself fails."""

from __future__ import annotations

import pytest

from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.errors import StoreError, StoreUnavailableError
from ratelimit_middleware.faults import FaultLog

pytestmark = pytest.mark.arithmetic


def test_a_storm_of_failures_is_one_line_and_a_count(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    faults = FaultLog("it failed", quiet_s=10, clock=clock)
    for _ in range(1000):
        faults.report(RuntimeError("gone"))
    clock.advance(9.9)
    faults.report(RuntimeError("gone"))
    clock.advance(0.1)
    faults.report(RuntimeError("gone again"))

    assert [record.getMessage() for record in caplog.records] == [
        "it failed: gone",
        "it failed (1000 more since the last line): gone again",
    ]
    assert all(record.exc_info for record in caplog.records)


def test_an_outage_of_the_store_is_left_to_its_guard(caplog: pytest.LogCaptureFixture) -> None:
    faults = FaultLog("it failed")
    faults.report(StoreUnavailableError(1))
    assert caplog.records == []
    faults.report(StoreError("gone"))
    assert len(caplog.records) == 1


class BrokenClock(ManualClock):
    """A clock that has stopped working."""

    def now_ns(self) -> int:
        raise OSError("no clock")


def test_a_report_never_raises_whatever_the_clock_does(caplog: pytest.LogCaptureFixture) -> None:
    FaultLog("it failed", clock=BrokenClock()).report(RuntimeError("gone"))

    assert caplog.records == []
