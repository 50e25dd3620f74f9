"""Times of several things side by side, so that what disturbs the machine disturbs all of them."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import TypeAlias

Do: TypeAlias = Callable[[int], object]
"""Does it for the n-th time."""

ROUNDS = 11
ROUND_S = 0.02
_NOTHING = "nothing"


def interleaved(
    subjects: Mapping[str, Do], rounds: int = ROUNDS, round_s: float = ROUND_S
) -> dict[str, float]:
    """Median time of each, ns a turn, without the turn itself.

    In each round every subject has its turns, one after the other.
    """
    runs = {name: _Run(do, round_s) for name, do in {**subjects, _NOTHING: _nothing}.items()}
    samples: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            samples[name].append(run.round_ns())
    medians = {name: median(times) for name, times in samples.items()}
    nothing = medians.pop(_NOTHING)
    return {name: max(ns - nothing, 0.0) for name, ns in medians.items()}


class _Run:
    """One subject, whose turns are counted through all rounds."""

    def __init__(self, do: Do, round_s: float) -> None:
        self._do = do
        self._turn = 0
        self._turns = 1
        while self._turns < 2**24:
            took_s = self.round_ns() * self._turns / 1e9
            if took_s > round_s / 4:
                break
            self._turns *= 2
        self._turns = max(1, int(self._turns * round_s / took_s))

    def round_ns(self) -> float:
        """Time of a turn in one round, ns; the garbage of others is none of its business."""
        do, first = self._do, self._turn
        self._turn += self._turns
        gc.collect(0)
        start_ns = time.perf_counter_ns()
        for turn in range(first, first + self._turns):
            do(turn)
        return (time.perf_counter_ns() - start_ns) / self._turns


def _nothing(turn: int) -> None:
    pass
