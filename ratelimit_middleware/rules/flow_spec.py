"""What the rule file says about what flows within a request: `messages` and `on_excess`.

Raises:
    GrammarError: from every function here, when a value is not what its key takes.
"""

from __future__ import annotations

from typing import Annotated, Any, Protocol, TypeAlias

from ratelimit_middleware.rules.flow import OnExcess
from ratelimit_middleware.rules.grammar import LimitText, parse_limits
from ratelimit_middleware.rules.values import MESSAGES, choice, plain
from ratelimit_middleware.rules.words import GrammarError, choose, shown

__all__ = ["Messages", "WhenOver", "check_flows"]

_FLOWS = frozenset({"messages", "bandwidth"})
_FOR_REQUESTS = frozenset({"behavior", "charge", "cost", "overrides", "penalty", "queue", "relate"})
_FOR_REQUESTS |= {"response", "status", "tiers", "warm_up"}
_ON_EXCESS = ("delay", "drop", "close")
_HABITS = {
    "queue": "delay",
    "wait": "delay",
    "ignore": "drop",
    "reject": "close",
    "disconnect": "close",
}


def _read_messages(value: Any) -> tuple[LimitText, ...]:
    """Limits with numbers, on spans of time."""
    if not isinstance(value, str):
        raise GrammarError(f"{shown(value)} is not a limit on messages: write `20/second burst 40`")
    limits = parse_limits(value)
    for limit in limits:
        if not isinstance(limit, LimitText) or limit.by_calendar:
            raise GrammarError(
                f"{shown(value)} is not a limit on messages: write `20/second burst 40`, or leave the key out"
            )
    return tuple(limit for limit in limits if isinstance(limit, LimitText))


def _read_on_excess(value: Any) -> str:
    return choose("value of `on_excess`", value, _ON_EXCESS, habits=_HABITS)


Messages: TypeAlias = Annotated[tuple[LimitText, ...], plain(_read_messages, MESSAGES)]
WhenOver: TypeAlias = Annotated[
    OnExcess, plain(_read_on_excess, choice(_ON_EXCESS, "What becomes of a message over the limit."))
]


class _Flowing(Protocol):
    """A rule of the file, as far as it is looked at here."""

    @property
    def model_fields_set(self) -> set[str]:
        """The keys that it has."""

    @property
    def limit(self) -> list[Any]:
        """Its limits."""


def check_flows(spec: _Flowing) -> None:
    """Refuse a rule that limits nothing, and keys without effect beside what flows.

    Raises:
        GrammarError: there is such a key.
    """
    said = spec.model_fields_set
    flows = sorted(said & _FLOWS)
    if not (spec.limit or said & {"adaptive", "concurrency"}):
        if not flows:
            raise GrammarError("a rule needs a limit: add `limit: 100/minute`")
        for key in sorted(said & _FOR_REQUESTS):
            raise GrammarError(
                f"`{key}` has no effect beside `{flows[0]}` alone, which refuses no request: add a `limit`",
                key,
            )
    if "on_excess" in said and "messages" not in said:
        raise GrammarError(
            "`on_excess` has no effect without `messages`: add `messages: 20/second`", "on_excess"
        )
