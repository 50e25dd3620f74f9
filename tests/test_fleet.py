"""The simulation behind docs/scaling.md counts right, and the page shows what it prints."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/scaling.md").read_text()


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / f"benchmarks/{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def fleet() -> ModuleType:
    return loaded("fleet")


def test_idle_servers_answer_after_the_round_trip_and_their_own_work(fleet: ModuleType) -> None:
    seen = fleet.simulate(fleet.Fleet(100, 4, round_trip_us=500, call_us=40, check_us=20), 2000)

    assert seen.p50_us == pytest.approx(560)
    assert seen.calls_per_request == pytest.approx(1, abs=0.03)
    assert seen.busy == pytest.approx(100 * 60e-6, rel=0.1)


def test_a_busy_server_gets_fewer_and_larger_calls(fleet: ModuleType) -> None:
    calm = fleet.simulate(fleet.Fleet(5_000, 8), 20_000)
    busy = fleet.simulate(fleet.Fleet(30_000, 8), 20_000)

    assert busy.calls_per_request < 0.5 < calm.calls_per_request
    assert busy.busy > 0.95
    # More than one call each would allow: 1 / 62 µs.
    assert busy.calls_per_request * 40 + 22 < 1e6 / 30_000 * 1.05


def test_leases_save_calls_on_one_bucket_and_cost_nothing_on_many(fleet: ModuleType) -> None:
    def leased(buckets: int) -> tuple[float, float]:
        seen = fleet.simulate(fleet.Fleet(50_000, 16, 4, buckets, lease_size=20), 30_000)
        return seen.calls_per_request, seen.unspent

    calls, unspent = leased(1)
    assert calls == pytest.approx(1 / 20, rel=0.2)
    assert unspent == 0
    calls, unspent = leased(100_000)
    assert calls > 0.9
    assert unspent < 0.02


def test_leases_never_pass_the_limit_and_lose_about_a_hundredth_of_it() -> None:
    cost_of_leases = loaded("fleet_leases").cost_of_leases
    without, with_leases = cost_of_leases(16, 0, 1.5), cost_of_leases(16, 50, 1.5)

    assert without.most == without.admitted == 1
    assert 0.98 < with_leases.admitted < with_leases.most <= 1
    assert cost_of_leases(16, 50, 0.9).calls_per_request < 0.15


@pytest.mark.parametrize("row", range(5))
def test_the_page_shows_what_the_simulation_prints(fleet: ModuleType, row: int) -> None:
    size = fleet.SIZES[row]
    seen = fleet.simulate(size)

    assert (
        f"| {size.requests_per_s:,} | {size.workers} | {size.shards} | {seen.calls_per_request:.2f}"
        f" | {seen.busy:.0%} | {seen.p50_us / 1000:.1f} ms | {seen.p99_us / 1000:.1f} ms |"
    ) in PAGE
