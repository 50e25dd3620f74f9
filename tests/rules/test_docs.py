"""What the pages on the rule file show is true."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import pytest

from ratelimit_middleware.errors import RuleFileError
from ratelimit_middleware.rules.algorithms import ALGORITHMS, NOT_YET
from ratelimit_middleware.rules.client_spec import ClientSpec
from ratelimit_middleware.rules.limit_spec import LongLimitSpec
from ratelimit_middleware.rules.load import load_rules
from ratelimit_middleware.rules.schema import FileSpec, RuleSpec
from ratelimit_middleware.rules.words import FILE_KEYS_NOT_YET, LIMIT_KEYS_NOT_YET, RULE_KEYS_NOT_YET

pytestmark = pytest.mark.arithmetic

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGE = (DOCS / "rules.md").read_text("utf-8")
LIMITS_PAGE = (DOCS / "rule-file-limits.md").read_text("utf-8")
BEHAVIORS = "".join(
    (DOCS / f"{page}.md").read_text("utf-8")
    for page in (
        "queue",
        "leases",
        "concurrency",
        "charge",
        "exempt-and-deny",
        "tiers",
        "penalty",
        "shadow",
        "relations",
        "overload",
        "websockets",
    )
)
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```$", PAGE + LIMITS_PAGE + BEHAVIORS, re.MULTILINE | re.DOTALL)
(IN_PYTHON,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
(PLANS,) = re.findall(
    r"^```python\n(.*?)^```$", (DOCS / "tiers.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
)
(FUNCTIONS,) = re.findall(r"^```python\n(.*?)^```$", LIMITS_PAGE, re.MULTILINE | re.DOTALL)
(CHARGES,) = re.findall(
    r"^```python\n(.*?)^```$", (DOCS / "charge.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
)


def load_text(folder: Path, text: str) -> None:
    path = folder / "rules.yaml"
    path.write_text(text, "utf-8")
    rules = load_rules(path, env={})
    assert rules.limits or rules.always or rules.default


def words_of_tables(page: str) -> set[str]:
    """What stands in backticks in the first column of a table."""
    cells = re.findall(r"^\| ([^|]*) \|", page, re.MULTILINE)
    return {word for cell in cells for word in re.findall(r"`(\w+)`", cell)}


@pytest.fixture
def app_of_the_page(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """The functions of the page, where its rules look for them."""
    shop = types.ModuleType("shop")
    monkeypatch.setitem(sys.modules, "shop", shop)
    for name, code in (("limits", FUNCTIONS), ("charges", CHARGES), ("plans", PLANS)):
        module = types.ModuleType(f"shop.{name}")
        exec(code, module.__dict__)  # noqa: S102 - our own page
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return shop


def test_the_pages_have_examples() -> None:
    assert len(EXAMPLES) >= 12


@pytest.mark.usefixtures("app_of_the_page")
@pytest.mark.parametrize("text", EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_of_the_pages_loads(tmp_path: Path, text: str) -> None:
    load_text(tmp_path, text)


def test_the_python_of_the_page_runs() -> None:
    exec(IN_PYTHON, {})  # noqa: S102 - our own page


@pytest.mark.parametrize("text", re.findall(r"^\| `([0-9][^`]*/[^`]*)`", PAGE, re.MULTILINE))
def test_a_limit_in_a_table_of_the_page_loads(tmp_path: Path, text: str) -> None:
    if text == "010/minute":
        with pytest.raises(RuleFileError, match="octal"):
            load_text(tmp_path, f"default: {text}\n")
    else:
        load_text(tmp_path, f"default: {text}\n")


FRAMES = {
    "limit": "default: {}",
    "key": "default: {{limit: 5/minute, key: {}}}",
    "mode": "default: {{limit: 5/minute, mode: {}}}",
    "route": "limits:\n  {}: 5/minute",
    "line": "limits:\n  {}\n",
}


@pytest.mark.parametrize(
    ("frame", "text", "message"), re.findall(r"^\| (\w+) \| `([^|]*)` \| ([^|]*) \|$", PAGE, re.MULTILINE)
)
def test_a_slip_of_the_page_is_answered_as_it_says(
    tmp_path: Path, frame: str, text: str, message: str
) -> None:
    with pytest.raises(RuleFileError) as refusal:
        load_text(tmp_path, FRAMES[frame].format(text))
    assert message in str(refusal.value)


def test_the_page_has_slips() -> None:
    assert len(re.findall(r"^\| (?:limit|route|line) \| `", PAGE, re.MULTILINE)) >= 10


def test_the_mistakes_of_the_page_are_told_as_it_shows_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "limits:\n  /a:\n    limit: 5/minut\n    behaviour: reject\n"
    Path("rules.yaml").write_text(text)
    with pytest.raises(RuleFileError) as refusal:
        load_rules("rules.yaml", env={})
    for problem in refusal.value.problems:
        assert problem.message in PAGE


def test_every_key_has_its_line_in_a_table() -> None:
    assert FileSpec.model_fields.keys() | RuleSpec.model_fields.keys() <= words_of_tables(PAGE)
    assert ClientSpec.model_fields.keys() <= words_of_tables(PAGE.partition("## Who the client is")[2])
    assert LongLimitSpec.model_fields.keys() <= words_of_tables(LIMITS_PAGE)


def test_every_algorithm_has_its_line_in_the_table() -> None:
    assert ALGORITHMS.keys() <= words_of_tables(LIMITS_PAGE)


def test_every_word_that_waits_for_its_code_is_named_on_the_page() -> None:
    waiting = PAGE.partition("## Not supported yet")[2]
    words = FILE_KEYS_NOT_YET | RULE_KEYS_NOT_YET | LIMIT_KEYS_NOT_YET | NOT_YET
    assert {word for word in words if f"`{word}`" not in waiting} == set()
