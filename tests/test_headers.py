"""The RateLimit fields, against hand-made verdicts."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratelimit_middleware.algorithms.base import granted, refused
from ratelimit_middleware.decision import Outcome, Policy, Verdict
from ratelimit_middleware.headers import field_names, rate_limit_fields, retry_after_s

pytestmark = pytest.mark.arithmetic

SECOND = 1_000_000_000
NOW = 1_700_000_000 * SECOND
MINUTE = Policy("per-minute", 5, 60 * SECOND, "5/minute")
HOUR = Policy("per-hour", 20, 3600 * SECOND, "20/hour")
BURST = Policy("burst", 10, 1_200_000_000, "500/minute burst 10")


def admitted(policy: Policy, remaining: int, reset_ns: int) -> Outcome:
    """An outcome that lets the request pass."""
    return Outcome(policy, granted(NOW, NOW, policy.quota, remaining, reset_ns))


def held_back(policy: Policy, retry_ns: int | None, remaining: int = 0, reset_ns: int = SECOND) -> Outcome:
    """An outcome that holds the request back."""
    return Outcome(policy, refused(NOW, retry_ns, policy.quota, remaining, reset_ns))


def verdict(*outcomes: Outcome, retry_ns: int | None = None) -> Verdict:
    """A verdict over `outcomes`."""
    allowed = all(outcome.decision.allowed for outcome in outcomes)
    policies = [outcome.policy for outcome in outcomes]
    return Verdict(allowed, 0, retry_ns, policies, [outcome.decision for outcome in outcomes])


def test_draft_11_names_the_policy_and_where_the_client_stands() -> None:
    assert rate_limit_fields(verdict(admitted(MINUTE, 3, 22 * SECOND)), ["draft-11"]) == [
        ("RateLimit-Policy", '"per-minute";q=5;w=60'),
        ("RateLimit", '"per-minute";r=3;t=22'),
    ]


def test_draft_11_lists_every_checked_policy_but_only_the_binding_one_in_ratelimit() -> None:
    minute, hour = admitted(MINUTE, 4, SECOND), admitted(HOUR, 1, 90 * SECOND)

    assert rate_limit_fields(verdict(minute, hour), ["draft-11"]) == [
        ("RateLimit-Policy", '"per-minute";q=5;w=60, "per-hour";q=20;w=3600'),
        ("RateLimit", '"per-hour";r=1;t=90'),
    ]


def test_legacy_tells_the_reset_in_epoch_seconds() -> None:
    assert rate_limit_fields(verdict(admitted(MINUTE, 3, 21_500_000_000)), ["legacy"]) == [
        ("X-RateLimit-Limit", "5"),
        ("X-RateLimit-Remaining", "3"),
        ("X-RateLimit-Reset", "1700000022"),
    ]


def test_legacy_seconds_tells_the_seconds_left() -> None:
    assert rate_limit_fields(verdict(admitted(MINUTE, 3, 21_500_000_000)), ["legacy-seconds"]) == [
        ("X-RateLimit-Limit", "5"),
        ("X-RateLimit-Remaining", "3"),
        ("X-RateLimit-Reset", "22"),
    ]


def test_draft_7_puts_three_numbers_of_the_binding_limit_into_one_field() -> None:
    minute, hour = admitted(MINUTE, 4, SECOND), admitted(HOUR, 1, 90 * SECOND)

    assert rate_limit_fields(verdict(minute, hour), ["draft-7"]) == [
        ("RateLimit-Policy", "5;w=60, 20;w=3600"),
        ("RateLimit", "limit=20, remaining=1, reset=90"),
    ]


def test_draft_6_has_a_field_for_each_number() -> None:
    minute, hour = admitted(MINUTE, 4, SECOND), admitted(HOUR, 1, 90 * SECOND)

    assert rate_limit_fields(verdict(minute, hour), ["draft-6"]) == [
        ("RateLimit-Policy", "5;w=60, 20;w=3600"),
        ("RateLimit-Limit", "20"),
        ("RateLimit-Remaining", "1"),
        ("RateLimit-Reset", "90"),
    ]


def test_a_field_that_two_generations_write_alike_is_sent_once() -> None:
    fields = rate_limit_fields(verdict(admitted(MINUTE, 3, 22 * SECOND)), ["draft-6", "draft-7"])

    assert fields == [
        ("RateLimit-Policy", "5;w=60"),
        ("RateLimit-Limit", "5"),
        ("RateLimit-Remaining", "3"),
        ("RateLimit-Reset", "22"),
        ("RateLimit", "limit=5, remaining=3, reset=22"),
    ]


@pytest.mark.parametrize("style", ["draft-11", "draft-7", "draft-6", "legacy", "legacy-seconds"])
def test_the_names_of_a_generation_are_those_of_its_fields(style: str) -> None:
    fields = rate_limit_fields(verdict(admitted(MINUTE, 3, SECOND)), [style])

    assert field_names([style]) == [name for name, _ in fields]
    assert field_names([]) == []


def test_several_generations_are_sent_in_the_order_of_the_setting() -> None:
    names = [name for name, _ in rate_limit_fields(verdict(admitted(MINUTE, 3, 1)), ["legacy", "draft-11"])]

    assert names == [
        "X-RateLimit-Limit",
        "X-RateLimit-Remaining",
        "X-RateLimit-Reset",
        "RateLimit-Policy",
        "RateLimit",
    ]


@pytest.mark.parametrize("styles", [["draft-11"], ["draft-7"], ["draft-6", "legacy"], []])
def test_no_field_is_sent_when_nothing_was_checked(styles: list[str]) -> None:
    assert rate_limit_fields(verdict(), styles) == []


def test_no_field_is_sent_when_no_generation_is_set() -> None:
    assert rate_limit_fields(verdict(admitted(MINUTE, 3, 1)), []) == []


@pytest.mark.parametrize(
    ("reset_ns", "seconds"), [(0, 1), (1, 1), (SECOND, 1), (SECOND + 1, 2), (59_000_000_001, 60)]
)
def test_t_is_rounded_up_and_at_least_one(reset_ns: int, seconds: int) -> None:
    fields = dict(rate_limit_fields(verdict(admitted(MINUTE, 0, reset_ns)), ["draft-11"]))

    assert fields["RateLimit"] == f'"per-minute";r=0;t={seconds}'


def test_a_window_is_rounded_up_to_whole_seconds() -> None:
    fields = dict(rate_limit_fields(verdict(admitted(BURST, 9, SECOND)), ["draft-11"]))

    assert fields["RateLimit-Policy"] == '"burst";q=10;w=2'


def test_a_refusing_policy_names_its_own_wait_even_with_permits_left() -> None:
    """A costly request refused with 3 left: `Retry-After` must not end inside the effective window."""
    answer = verdict(
        held_back(MINUTE, 8_200_000_000, remaining=3, reset_ns=40 * SECOND), retry_ns=8_200_000_000
    )

    assert dict(rate_limit_fields(answer, ["draft-11"]))["RateLimit"] == '"per-minute";r=3;t=9'
    assert retry_after_s(answer) == 9
    assert dict(rate_limit_fields(answer, ["legacy"]))["X-RateLimit-Reset"] == "1700000009"
    assert dict(rate_limit_fields(answer, ["legacy-seconds"]))["X-RateLimit-Reset"] == "9"
    assert dict(rate_limit_fields(answer, ["draft-6"]))["RateLimit-Reset"] == "9"
    assert dict(rate_limit_fields(answer, ["draft-7"]))["RateLimit"] == "limit=5, remaining=3, reset=9"


def test_a_policy_that_can_never_admit_shows_its_window_and_no_retry() -> None:
    answer = verdict(held_back(MINUTE, None, remaining=5, reset_ns=7 * SECOND))

    assert dict(rate_limit_fields(answer, ["draft-11"]))["RateLimit"] == '"per-minute";r=5;t=7'
    assert retry_after_s(answer) is None


@pytest.mark.parametrize(
    ("retry_ns", "seconds"), [(0, 1), (1, 1), (999_999_999, 1), (SECOND, 1), (SECOND + 1, 2)]
)
def test_retry_after_is_rounded_up_and_at_least_one(retry_ns: int, seconds: int) -> None:
    assert retry_after_s(verdict(held_back(MINUTE, retry_ns), retry_ns=retry_ns)) == seconds


@pytest.mark.parametrize(
    ("name", "on_the_wire"),
    [
        ('say "hi"', r'"say \"hi\""'),
        ("back\\slash", r'"back\\slash"'),
        ("a\r\nSet-Cookie: b", '"a??Set-Cookie: b"'),
        ("größe\x7f", '"gr??e?"'),
    ],
)
def test_a_hostile_policy_name_stays_one_structured_string(name: str, on_the_wire: str) -> None:
    fields = dict(rate_limit_fields(verdict(admitted(MINUTE._replace(name=name), 1, 1)), ["draft-11"]))

    assert fields["RateLimit"] == f"{on_the_wire};r=1;t=1"
    assert fields["RateLimit-Policy"] == f"{on_the_wire};q=5;w=60"


STRING = r'"(?:[ !#-\[\]-~]|\\["\\])*"'
MEMBER = re.compile(rf'{STRING};q=\d{{1,15}};(?:w=[1-9]\d{{0,14}}|qu="concurrent-requests")')
STANDING = re.compile(rf"{STRING};r=\d{{1,15}};t=[1-9]\d{{0,14}}")
MEMBER_7 = re.compile(r"\d{1,15};w=[1-9]\d{0,14}")
STANDING_7 = re.compile(r"limit=\d{1,15}, remaining=\d{1,15}, reset=[1-9]\d{0,14}")
HUGE = st.integers(min_value=-(10**30), max_value=10**30)


@given(name=st.text(), quota=HUGE, window_ns=HUGE, remaining=HUGE, reset_ns=HUGE)
def test_whatever_the_numbers_the_fields_are_structured_fields(
    name: str, quota: int, window_ns: int, remaining: int, reset_ns: int
) -> None:
    """RFC 9651: printable ASCII, integers of at most 15 digits."""
    outcome = admitted(Policy(name, quota, window_ns, "any"), remaining, reset_ns)
    fields = dict(rate_limit_fields(verdict(outcome), ["draft-11", "legacy"]))

    assert MEMBER.fullmatch(fields["RateLimit-Policy"])
    assert STANDING.fullmatch(fields["RateLimit"])
    assert all(fields[f"X-RateLimit-{part}"].isdecimal() for part in ("Limit", "Remaining", "Reset"))

    older = dict(rate_limit_fields(verdict(outcome), ["draft-7", "draft-6"]))
    if window_ns:
        assert MEMBER_7.fullmatch(older["RateLimit-Policy"])
    else:
        assert "RateLimit-Policy" not in older, "the older drafts have no word for requests in progress"
    assert STANDING_7.fullmatch(older["RateLimit"])
    assert all(older[f"RateLimit-{part}"].isdecimal() for part in ("Limit", "Remaining", "Reset"))
