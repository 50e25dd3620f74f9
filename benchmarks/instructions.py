#!/usr/bin/env python3
"""Machine instructions of small figures, counted by callgrind: the same on every run, on a busy machine too.

A process under valgrind prepares each figure of `figures.py` and forks twice: one child does it a few
times, the other many times. The difference of what callgrind counted, over the difference of the times, is
what doing it once costs; the start of Python, imports and preparation fall out.

    python benchmarks/instructions.py [FIGURE ...]

The exit code is 1 if a ratio that has a goal misses it.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from figures import ALL, FEW, FIGURES, MANY, MINUS, RATIOS


def count(names: list[str]) -> dict[str, float]:
    """Instructions for doing each figure once.

    Raises:
        FileNotFoundError: valgrind is not installed.
        subprocess.CalledProcessError: a figure failed.
    """
    valgrind = shutil.which("valgrind")
    if not valgrind:
        raise FileNotFoundError("valgrind is not installed: apt-get install valgrind")
    with tempfile.TemporaryDirectory(prefix="instructions-") as place:
        tool = [valgrind, "-q", "--tool=callgrind", f"--callgrind-out-file={place}/%p"]
        wanted = list(dict.fromkeys([*names, *(MINUS[name] for name in names if name in MINUS)]))
        command = [*tool, sys.executable, str(Path(__file__).with_name("figures.py")), *wanted]
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        ran = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
        costs = {}
        for line in ran.stdout.splitlines():
            name, few, many = line.split()
            costs[name] = (_total(Path(place, many)) - _total(Path(place, few))) / (MANY - FEW)
    return {name: costs[name] - costs.get(MINUS.get(name, ""), 0) for name in names}


def _total(report: Path) -> int:
    """What callgrind counted in a process."""
    found = re.search(r"^totals: (\d+)", report.read_text("utf-8"), re.MULTILINE)
    if not found:
        raise ValueError(f"{report} has no total")
    return int(found[1])


def main() -> int:
    """Print the figures and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=f"all, or some of {', '.join(FIGURES)}")
    names = parser.parse_args().figures or list(FIGURES)
    unknown = set(names) - ALL.keys()
    if unknown:
        parser.error(f"no such figure: {', '.join(sorted(unknown))}")
    costs = count(names)
    for name, cost in costs.items():
        print(f"{name:24}{cost:12,.0f} instructions")
    missed = False
    for figure, base, at_most in RATIOS:
        if {figure, base} <= costs.keys():
            ratio = costs[figure] / costs[base]
            missed |= ratio > at_most
            mark = ": MISSED" if ratio > at_most else ""
            print(f"{figure} / {base}: {ratio:.3f}, at most {at_most:g}{mark}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
