"""What happens to requests over the limit, and the keys that go with it: of a rule, and of a long limit."""

from __future__ import annotations

from typing import Any, Protocol

from ratelimit_middleware.rules.grammar import LimitText
from ratelimit_middleware.rules.words import GrammarError

__all__ = ["BEHAVIORS", "QUEUES", "WARM_UPS", "check_idle", "check_single", "check_together"]

BEHAVIORS = ("reject", "warm_up", "queue", "warm_up_queue")
QUEUES = frozenset({"queue", "warm_up_queue"})
WARM_UPS = frozenset({"warm_up", "warm_up_queue"})


class _Behaving(Protocol):
    """A part of the file that has a behavior."""

    @property
    def behavior(self) -> str:
        """One of `BEHAVIORS`."""

    @property
    def warm_up(self) -> Any:
        """Its period, if it is there."""

    @property
    def queue(self) -> Any:
        """Its bounds, if they are there."""


def check_together(spec: _Behaving) -> None:
    """A behavior has the keys that it needs.

    Raises:
        GrammarError: one is missing.
    """
    if spec.behavior in WARM_UPS and not spec.warm_up:
        raise GrammarError(f"`behavior: {spec.behavior}` needs its period: add `warm_up: 30s`", "behavior")


def check_idle(spec: _Behaving) -> None:
    """No key of a behavior stands there without it.

    Raises:
        GrammarError: one has no effect.
    """
    if spec.warm_up and spec.behavior not in WARM_UPS:
        raise GrammarError("`warm_up` has no effect without `behavior: warm_up`: add it", "warm_up")
    if spec.queue and spec.behavior not in QUEUES:
        raise GrammarError("`queue` has no effect without `behavior: queue`: add it", "queue")


def check_single(spec: _Behaving, limits: list[Any], *, overrides: bool) -> None:
    """The behavior of a rule is for one limit in the short form.

    Raises:
        GrammarError: the rule has another one, or several.
    """
    if spec.behavior == "reject":
        return
    takes_burst = spec.behavior == "queue"
    with_burst = bool(limits) and getattr(limits[0], "burst", None) is not None
    if len(limits) != 1 or (with_burst and not takes_burst):
        without = "" if takes_burst else " without `burst`"
        raise GrammarError(
            f"`behavior: {spec.behavior}` works on a single limit{without}: split the rule", "behavior"
        )
    if (
        not isinstance(limits[0], LimitText)
        or limits[0].by_calendar
        or (overrides and spec.behavior in WARM_UPS)
    ):
        without = ", without overrides" if spec.behavior in WARM_UPS else ""
        raise GrammarError(
            f"`behavior: {spec.behavior}` works on a limit such as `100/second`{without}: write `behavior`"
            " into the long form of the limit",
            "behavior",
        )
