#!/usr/bin/env python3
"""All benchmarks, side by side with the peers, in one run; or some of them by name.

python benchmarks/bench.py [NAME ...]        print tables
python benchmarks/bench.py --write           all of them; docs/benchmarks.md and pictures too
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import cast

from report import Section, goals_table, markdown, page, table

ROOT = Path(__file__).resolve().parents[1]
PEERS = (
    "slowapi", "fastapi-limiter", "flask-limiter", "limits", "throttled-py", "pyrate-limiter", "token-bucket",
    "aiolimiter", "fastapi", "starlette", "flask", "uvicorn", "gunicorn",
)  # fmt: skip

BENCHMARKS = {
    "decisions": "decisions:decisions",
    "instructions": "middleware:instructions",
    "refusals": "decisions:refusals",
    "asgi": "middleware:asgi",
    "wsgi": "middleware:wsgi",
    "steps": "middleware:steps",
    "refused": "middleware:refused",
    "uvicorn": "servers:uvicorn",
    "gunicorn": "servers:gunicorn",
    "redis": "redis_server:redis",
    "redis-checks": "redis_checks:checks",
    "shared": "growth:shared",
    "rules": "growth:rules",
    "clients": "growth:clients",
    "imports": "growth:imports",
}
"""In the order of the page."""
APART = {"soak": "endurance:soak", "attack": "endurance:attack"}
"""Asked for by name only; they take the minutes given."""


def run(name: str, minutes: float) -> Section:
    """Run one benchmark; its module is imported only now, since each needs other packages."""
    module, _, function = {**BENCHMARKS, **APART}[name].partition(":")
    benchmark = cast("Callable[..., Section]", getattr(importlib.import_module(module), function))
    started = time.monotonic()
    section = benchmark(minutes) if name in APART else benchmark()
    return replace(section, seconds=time.monotonic() - started)


def about(sections: Sequence[Section]) -> str:
    """Where and with what it was run, and how long each section took."""
    minutes = sum(section.seconds for section in sections) / 60
    each = ", ".join(f"{section.name} {section.seconds:.0f} s" for section in sections)
    commit = _said("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD") or "unknown"
    changed = _said("git", "-C", str(ROOT), "status", "--porcelain", "--untracked-files=no")
    peers = ", ".join(f"{name} {version(name)}" for name in PEERS)
    return (
        "Written by `./scripts/bench --write`: everything below ran in one go, the peers beside us.\n"
        "Times are medians of interleaved rounds, and ratios (in parentheses) are to the row `floor`: a"
        " limiter written out by hand for one limit, the least that one can do"
        " ([benchmarks/floor.py](../benchmarks/floor.py)). `./scripts/bench soak` (10 minutes) and"
        " `attack` are run apart.\n\n"
        f"- run on {datetime.now(timezone.utc):%Y-%m-%d}, {minutes:.0f} minutes, commit {commit}"
        f"{' with changes' if changed else ''}\n"
        f"- {os.cpu_count()} processors ({_processor()}), {platform.system()}, load {os.getloadavg()[0]:.1f}"
        f" at the end, {platform.python_implementation()} {platform.python_version()}\n"
        f"- {peers}\n"
        f"- {each}\n"
    )


def _said(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]}, {platform.machine()}" if names else platform.machine()


def main() -> None:
    """Run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    known = [*BENCHMARKS, *APART]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(known)}")
    parser.add_argument(
        "--write", action="store_true", help="docs/benchmarks.md and its pictures, of all but soak and attack"
    )
    parser.add_argument(
        "--minutes", type=float, default=10.0, help="of a soak (the others take as long as they take)"
    )
    options = parser.parse_args()
    for name in options.names:
        if name not in known:
            parser.error(f"no such benchmark: {name}; there are {', '.join(known)}")
    if options.names and options.write:
        parser.error("--write takes no names")
    sections = []
    for name in options.names or BENCHMARKS:
        section = run(name, options.minutes)
        sections.append(section)
        print(
            f"\n{section.title} ({section.seconds:.0f} s)\n{markdown(table(section))}{section.note}",
            flush=True,
        )
    if any(section.goals for section in sections):
        print(f"\n{markdown(goals_table(sections))}")
    if options.write:
        write(sections)


def write(sections: list[Section]) -> None:
    """The page and its pictures."""
    from bars import draw

    docs = ROOT / "docs"
    for section in sections:
        if section.drawn:
            draw(section, docs / "images")
    text = page(sections, about(sections))
    (docs / "benchmarks.md").write_text(text, "utf-8")
    print(f"wrote {docs / 'benchmarks.md'}")


if __name__ == "__main__":
    main()
