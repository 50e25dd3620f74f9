"""The command that runs the benchmarks: what it says to those who ask for something it cannot do."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "benchmarks" / "bench.py"

BUSY_ON_A_LOOP = """
import asyncio, bench

async def busy():
    print("busy", flush=True)
    while True:
        pass

bench.run = lambda name, minutes: asyncio.run(busy())
bench.main()
"""


def _bench(*words: str) -> subprocess.CompletedProcess[str]:
    """Where no program is to be found."""
    command = [sys.executable, str(BENCH), *words]
    return subprocess.run(command, capture_output=True, text=True, env={"PATH": ""}, check=False)


def test_a_wrong_name_is_told_the_right_one() -> None:
    said = _bench("atack")
    assert said.returncode == 2
    assert "no such benchmark: atack; did you mean attack?" in said.stderr


def test_each_name_is_told_with_what_it_is() -> None:
    lines = _bench("--help").stdout.splitlines()
    assert "  attack        a million invented clients, paths and headers: limits hold" in lines


def test_a_benchmark_that_cannot_run_is_told_and_fails() -> None:
    said = _bench("instructions", "instructions")
    assert said.returncode == 1, said.stderr
    assert said.stdout.count("Not complete: valgrind is not installed.") == 1  # named twice, run once
    goals = said.stdout.splitlines()[-2]
    assert goals.startswith("| others")
    assert "not run: no valgrind" in goals


@pytest.mark.parametrize("minutes", ["0", "-1", "nan", "inf"])
def test_a_soak_of_no_length_is_refused(minutes: str) -> None:
    said = _bench("soak", f"--minutes={minutes}")
    assert said.returncode == 2
    assert f"--minutes {minutes}: expected a number above 0" in said.stderr


def test_the_first_interrupt_ends_a_benchmark_that_never_waits_on_its_loop() -> None:
    command = [sys.executable, "-c", BUSY_ON_A_LOOP, "decisions"]
    with subprocess.Popen(
        command, cwd=BENCH.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "busy\n"
        process.send_signal(signal.SIGINT)
        try:
            _, errors = process.communicate(timeout=30)
        finally:
            process.kill()
    assert "KeyboardInterrupt" in errors
