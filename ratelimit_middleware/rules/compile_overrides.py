"""From the overrides of a rule to the limits that some values of its key have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ratelimit_middleware.rules.choices import Overrides, has_glob
from ratelimit_middleware.rules.document import Path
from ratelimit_middleware.rules.grammar import AskedText
from ratelimit_middleware.rules.key_grammar import key_text
from ratelimit_middleware.rules.limit import Limit
from ratelimit_middleware.rules.schema import RuleSpec
from ratelimit_middleware.rules.stand_ins import StandIns

__all__ = ["with_overrides"]


def with_overrides(
    limit: Limit, spec: RuleSpec, refuse: Callable[[Path, str], None], stand_ins: StandIns, *, claimed: bool
) -> Limit:
    """The first limit of a rule, with other numbers for some values of the first part of its key.

    Args:
        limit: as it is without them.
        spec: the rule.
        refuse: is told a place below the rule and what is wrong there.
        stand_ins: makes the limits.
        claimed: whether a client may claim any value.
    """
    part = limit.key[0]
    if limit.choose:
        refuse(("overrides",), "overrides need a limit with numbers: let the function tell them")
    if claimed:
        refuse(
            ("overrides",),
            f"`{key_text((part,))}` is written by the client, who could claim the limit of another: write"
            " `trusted: true` if a proxy sets it",
        )

    def of(value: str, text: Any) -> Limit | None:
        if isinstance(text, str):
            return None
        if isinstance(text, AskedText):
            refuse(("overrides", value), "an override is a limit with numbers, such as `100/minute`")
            return limit
        return stand_ins.limit(limit, text, ("overrides", value))

    made = {value: of(value, spec.forms(item)[0]) for value, item in spec.overrides.items()}
    exact = {value: other for value, other in made.items() if not has_glob(value)}
    globs = tuple((value, other) for value, other in made.items() if has_glob(value))
    return replace(limit, choose=Overrides(part, exact, globs))
