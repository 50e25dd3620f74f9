"""The recorded scenarios."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["load"]


def load(name: str) -> list[dict[str, Any]]:
    """The records of one file: an object a line (`.jsonl`), or a list of them (`.json`)."""
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    if name.endswith(".json"):
        records: list[dict[str, Any]] = json.loads(text)
        return records
    return [json.loads(line) for line in text.splitlines()]
