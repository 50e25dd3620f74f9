"""What the page on the rule file shows is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ratelimit_middleware.errors import RuleFileError
from ratelimit_middleware.rules.load import load_rules
from ratelimit_middleware.rules.words import FILE_KEYS_NOT_YET

pytestmark = pytest.mark.arithmetic

PAGE = (Path(__file__).parent.parent.parent / "docs" / "rules.md").read_text("utf-8")
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def load_text(folder: Path, text: str) -> None:
    path = folder / "rules.yaml"
    path.write_text(text, "utf-8")
    rules = load_rules(path, env={})
    assert rules.limits or rules.always or rules.default


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) >= 5


@pytest.mark.parametrize("text", EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_of_the_page_loads(tmp_path: Path, text: str) -> None:
    load_text(tmp_path, text)


@pytest.mark.parametrize("text", re.findall(r"^\| `([0-9][^`]*/[^`]*)`", PAGE, re.MULTILINE))
def test_a_limit_in_a_table_of_the_page_loads(tmp_path: Path, text: str) -> None:
    if text == "010/minute":
        with pytest.raises(RuleFileError, match="octal"):
            load_text(tmp_path, f"default: {text}\n")
    else:
        load_text(tmp_path, f"default: {text}\n")


def test_every_key_that_waits_for_its_code_is_named_on_the_page() -> None:
    waiting = PAGE.partition("## Not supported yet")[2]
    assert {key for key in FILE_KEYS_NOT_YET if f"`{key}`" not in waiting} == set()
