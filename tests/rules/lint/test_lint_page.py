"""The page on lint has a section for each code: one example triggers it, the next is mended."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest

from ratelimit_middleware.rules.lint import CODES, LintWarning, lint
from ratelimit_middleware.rules.load import load_rules

pytestmark = pytest.mark.arithmetic

PAGE = (Path(__file__).parents[3] / "docs" / "lint.md").read_text("utf-8")
SECTIONS = dict(re.findall(r"^### (RL[0-9]{3})\n(.*?)(?=^### |\Z)", PAGE, re.MULTILINE | re.DOTALL))
TODAY = date(2026, 6, 1)


def examples(text: str) -> list[str]:
    return re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def linted(folder: Path, text: str, workers: int = 1) -> list[LintWarning]:
    path = folder / "rules.yaml"
    path.write_text(text, "utf-8")
    return list(lint(load_rules(path, env={}), today=TODAY, workers=workers))


def test_every_code_has_a_section_and_a_line_in_the_table() -> None:
    assert tuple(SECTIONS) == CODES
    assert tuple(re.findall(r"^\| \[(RL[0-9]{3})\]\(#rl", PAGE, re.MULTILINE)) == CODES


@pytest.mark.parametrize("code", CODES)
def test_the_examples_of_a_code_trigger_it_and_mend_it(code: str, tmp_path: Path) -> None:
    triggering, mended = examples(SECTIONS[code])
    workers = 4 if code == "RL501" else 1
    assert [warning.code for warning in linted(tmp_path, triggering, workers)] == [code]
    assert linted(tmp_path, mended, workers) == []


def test_the_link_of_a_warning_leads_to_its_section(tmp_path: Path) -> None:
    (warning,) = linted(tmp_path, examples(SECTIONS["RL203"])[0])
    page, _, anchor = warning.link.partition("#")
    assert (page, anchor) == ("docs/lint.md", "rl203")  # the anchor that is made of the heading `RL203`


def test_the_example_that_ignores_warnings_has_none_left(tmp_path: Path) -> None:
    (ignoring,) = examples(PAGE.partition("## Codes")[0])
    assert linted(tmp_path, ignoring) == []
    assert [w.code for w in linted(tmp_path, ignoring.partition("lint:")[0])] == ["RL101", "RL301"]
