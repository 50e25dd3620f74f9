#!/usr/bin/env python3
"""What `instructions.py` counts, and the part of it that runs under callgrind.

A figure is a function that prepares something and gives what is to be counted, which takes the number of
the turn. A new one is listed in FIGURES, and in RATIOS if it has a goal. Under valgrind everything is some
fifty times slower, so imports and preparations are kept small; what several figures need is cached.

    python benchmarks/figures.py FIGURE ...   does each in two forks; prints its name and their process ids
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import small
import steps

from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.decision import Policy
from ratelimit_middleware.request import AsgiView
from ratelimit_middleware.rules.match import Matcher
from ratelimit_middleware.rules.model import KeyPart, Limit, Route, Rule, RuleSet

FEW, MANY = 50, 350
"""Turns of the two forks."""


class Ratio(NamedTuple):
    """What one figure may cost compared with another."""

    figure: str
    base: str
    at_most: float


@cache
def matcher(rules: int) -> Matcher:
    """As many rules, for different paths."""
    limit = Limit(Policy("probe", 5, 10**9, "5/s"), SlidingWindow(5, 1), (KeyPart("ip"),), "probe")
    paths = [f"/api/v1/things{number}/{{id}}/parts" for number in range(rules)]
    # The rule that is asked for has a limit; the others would only take long to prepare.
    limits = [(limit,), *[()] * (rules - 1)]
    made = [Rule(path, (Route(path, None, path),), own) for path, own in zip(paths, limits, strict=True)]
    return Matcher(RuleSet(tuple(made)))


def match(rules: int, *, cached: bool) -> Callable[[int], object]:
    """Match a path that was asked for before, or one that never was."""
    asked = matcher(rules).match

    def do(turn: int) -> object:
        number = 0 if cached else turn
        return asked(AsgiView({"type": "http", "path": f"/api/v1/things0/{number}/parts"}))

    return do


FIGURES: dict[str, Callable[[], Callable[[int], object]]] = {
    **small.FIGURES,
    "match-1": lambda: match(1, cached=False),
    "match-1-cached": lambda: match(1, cached=True),
    "match-10000": lambda: match(10_000, cached=False),
    "match-10000-cached": lambda: match(10_000, cached=True),
}
MINUS = {**small.MINUS, **dict.fromkeys(steps.FIGURES, "turn")}
"""What is taken off a figure, so that it is what something adds."""
ALL = {
    **FIGURES,
    **small.PEERS,
    **steps.FIGURES,
    **{f"match-{n}": lambda n=n: match(n, cached=False) for n in (10, 100, 1000)},
}
"""With those that need the benchmarks' environment."""
RATIOS = [
    Ratio("match-10000", "match-1", 1.5),
    Ratio("match-10000-cached", "match-1-cached", 1.5),
]


def fork(do: Callable[[int], object], turns: int) -> int:
    """Do it so many times in a process of its own; gives the process id."""
    pid = os.fork()
    if not pid:
        for turn in range(1, turns + 1):
            do(turn)
        os._exit(0)
    if os.waitpid(pid, 0)[1]:
        raise RuntimeError("the fork failed; what it said stands above")
    return pid


def main(names: list[str]) -> None:
    """Prepare and fork."""
    for name in names:
        do = ALL[name]()
        do(0)
        gc.freeze()  # else a collection would cost more where more was prepared
        print(name, fork(do, FEW), fork(do, MANY), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
