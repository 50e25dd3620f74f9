#!/usr/bin/env python3
"""All benchmarks, side by side with the peers, in one run; or some of them by name.

python benchmarks/bench.py [NAME ...]        print tables
python benchmarks/bench.py --write           all of them; docs/benchmarks.md and pictures too
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import math
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple, cast

from report import Section, goals_table, markdown, page, remarks, table

ROOT = Path(__file__).resolve().parents[1]
PEERS = (
    "slowapi", "fastapi-limiter", "flask-limiter", "limits", "throttled-py", "pyrate-limiter", "token-bucket",
    "aiolimiter", "fastapi", "starlette", "flask", "uvicorn", "gunicorn",
)  # fmt: skip


class Benchmark(NamedTuple):
    """One that may be named.

    Attributes:
        function: `module:function`, which gives the section.
        what: in a line.
    """

    function: str
    what: str


BENCHMARKS = {
    "decisions": Benchmark("decisions:decisions", "a decision in memory, every algorithm and the peers"),
    "instructions": Benchmark("middleware:instructions", "the same in machine instructions"),
    "refusals": Benchmark("decisions:refusals", "a decision in memory that says no"),
    "asgi": Benchmark("middleware:asgi", "what is added to an ASGI request"),
    "wsgi": Benchmark("middleware:wsgi", "what is added to a WSGI request"),
    "steps": Benchmark("middleware:steps", "an ASGI request step by step, in machine instructions"),
    "refused": Benchmark("middleware:refused", "an ASGI request that is refused"),
    "uvicorn": Benchmark("servers:uvicorn", "a whole server, ASGI"),
    "gunicorn": Benchmark("servers:gunicorn", "a whole server, WSGI"),
    "redis": Benchmark("redis_server:redis", "a whole server with its limits in Redis"),
    "redis-checks": Benchmark("redis_checks:checks", "what a check costs a Redis server"),
    "shared": Benchmark("growth:shared", "stores of one host, 1 to 4 processes"),
    "rules": Benchmark("growth:rules", "matching a path, 1 to 10,000 rules"),
    "clients": Benchmark("growth:clients", "1,000 to 1,000,000 clients, time and memory"),
    "imports": Benchmark("growth:imports", "a cold import"),
}
"""In the order of the page."""
APART = {
    "soak": Benchmark("endurance:soak", "minutes at full speed: memory and latency stay level"),
    "attack": Benchmark("endurance:attack", "a million invented clients, paths and headers: limits hold"),
}
"""Asked for by name only; they take minutes."""


class Start(NamedTuple):
    """What was there before anything ran.

    Attributes:
        commit: of the code, and whether that was changed.
        load: of the machine.
    """

    commit: str
    load: float


def start() -> Start:
    """As it is now."""
    commit = _said("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD") or "unknown"
    changed = _said("git", "-C", str(ROOT), "status", "--porcelain", "--untracked-files=no")
    return Start(f"{commit} with changes" if changed else commit, os.getloadavg()[0])


def run(name: str, minutes: float) -> Section:
    """Run one benchmark; its module is imported only now, since each needs other packages."""
    module, _, function = {**BENCHMARKS, **APART}[name].function.partition(":")
    benchmark = cast("Callable[..., Section]", getattr(importlib.import_module(module), function))
    started = time.monotonic()
    section = benchmark(minutes) if name in APART else benchmark()
    return replace(section, seconds=time.monotonic() - started)


def about(sections: Sequence[Section], started: Start) -> str:
    """Where and with what it was run, and how long each section took."""
    minutes = sum(section.seconds for section in sections) / 60
    each = ", ".join(f"{section.name} {section.seconds:.0f} s" for section in sections)
    peers = ", ".join(f"{name} {version(name)}" for name in PEERS)
    return (
        "Written by `./scripts/bench --write`: everything below ran in one go, the peers beside us.\n"
        "Times are medians of interleaved rounds, and ratios (in parentheses) are to the row that has 1x,"
        " mostly `floor`: a limiter written out by hand for one limit, the least that one can do"
        " ([benchmarks/floor.py](../benchmarks/floor.py)). `./scripts/bench soak` (10 minutes) and"
        " `attack` are run apart.\n\n"
        f"- run on {datetime.now(timezone.utc):%Y-%m-%d}, {minutes:.0f} minutes, commit {started.commit}\n"
        f"- {os.cpu_count()} processors ({_processor()}), {platform.system()},"
        f" load {started.load:.1f} before it and {os.getloadavg()[0]:.1f} at the end,"
        f" {platform.python_implementation()} {platform.python_version()}\n"
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


def main() -> int:
    """Run, print, write; 1 if something that was asked for could not be run."""
    options = _options()
    # By a handler of its own: an asyncio loop would only ask its task to end, which waits for nothing.
    signal.signal(signal.SIGINT, _interrupted)
    started, sections = start(), []
    for name in options.names or BENCHMARKS:
        print(f"{name} ...", file=sys.stderr, flush=True)
        section = run(name, options.minutes)
        sections.append(section)
        heading = f"{section.title} ({section.seconds:.0f} s)"
        print(f"\n{heading}\n{markdown(table(section))}{remarks(section)}", flush=True)
    if any(section.goals or section.lacks for section in sections):
        print(f"\n{markdown(goals_table(sections))}")
    if options.write:
        write(sections, started)
    return any(section.lacks for section in sections)


def _options() -> argparse.Namespace:
    known = {**BENCHMARKS, **APART}
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        epilog="\n".join(["names:", *(f"  {name:14}{one.what}" for name, one in known.items())]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="some of those below; else all but the last two"
    )
    parser.add_argument("--write", action="store_true", help="all, and docs/benchmarks.md with its pictures")
    parser.add_argument("--minutes", type=float, default=10.0, help="of a soak (10)")
    options = parser.parse_args()
    for name in options.names:
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            meant = f"did you mean {close[0]}? " if close else ""
            parser.error(f"no such benchmark: {name}; {meant}there are {', '.join(known)}")
    if options.names and options.write:
        parser.error("--write takes no names")
    if not 0 < options.minutes < math.inf:
        parser.error(f"--minutes {options.minutes:g}: expected a number above 0")
    options.names = list(dict.fromkeys(options.names))
    return options


def write(sections: list[Section], started: Start) -> None:
    """The page and its pictures."""
    from bars import draw

    docs = ROOT / "docs"
    for section in sections:
        if section.drawn:
            draw(section, docs / "images")
    text = page(sections, about(sections, started))
    (docs / "benchmarks.md").write_text(text, "utf-8")
    print(f"wrote {docs / 'benchmarks.md'}")


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
