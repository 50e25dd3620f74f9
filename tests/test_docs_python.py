"""The Python of the pages runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parent.parent / "docs"
PAGES = (
    "relations.md",
    "coverage.md",
    "algorithms.md",
    "events.md",
    "limiter.md",
    "lint.md",
    "redis.md",
    "stores.md",
)


@pytest.mark.parametrize("page", PAGES)
def test_the_python_of_a_page_runs_from_top_to_bottom(page: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text("utf-8"), re.DOTALL)
    assert blocks
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)  # noqa: S102 - our own pages; their asserts are the checks
