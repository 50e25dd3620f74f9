"""What the page on the command shows is what the command prints."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from ratelimit_middleware.cli import main

pytestmark = pytest.mark.arithmetic

PAGE = (Path(__file__).parent.parent.parent / "docs" / "cli.md").read_text("utf-8")
EXAMPLES = re.findall(r"^```console\n\$ ratelimits (.*?)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
RULES = """
limits:
  POST /login: [5/minute, 20/hour]
  GET /items/{id}: 10/second burst 20
  /health: unlimited
default: 300/minute
"""
(REPORTS,) = re.findall(r"^```yaml\n(tiers:.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
SECOND = "limits:\n  /api/**: 30/minute\n  /api/items: 40/minute\n"


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) == 5


@pytest.mark.parametrize(("line", "output"), EXAMPLES)
def test_an_example_of_the_page_prints_this(
    line: str,
    output: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "ratelimit.yaml").write_text(RULES)
    (tmp_path / "second.yaml").write_text(SECOND)
    (tmp_path / "reports.yaml").write_text(REPORTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])

    assert main(shlex.split(line)) == 0
    assert capsys.readouterr().out == output
