"""Every mistake a file can hold, one YAML file each, with the exact message beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ratelimit_middleware.errors import RuleFileError
from ratelimit_middleware.rules.load import load_rules

pytestmark = pytest.mark.arithmetic

FOLDER = Path(__file__).parent.parent / "bad_rules"
ENV = {
    "REDIS_URL": "redis://shop:secret@cache/0",
    "WRONG_URL": "reddis://shop:secret@cache/0",
    "FLOW": "{limit: 5/minute}",
}
FILES = sorted(FOLDER.glob("*.yaml"))


def test_the_folder_holds_the_mistakes_of_the_format() -> None:
    assert len(FILES) >= 40


def test_every_message_has_its_file() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == {path.stem for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_mistake_is_refused_with_its_exact_message(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    with pytest.raises(RuleFileError) as refusal:
        load_rules(path.name, env=ENV)
    assert str(refusal.value) + "\n" == path.with_suffix(".txt").read_text("utf-8")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_message_shows_no_secret_of_the_environment(path: Path) -> None:
    with pytest.raises(RuleFileError) as refusal:
        load_rules(path, env=ENV)
    assert "secret@" not in str(refusal.value)
