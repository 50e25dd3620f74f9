#!/usr/bin/env python3
"""Machine instructions of small figures, counted by callgrind: the same on every run, on a busy machine too.

A process under valgrind prepares each figure of `figures.py` and forks twice: one child does it a few
times, the other many times. The difference of what callgrind counted, over the difference of the times, is
what doing it once costs; the start of Python, imports and preparation fall out.

    python benchmarks/instructions.py [FIGURE ...]
    python benchmarks/instructions.py --record     keep what the small figures cost now as the baseline

The exit code is 1 if a ratio that has a goal misses it, or if a small figure costs a tenth more than the
baseline of this version of Python says. The baseline is kept in floors, not in instructions, since those
differ from one build of Python to the next.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from figures import ALL, FEW, FIGURES, MANY, MINUS, RATIOS, Ratio
from small import FLOORS

BASELINE = Path(__file__).with_name("baseline.json")
SLACK = 1.1
_VERSION = "{}.{}".format(*sys.version_info)


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


def guards() -> list[Ratio]:
    """What the small figures may cost at most, if that is recorded for this version of Python."""
    floors: dict[str, float] = json.loads(BASELINE.read_text("utf-8")).get(_VERSION, {})
    return [Ratio(figure, FLOORS[figure], ratio * SLACK) for figure, ratio in floors.items()]


def record() -> None:
    """Keep what they cost now."""
    costs = count([*FLOORS, *dict.fromkeys(FLOORS.values())])
    baseline = json.loads(BASELINE.read_text("utf-8"))
    baseline[_VERSION] = {figure: round(costs[figure] / costs[floor], 3) for figure, floor in FLOORS.items()}
    BASELINE.write_text(json.dumps(baseline, indent=2, sort_keys=True) + "\n", "utf-8")


def main() -> int:
    """Print the figures and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=f"all, or some of {', '.join(FIGURES)}")
    parser.add_argument("--record", action="store_true", help=f"write {BASELINE.name}")
    options = parser.parse_args()
    names = options.figures or list(FIGURES)
    unknown = set(names) - ALL.keys()
    if unknown:
        parser.error(f"no such figure: {', '.join(sorted(unknown))}")
    if options.record:
        record()
    costs = count(names)
    for name, cost in costs.items():
        print(f"{name:24}{cost:12,.0f} instructions")
    return sum(missed(*ratio, costs) for ratio in (*RATIOS, *guards())) > 0


def missed(figure: str, base: str, at_most: float, costs: dict[str, float]) -> bool:
    """Whether a ratio is missed; says so."""
    if not {figure, base} <= costs.keys():
        return False
    ratio = costs[figure] / costs[base]
    print(f"{figure} / {base}: {ratio:.3f}, at most {at_most:.4g}{': MISSED' if ratio > at_most else ''}")
    return ratio > at_most


if __name__ == "__main__":
    sys.exit(main())
