"""What the pages about algorithms tell: examples by the clock, and the memory a client takes."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ratelimit_middleware
from ratelimit_middleware.decision import Decision

__all__ = ["EXAMPLE", "PAGES", "algorithm_in", "answers", "bytes_a_client", "said"]

DOCS = Path(__file__).parent.parent / "docs"
PAGES = sorted((DOCS / "algorithms").glob("*.md"))
EXAMPLE = re.compile(r"^`(?P<code>[^`]+)`, by the clock:\n\n\|.*\n\|.*\n(?P<rows>(?:\|.*\n)+)", re.MULTILINE)
# A midnight, so that minutes, hours and days begin where the clock says.
MIDNIGHT_S = 1_700_006_400


def algorithm_in(code: str) -> Any:
    """The algorithm that a page writes."""
    return eval(code, dict(vars(ratelimit_middleware)))  # noqa: S307 - our own pages


def answers(example: re.Match[str]) -> Iterator[tuple[str, str]]:
    """Of each row what the page says, and what the algorithm says."""
    algorithm = algorithm_in(example["code"])
    state = algorithm.start(MIDNIGHT_S * 10**9)
    for row in example["rows"].splitlines():
        at, permits, may_wait, answer, *_ = (cell.strip() for cell in row.strip("|").split("|"))
        hours, minutes, seconds = at.split(":")
        now_ns = (MIDNIGHT_S + 3600 * int(hours) + 60 * int(minutes)) * 10**9 + round(float(seconds) * 10**9)
        wait_ns = round(float(may_wait.removesuffix(" s")) * 10**9) if may_wait != "no" else 0
        decision, state = algorithm.take(state, now_ns, int(permits), wait_ns)
        yield answer, said(decision)


def said(decision: Decision) -> str:
    """A decision in the words of the pages."""
    if decision.allowed:
        return f"waits {decision.wait:g} s" if decision.wait_ns else "at once"
    return "never" if decision.retry_after is None else f"refused, again in {decision.retry_after:.9g} s"


def bytes_a_client(algorithm: Any, requests: int) -> int:
    """What a memory store holds for a client after some requests that lie within a window."""
    state = algorithm.start(MIDNIGHT_S * 10**9)
    for request in range(requests):
        now_ns = MIDNIGHT_S * 10**9 + request * algorithm.window_ns * 9 // (10 * requests)
        _, state = algorithm.take(state, now_ns)
    place_in_the_dict = 50
    return place_in_the_dict + _size("get-items|ip=192.0.2.17") + sys.getsizeof((None, state)) + _size(state)


def _size(value: Any) -> int:
    if isinstance(value, tuple):
        return sys.getsizeof(value) + sum(map(_size, value))
    return (
        0 if isinstance(value, int) and -5 <= value <= 256 else sys.getsizeof(value)
    )  # small ones are shared
