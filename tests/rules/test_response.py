"""The `response` of a file and of a rule."""

from __future__ import annotations

from typing import Any

import pytest

from ratelimit_middleware.decision import Verdict
from ratelimit_middleware.errors import RuleFileError
from ratelimit_middleware.headers import Field
from ratelimit_middleware.request import RequestView
from ratelimit_middleware.rules.load import load_rules
from ratelimit_middleware.rules.model import Answer, RuleSet

pytestmark = pytest.mark.arithmetic


def refuse(view: RequestView, verdict: Verdict) -> tuple[int, list[Field], bytes]:
    """A responder."""
    return 429, [], b""


def response(**keys: Any) -> RuleSet:
    return load_rules({"response": keys})


def answer_of(rule: dict[str, Any], **common: Any) -> Answer | None:
    return load_rules({"response": common, "limits": {"/a": {"limit": "5/s", **rule}}}).limits[0].answer


def test_without_a_response_the_defaults_hold() -> None:
    rules = load_rules({"default": "5/s"})

    assert (rules.headers, rules.headers_on, rules.expose_cors) == (("draft-11",), "all", False)
    assert rules.answer == Answer(status=429, detail="", problem=True, responder=None)
    assert rules.default
    assert rules.default.answer is None


def test_every_setting_of_the_file_is_kept() -> None:
    rules = response(
        headers=["draft-7", "draft-6", "legacy-seconds"],
        headers_on="refused",
        expose_cors=True,
        problem=False,
        status=503,
        detail="Slow down.",
        responder=f"python:{__name__}:refuse",
    )

    assert rules == RuleSet(
        headers=("draft-7", "draft-6", "legacy-seconds"),
        headers_on="refused",
        expose_cors=True,
        answer=Answer(503, "Slow down.", problem=False, responder=refuse),
    )


@pytest.mark.parametrize(
    "styles",
    [
        ["draft-11", "legacy"],
        ["draft-11", "legacy-seconds"],
        ["draft-6", "draft-7"],
        ["draft-7", "legacy", "draft-6"],
    ],
)
def test_generations_that_share_no_field_or_write_it_alike_go_together(styles: list[str]) -> None:
    assert response(headers=styles).headers == tuple(styles)


@pytest.mark.parametrize(
    "styles", [["draft-11", "draft-6"], ["draft-7", "legacy", "draft-11"], ["legacy-seconds", "legacy"]]
)
def test_generations_that_write_a_field_in_two_ways_are_refused(styles: list[str]) -> None:
    with pytest.raises(RuleFileError, match="in different ways: choose one"):
        response(headers=styles)


def test_a_rule_changes_what_it_says_and_keeps_the_rest_of_the_file() -> None:
    assert answer_of({"response": {"detail": "b"}}, detail="a", status=503) == Answer(503, "b")
    assert answer_of({"status": 403}, detail="a", problem=False) == Answer(403, "a", problem=False)
    assert answer_of({"status": 403, "response": {"detail": "b"}}, status=503) == Answer(403, "b")
    assert answer_of({"response": {"problem": True}}, problem=False) == Answer(problem=True)
    assert answer_of({}, status=503) is None


@pytest.mark.parametrize("status", [400, 429, 503, 599])
def test_every_error_status_may_be_a_refusals(status: int) -> None:
    assert response(status=status).answer.status == status


@pytest.mark.parametrize("status", [399, 600, 200, True, 429.0, "429", -429])
def test_other_statuses_are_refused(status: object) -> None:
    with pytest.raises(RuleFileError, match="status"):
        response(status=status)


@pytest.mark.parametrize("detail", ["Slow down.", "Größe: 5\nund mehr", "x" * 500])
def test_a_detail_is_any_text_of_some_length(detail: str) -> None:
    assert response(detail=detail).answer.detail == detail


@pytest.mark.parametrize("detail", ["", " ", "x" * 501, "\x1b[2J", "a\r", "\ud800", 5, ["a"]])
def test_a_detail_that_cannot_be_shown_is_refused(detail: object) -> None:
    with pytest.raises(RuleFileError, match="detail"):
        response(detail=detail)
