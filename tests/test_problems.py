"""The bodies of refusals, written once."""

from __future__ import annotations

import json

import pytest

from ratelimit_middleware import problems

pytestmark = pytest.mark.arithmetic


def test_what_is_put_in_is_the_wait_alone() -> None:
    problem = problems.exceeded("5%/day of %s", ("100%", "%d"), 429)

    assert problem.lacks_wait
    said = json.loads(problem.as_json % 9)
    assert said["detail"] == "The limit of 5%/day of %s is reached; try again in 9 s."
    assert said["violated-policies"] == ["100%", "%d"]
    assert problem.as_text % 9 == b"Quota exceeded. The limit of 5%/day of %s is reached; try again in 9 s.\n"


@pytest.mark.parametrize("detail", ["", "Only 5%d of all may."])
def test_where_no_wait_is_told_nothing_is_put_in(detail: str) -> None:
    problem = problems.exceeded_for_good("5%/day", (), 429, detail)

    assert not problem.lacks_wait
    assert json.loads(problem.as_json)["detail"] == (
        detail or "The limit of 5%/day can never admit this request; waiting does not help."
    )


def test_without_a_limit_that_binds_it_is_a_limit() -> None:
    assert b"A limit is reached;" in problems.exceeded("", (), 429).as_text


def test_a_body_is_written_once() -> None:
    assert problems.exceeded("5/day", ("a",), 429) is problems.exceeded("5/day", ("a",), 429)


def test_answers_about_long_fields_are_right_and_not_remembered() -> None:
    field = "text/plain, " * 1000
    before = problems._remembered.cache_info().currsize

    assert problems.prefers_text(field)
    assert not problems.prefers_text(f"application/json, {field}")
    assert problems._remembered.cache_info().currsize == before
