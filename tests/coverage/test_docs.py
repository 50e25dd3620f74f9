"""What the page on coverage shows is what the command prints."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from ratelimit_middleware.cli import main

if TYPE_CHECKING:
    import pytest

PAGE = (Path(__file__).parent.parent.parent / "docs" / "coverage.md").read_text("utf-8")


def block(language: str) -> str:
    """The first block of a language."""
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found
    return found[1]


def test_the_page_shows_what_the_command_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "page_shop.py").write_text(block("python"))
    (tmp_path / "ratelimit.yaml").write_text(block("yaml"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    command, output = block("console").split("\n", 1)

    assert command == "$ ratelimits routes shop:app ratelimit.yaml"
    assert main(["routes", "page_shop:app", "ratelimit.yaml"]) == 0
    assert capsys.readouterr().out == output
