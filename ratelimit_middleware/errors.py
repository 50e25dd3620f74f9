"""The exception tree.

    RateLimitError
    ├── BodyCutError       (OSError)      a body is broken off, for its bytes cannot be counted
    ├── InvalidLimitError  (ValueError)   numbers that make no sense together
    ├── NeverAdmittedError (ValueError)   more permits wanted than a bucket ever holds
    ├── RuleFileError      (ValueError)   one or more mistakes in a rule file
    └── StoreError         (RuntimeError) a store cannot answer
        └── StoreUnavailableError         and requests are to be refused until it does

A refusal that waiting would turn into an admission is not an exception: it is a value (`Decision`,
`Verdict`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = [
    "BodyCutError",
    "InvalidLimitError",
    "NeverAdmittedError",
    "RateLimitError",
    "RuleFileError",
    "RuleProblem",
    "StoreError",
    "StoreUnavailableError",
    "UnreadableBucketError",
    "on_one_line",
]

_SHOWN = 100


class RateLimitError(Exception):
    """Base of everything this package raises on purpose."""


class BodyCutError(RateLimitError, ConnectionAbortedError):
    """Raised to an app whose body is broken off, as where its client has gone."""


class InvalidLimitError(RateLimitError, ValueError):
    """Raised by an algorithm's constructor when a number makes no sense.

    Args:
        what: the parameter, as the caller wrote it (`period`).
        value: what was given.
        expected: what would be right, as a phrase ("a number of seconds above 0").
    """

    def __init__(self, what: str, value: object, expected: str) -> None:
        super().__init__(f"{what}={value!r} is not allowed: expected {expected}")
        self.what = what
        self.value = value
        self.expected = expected


class NeverAdmittedError(RateLimitError, ValueError):
    """Raised by `Limiter.acquire` when no waiting helps: the bucket never holds so many permits.

    Args:
        wanted: permits asked for.
        limit: what the limit grants per window.
    """

    def __init__(self, wanted: int, limit: int) -> None:
        super().__init__(f"{wanted} permits are never admitted together: the limit is {limit}")
        self.wanted = wanted
        self.limit = limit


class StoreError(RateLimitError, RuntimeError):
    """Raised by a store that cannot answer; the failure policy decides what the request hears."""


class UnreadableBucketError(StoreError):
    """Raised by a store that works, for a bucket in whose place something else stands."""


class StoreUnavailableError(StoreError):
    """Raised by a guarded store that does not answer, for limits whose policy is `deny`.

    Args:
        retry_after_ns: how long until the store is asked again, ns.
    """

    def __init__(self, retry_after_ns: int) -> None:
        super().__init__("the store does not answer, and the policy for that is `deny`")
        self.retry_after_ns = retry_after_ns


def on_one_line(text: str) -> str:
    """`text` with line breaks and other characters that print nothing as the escapes of Python source."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


@dataclass(frozen=True, slots=True)
class RuleProblem:
    """One mistake in a rule file.

    Attributes:
        place: `file:line:column` for YAML, the dotted path (`limits./items.limit`) for a dict.
        message: the offending word, what is allowed and the nearest known word.
        excerpt: the line of the file with a caret below the place, or empty.

    What a terminal would obey in place and message (line breaks, escapes) is written as in Python source.
    """

    place: str
    message: str
    excerpt: str = ""

    def __post_init__(self) -> None:
        """Both come out on one line, whatever the file holds."""
        object.__setattr__(self, "place", on_one_line(self.place))
        object.__setattr__(self, "message", on_one_line(self.message))

    def __str__(self) -> str:
        """The problem as it is shown to the author of the file."""
        head = f"{self.place}: {self.message}"
        return f"{head}\n{self.excerpt}" if self.excerpt else head


class RuleFileError(RateLimitError, ValueError):
    """Raised when rules are loaded; holds every mistake found, in order of place. The text shows 100."""

    def __init__(self, problems: Sequence[RuleProblem]) -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        head = f"{count} mistake{'s' if count != 1 else ''} in the rules; nothing was loaded"
        more = [f"and {count - _SHOWN} more"] if count > _SHOWN else []
        super().__init__("\n".join([head, *map(str, self.problems[:_SHOWN]), *more]))
