"""What lint says: a code, a place and a way out."""

from __future__ import annotations

from dataclasses import dataclass

from ratelimit_middleware.rules.key_grammar import key_text
from ratelimit_middleware.rules.model import Ignored, Limit, Rule, RuleSet

__all__ = ["CODES", "LintWarning", "about", "spoken"]

# fmt: off
CODES = (
    "RL101", "RL102", "RL201", "RL202", "RL203", "RL204", "RL205", "RL301", "RL302", "RL401", "RL501",
    "RL502",
)
# fmt: on
"""All codes, each with its section in docs/lint.md; a code never changes its meaning."""


@dataclass(frozen=True, slots=True)
class LintWarning:
    """Something that a rule file may say, but hardly means.

    Attributes:
        code: stable, such as `RL101`.
        rule: name of the rule; empty when it is about the whole file.
        place: `file:line:column`, or as near as is known.
        message: what is odd, and the way out.

    Raises:
        ValueError: the code is none of `CODES`, or there is no message.
    """

    code: str
    rule: str
    place: str
    message: str

    def __post_init__(self) -> None:
        """Refuse a code that no section explains."""
        if self.code not in CODES or not self.message:
            raise ValueError(f"{self.code!r} with {self.message!r} is no warning: expected one of {CODES}")

    @property
    def link(self) -> str:
        """Where the code is explained."""
        return f"docs/lint.md#{self.code.lower()}"

    def __str__(self) -> str:
        """The warning as it is shown to the author of the file."""
        return f"{self.place}: {self.code} {self.message} ({self.link})"

    def is_ignored(self, ignored: tuple[Ignored, ...]) -> bool:
        """Whether the file asks not to hear of it."""
        return any(self.code == one.code and one.rule in ("", self.rule) for one in ignored)


def about(ruleset: RuleSet, rule: Rule | None, code: str, message: str) -> LintWarning:
    """A warning about a rule, or about the whole file."""
    place = rule.place if rule else ""
    return LintWarning(code, rule.name if rule else "", place or ruleset.source, message)


def spoken(limit: Limit) -> str:
    """A limit as messages name it."""
    return f"`{limit.policy.text} per {key_text(limit.key)}`"
