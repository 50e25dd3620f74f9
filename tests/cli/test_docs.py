"""What the page on the command shows is what the command prints."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from ratelimit_middleware.cli import main
from ratelimit_middleware.registry import LimiterRegistry
from ratelimit_middleware.request import WsgiView
from ratelimit_middleware.rules.load import load_rules
from ratelimit_middleware.stores.open import open_store

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


def three_logins(file: Path) -> None:
    """What the store of the page's file holds."""
    ruleset = load_rules(str(file))
    store = open_store(ruleset.store)
    view = WsgiView({"PATH_INFO": "/login", "REQUEST_METHOD": "POST", "REMOTE_ADDR": "192.0.2.7"})
    for _ in range(3):
        LimiterRegistry(ruleset, store).admit(view)
    store.close()


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) == 7


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
    (tmp_path / "limits.yaml").write_text(f"store: 'shared://{tmp_path}/limits'\n{RULES}")
    three_logins(tmp_path / "limits.yaml")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])

    assert main(shlex.split(line)) == 0
    assert capsys.readouterr().out == output
