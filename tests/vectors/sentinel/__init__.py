"""The recorded scenarios of Sentinel's controllers, as values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Scenario", "load", "outcome_sha256"]

_FILE = Path(__file__).with_name("sentinel_public.jsonl")


@dataclass(frozen=True)
class Scenario:
    """One recorded scenario.

    Attributes:
        id: its name.
        data: the whole record.
    """

    id: str
    data: dict[str, Any]

    @property
    def ops(self) -> list[dict[str, Any]]:
        """The explicit calls; empty for a pattern."""
        ops: list[dict[str, Any]] = self.data.get("ops", [])
        return ops

    @property
    def stubbed(self) -> bool:
        """Whether each call brings its own statistics."""
        return bool(self.data["driven_by"] == "stub")

    @property
    def arrivals(self) -> list[tuple[int, int]]:
        """Moment (ms) and permits of each call."""
        if self.ops:
            return [(op["at_ms"], op["acquire"]) for op in self.ops]
        pattern, start_ms = self.data["pattern"], self.data["start_ms"]
        arrivals: list[tuple[int, int]] = []
        for segment in pattern.get("segments", [pattern]):
            rate, duration_s = segment["rate_per_s"], segment["duration_s"]
            arrivals += [(start_ms + i * 1000 // rate, 1) for i in range(rate * duration_s)]
            start_ms += 1000 * duration_s
        return arrivals


def load(controller: str) -> list[Scenario]:
    """The scenarios of one controller, in the order of the file."""
    with _FILE.open(encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    return [Scenario(record["id"], record) for record in records if record["controller"] == controller]


def outcome_sha256(outcomes: Iterable[tuple[bool, float]]) -> str:
    """The digest that patterns carry: of passed or not, and the wait, call by call."""
    text = "".join(f"{passed:d} {wait}\n" for passed, wait in outcomes)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
