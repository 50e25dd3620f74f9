"""The RateLimit fields and `Retry-After`: a verdict in the words of HTTP, one function per generation.

`draft-11`, `draft-7` and `draft-6` are versions of draft-ietf-httpapi-ratelimit-headers (the syntax of -11
stands since -08); `legacy` is the `X-RateLimit-*` family with its reset as epoch seconds, `legacy-seconds`
the same with the seconds left. The field values of the drafts are RFC 9651 structured fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import TypeAlias, TypeVar

from ratelimit_middleware.addresses import Remembered
from ratelimit_middleware.clock import NS_PER_SECOND
from ratelimit_middleware.decision import Decision, Outcome, Policy, Verdict
from ratelimit_middleware.field_numbers import ALMOST_NS, USUAL, integer, left, reset_at_s, seconds_up

__all__ = [
    "SHADOW_FIELD",
    "Field",
    "FieldsWriter",
    "OctetsWriter",
    "draft_6",
    "draft_7",
    "draft_11",
    "draft_11_octets",
    "field_names",
    "fields_writer",
    "legacy",
    "legacy_seconds",
    "octets",
    "octets_once",
    "octets_writer",
    "rate_limit_fields",
    "retry_after_s",
    "shadow_field",
]

Field: TypeAlias = tuple[str, str]
FieldsWriter: TypeAlias = Callable[[Sequence[Policy], Policy, Decision], list[Field]]
"""From the enforcing policies, the binding one of them and its decision to fields."""
OctetsWriter: TypeAlias = Callable[[Sequence[Policy], Policy, Decision], "list[tuple[bytes, bytes]]"]
"""The same for ASGI: bytes, names in lower case."""

_T = TypeVar("_T", str, bytes)

SHADOW_FIELD = "X-RateLimit-Shadow"
"""Our own: what limits say that only watch."""

_NOT_PRINTABLE = re.compile(r"[^ -~]")


def rate_limit_fields(verdict: Verdict, styles: Sequence[str]) -> list[Field]:
    """The RateLimit fields of a response, refused or not.

    Args:
        verdict: the answer to the request.
        styles: the generations to send; those that share a field must write it alike.

    Returns:
        Name and value pairs, each name once; none when no limit was checked.

    Raises:
        KeyError: a style that does not exist (rules are checked when they are loaded).
    """
    binding = verdict.binding
    return [] if binding is None else fields_writer(styles)(verdict.policies, *binding)


def fields_writer(styles: Sequence[str]) -> FieldsWriter:
    """What writes the fields of these generations, each name once.

    Raises:
        KeyError: a style that does not exist.
    """
    if len(styles) == 1:
        return _WRITERS[styles[0]]
    writers = [_WRITERS[style] for style in styles]

    def write_all(policies: Sequence[Policy], binding: Policy, decision: Decision) -> list[Field]:
        return list(dict(field for write in writers for field in write(policies, binding, decision)).items())

    return write_all


def octets_writer(styles: Sequence[str]) -> OctetsWriter:
    """`fields_writer` for ASGI.

    Raises:
        KeyError: a style that does not exist.
    """
    if list(styles) == ["draft-11"]:
        return draft_11_octets
    write = fields_writer(styles)
    return lambda policies, binding, decision: octets(write(policies, binding, decision))


def octets(fields: Sequence[Field]) -> list[tuple[bytes, bytes]]:
    """Fields as ASGI wants them."""
    return list(map(_field_in_octets, fields))


@lru_cache(maxsize=256)
def octets_once(fields: tuple[Field, ...]) -> tuple[tuple[bytes, bytes], ...]:
    """The same for fields that many responses share."""
    return tuple(octets(fields))


@lru_cache(maxsize=256)
def _field_in_octets(field: Field) -> tuple[bytes, bytes]:
    name, value = field
    return name.lower().encode("latin-1"), value.encode("latin-1")


def field_names(styles: Sequence[str]) -> list[str]:
    """The names of the fields that the generations send.

    Raises:
        KeyError: a style that does not exist.
    """
    policy = Policy("any", 1, NS_PER_SECOND, "1/second")
    decision = Decision(True, 0, 0, None, 1, 1, 0)  # noqa: FBT003 - fields in order
    return [name for name, _ in fields_writer(styles)((policy,), policy, decision)]


def retry_after_s(verdict: Verdict) -> int | None:
    """Whole seconds for `Retry-After`: rounded up, at least 1; None when no waiting helps."""
    return None if verdict.retry_after_ns is None else seconds_up(verdict.retry_after_ns)


def draft_7(policies: Sequence[Policy], binding: Policy, decision: Decision) -> list[Field]:
    """`RateLimit-Policy` with every limit that was checked, `RateLimit` with three numbers, all unnamed."""
    limit, remaining, reset_s = _numbers(binding, decision)
    return [
        *_unnamed_policies(policies),
        ("RateLimit", f"limit={limit}, remaining={remaining}, reset={reset_s}"),
    ]


def draft_6(policies: Sequence[Policy], binding: Policy, decision: Decision) -> list[Field]:
    """`RateLimit-Policy` as in draft 7, and one field for each number; the reset is in seconds left."""
    return [*_unnamed_policies(policies), *_three_fields("RateLimit", _numbers(binding, decision))]


def legacy(_: Sequence[Policy], binding: Policy, decision: Decision) -> list[Field]:
    """`X-RateLimit-Limit`, `-Remaining` and `-Reset` (epoch seconds, rounded up) of the binding limit."""
    limit, remaining, _reset_s = _numbers(binding, decision)
    return _three_fields("X-RateLimit", (limit, remaining, reset_at_s(decision)))


def legacy_seconds(_: Sequence[Policy], binding: Policy, decision: Decision) -> list[Field]:
    """The fields of `legacy`, the reset in seconds left."""
    return _three_fields("X-RateLimit", _numbers(binding, decision))


def shadow_field(shadows: Sequence[Outcome]) -> Field:
    """Limits that only watch, each as `RateLimit` of draft 11 has it, with what would have happened."""
    return SHADOW_FIELD, ", ".join(_shadow_member(*shadow) for shadow in shadows)


def _shadow_member(policy: Policy, decision: Decision) -> str:
    would = "" if decision.allowed else ";refused"
    if decision.wait_ns:
        would = ";delayed"
    return _as_text(policy)[1] % left(decision) + would


def _draft_11_writer(
    prepared: Callable[[Policy], tuple[tuple[_T, _T], _T]], comma: _T, field: _T
) -> Callable[[Sequence[Policy], Policy, Decision], list[tuple[_T, _T]]]:
    """`RateLimit-Policy` with every limit that was checked, `RateLimit` with the binding one.

    Args:
        prepared: what can be written of a policy without a decision: its own `RateLimit-Policy`, and its
            `RateLimit` but for two numbers.
        comma: between members.
        field: the name `RateLimit`.
    """
    known = Remembered(prepared)

    def write(policies: Sequence[Policy], binding: Policy, decision: Decision) -> list[tuple[_T, _T]]:
        quotas, state = known[binding]
        if len(policies) > 1:
            quotas = (quotas[0], comma.join([known[policy][0][1] for policy in policies]))
        # As `left` has it, whose call would cost a tenth of all this.
        remaining, window_ns = decision.remaining, decision.retry_after_ns
        if window_ns is None:
            window_ns = decision.reset_after_ns
        seconds = (window_ns + ALMOST_NS) // NS_PER_SECOND
        if 0 <= remaining <= USUAL and 0 < seconds <= USUAL:
            return [quotas, (field, state % (remaining, seconds))]
        return [quotas, (field, state % left(decision))]

    return write


def _as_text(policy: Policy) -> tuple[tuple[str, str], str]:
    name, member = _words(policy)
    return ("RateLimit-Policy", member), name.replace("%", "%%") + ";r=%d;t=%d"


def _as_octets(policy: Policy) -> tuple[tuple[bytes, bytes], bytes]:
    (name, member), state = _as_text(policy)
    return (name.lower().encode(), member.encode()), state.encode()


draft_11: FieldsWriter = _draft_11_writer(_as_text, ", ", "RateLimit")
"""`RateLimit-Policy` with every limit that was checked, `RateLimit` with the binding one."""
draft_11_octets: OctetsWriter = _draft_11_writer(_as_octets, b", ", b"ratelimit")
"""The same as ASGI wants it."""

_WRITERS: Mapping[str, FieldsWriter] = MappingProxyType(
    {
        "draft-11": draft_11,
        "draft-7": draft_7,
        "draft-6": draft_6,
        "legacy": legacy,
        "legacy-seconds": legacy_seconds,
    }
)


def _numbers(policy: Policy, decision: Decision) -> tuple[int, int, int]:
    """Quota, permits left and seconds left of the binding limit, as they are written."""
    return integer(policy.quota), *left(decision)


def _three_fields(prefix: str, numbers: tuple[int, int, int]) -> list[Field]:
    limit, remaining, reset = numbers
    return [
        (f"{prefix}-Limit", str(limit)),
        (f"{prefix}-Remaining", str(remaining)),
        (f"{prefix}-Reset", str(reset)),
    ]


def _unnamed_policies(policies: Sequence[Policy]) -> list[Field]:
    """`RateLimit-Policy` as the drafts up to 7 write it: `100;w=60`; they have no word for other units."""
    members = [
        f"{integer(policy.quota)};w={seconds_up(policy.window_ns)}" for policy in policies if policy.window_ns
    ]
    return [("RateLimit-Policy", ", ".join(members))] if members else []


@lru_cache(maxsize=4096)
def _words(policy: Policy) -> tuple[str, str]:
    """The policy's name as a structured string, and its whole member of `RateLimit-Policy`.

    What a structured string cannot hold becomes `?`: a name must never break a header line.
    """
    printable = _NOT_PRINTABLE.sub("?", policy.name)
    escaped = printable.replace("\\", "\\\\").replace('"', '\\"')
    name = f'"{escaped}"'
    quota = f"{name};q={integer(policy.quota)}"
    if not policy.window_ns:  # requests in progress: section 3.1.3 of the draft
        return name, f'{quota};qu="concurrent-requests"'
    return name, f"{quota};w={seconds_up(policy.window_ns)}"
