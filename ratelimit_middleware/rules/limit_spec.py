"""The shape of a limit: a text, or the long form with its own algorithm."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Discriminator, Tag, model_validator

from ratelimit_middleware.rules.algorithms import ALGORITHMS, Numbers
from ratelimit_middleware.rules.behaviors import BEHAVIORS, QUEUES, check_together
from ratelimit_middleware.rules.fields import (
    read_behavior,
    read_cold_factor,
    read_key,
    read_limits,
    read_period,
)
from ratelimit_middleware.rules.grammar import AskedText, LimitText, Unlimited
from ratelimit_middleware.rules.limit_fields import (
    read_algorithm,
    read_count,
    read_flag,
    read_per,
    read_refill,
    read_seconds,
    read_timezone,
)
from ratelimit_middleware.rules.model import KeyPart
from ratelimit_middleware.rules.queue_spec import Queue, QueueSpec
from ratelimit_middleware.rules.spec import Spec
from ratelimit_middleware.rules.values import (
    DURATION,
    KEY,
    LIMIT,
    PERIOD,
    POSITIVE,
    TIMEZONE,
    Json,
    ShortForm,
    choice,
    plain,
)
from ratelimit_middleware.rules.words import GrammarError

__all__ = ["Behavior", "Key", "LimitSpec", "LongLimitSpec", "Timezone", "WarmUp", "WarmUpSpec"]

_TAKES = {
    "warm_up": frozenset({"warm_up"}),
    "queue": frozenset({"burst", "queue"}),
    "warm_up_queue": frozenset({"warm_up", "queue"}),
}
_OF_ONE_ALGORITHM = ("capacity", "max_burst_seconds", "quantum", "refill", "whole_ms")
_ANY_NUMBER: Json = {"type": "number", "exclusiveMinimum": 1}

Behavior: TypeAlias = Annotated[
    Literal["reject", "warm_up", "queue", "warm_up_queue"],
    plain(read_behavior, choice(BEHAVIORS, "What happens over the limit.")),
]
Key: TypeAlias = Annotated[tuple[KeyPart, ...], plain(read_key, KEY)]
Timezone: TypeAlias = Annotated[str, plain(read_timezone, TIMEZONE)]


class WarmUpSpec(Spec):
    """`warm_up: 30s`, or with the factor by which a cold limit is slower."""

    period: Annotated[int, plain(read_period, DURATION)]
    cold_factor: Annotated[float, plain(read_cold_factor, _ANY_NUMBER)] = 3


WarmUp: TypeAlias = Annotated[WarmUpSpec, ShortForm("period", DURATION)]


class LongLimitSpec(Spec):
    """A limit as a map."""

    count: Annotated[int, plain(read_count("count"), POSITIVE)]
    per: Annotated[tuple[int, str], plain(read_per, PERIOD)]
    burst: Annotated[int, plain(read_count("burst"), POSITIVE)] | None = None
    key: Key | None = None
    algorithm: Annotated[str, plain(read_algorithm, choice(ALGORITHMS, "The arithmetic."))] | None = None
    timezone: Timezone | None = None
    behavior: Behavior = "reject"
    warm_up: WarmUp | None = None
    queue: Queue | None = None
    refill: (
        Annotated[str, plain(read_refill, choice(("interval", "greedy"), "How tokens come in."))] | None
    ) = None
    capacity: Annotated[int, plain(read_count("capacity"), POSITIVE)] | None = None
    quantum: Annotated[int, plain(read_count("quantum"), POSITIVE)] | None = None
    whole_ms: Annotated[bool, plain(read_flag("whole_ms"), {"type": "boolean"})] | None = None
    max_burst_seconds: (
        Annotated[float, plain(read_seconds, {"type": "number", "minimum": 0, "maximum": 1e8})] | None
    ) = None

    @model_validator(mode="after")
    def _fits_together(self) -> LongLimitSpec:
        """Refuse numbers that would have no effect, or make no sense together."""
        alone = {"warm_up": (None, "sliding_window"), "warm_up_queue": (None,)}.get(self.behavior)
        if alone and self.algorithm not in alone:
            raise GrammarError(
                f"`behavior: {self.behavior}` is an algorithm of its own: leave"
                f" `algorithm: {self.algorithm}` out",
                "behavior",
            )
        check_together(self)
        self._check_keys()
        limit = self.limit
        if limit.by_calendar and self.word != "fixed_window":
            raise GrammarError(
                f"a {limit.unit} is a window of the calendar: write days, or leave out what makes it"
                f" `{self.word}`",
                "per",
            )
        if self.timezone and not self.numbers(None).calendar_unit:
            raise GrammarError(
                "`timezone` is for a single minute, hour, day, week, month or year: other windows are"
                " counted from 1970-01-01 UTC",
                "timezone",
            )
        return self

    def _check_keys(self) -> None:
        """Only the numbers that the algorithm takes, and all that it needs."""
        recipe = ALGORITHMS.get(self.word)
        takes = recipe.takes if recipe else _TAKES[self.word]
        if self.behavior == "queue":
            takes |= {"queue"}
        said = self.model_fields_set - {"count", "per", "key", "algorithm", "behavior"}
        if "queue" in said - takes:
            raise GrammarError("`queue` has no effect without `behavior: queue`: add it", "queue")
        for key in sorted(said - takes):
            owners = [name for name in sorted(ALGORITHMS) if key in ALGORITHMS[name].takes]
            owners += [behavior for behavior in _TAKES if key in _TAKES[behavior]]
            where = ", ".join(f"`{name}`" for name in owners)
            raise GrammarError(f"`{key}` has no effect on `{self.word}`: it is for {where}", key)
        for key in sorted((recipe.needs if recipe else frozenset()) - said):
            raise GrammarError(f"`algorithm: {self.word}` needs `{key}`: add it", "algorithm")

    @property
    def word(self) -> str:
        """The algorithm, named or implied, or the behavior that is one."""
        if self.behavior in ("warm_up", "warm_up_queue"):
            return self.behavior
        if self.algorithm:
            return self.algorithm
        if self.behavior == "queue":
            return "queue"
        if self.per[1] in ("month", "year"):
            return "fixed_window"
        return "sliding_window" if self.burst is None else "gcra"

    @property
    def limit(self) -> LimitText:
        """What the short form can say of it."""
        return LimitText(self.count, *self.per, self.burst, self.key)

    def numbers(self, timezone: str | None) -> Numbers:
        """For the table of algorithms, with the time zone of the rule or file."""
        more = {key: getattr(self, key) for key in _OF_ONE_ALGORITHM}
        warm_up = self.warm_up
        return Numbers(
            self.limit,
            self.algorithm,
            self.timezone or timezone,
            warm_up.period if warm_up else None,
            warm_up.cold_factor if warm_up else 3,
            {key: value for key, value in more.items() if value is not None},
            self.behavior,
            self.waiting.max_wait if self.waiting else 0,
        )

    @property
    def waiting(self) -> QueueSpec | None:
        """The bounds of the queue; None where nobody waits."""
        queues = self.behavior in QUEUES or self.algorithm in ("sentinel_pacing", "sentinel_warm_up_pacing")
        return (self.queue or QueueSpec()) if queues else None


def _form(value: Any) -> str:
    return "long" if isinstance(value, dict) else "text"


LimitSpec: TypeAlias = Annotated[
    Annotated[LongLimitSpec, Tag("long")]
    | Annotated[tuple[LimitText | AskedText | Unlimited, ...], plain(read_limits, LIMIT), Tag("text")],
    Discriminator(_form),
]
