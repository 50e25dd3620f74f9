"""What small figures cost in machine instructions, which no busy machine disturbs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "instructions.py"


@pytest.mark.timeout(600)
def test_every_ratio_of_the_figures_keeps_its_goal() -> None:
    if not shutil.which("valgrind") and not os.environ.get("CI"):
        pytest.skip("valgrind is not installed, so instructions are not counted: apt-get install valgrind")
    ran = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "match-10000 / match-1: " in ran.stdout
