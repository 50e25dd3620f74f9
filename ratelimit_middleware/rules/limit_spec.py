"""The shape of a limit: a text, or the long form with its own algorithm."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Discriminator, Tag, model_validator

from ratelimit_middleware.rules.algorithms import ALGORITHMS, Numbers
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
    read_per,
    read_refill,
    read_seconds,
    read_timezone,
)
from ratelimit_middleware.rules.model import KeyPart
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

__all__ = ["Behavior", "Key", "LimitSpec", "LongLimitSpec", "Spec", "Timezone", "WarmUp", "WarmUpSpec"]

_ANY_NUMBER: Json = {"type": "number", "exclusiveMinimum": 1}

Behavior: TypeAlias = Annotated[
    Literal["reject", "warm_up"],
    plain(read_behavior, choice(("reject", "warm_up"), "What happens over the limit.")),
]
Key: TypeAlias = Annotated[tuple[KeyPart, ...], plain(read_key, KEY)]
Timezone: TypeAlias = Annotated[str, plain(read_timezone, TIMEZONE)]


class Spec(BaseModel):
    """A map of the file: no key that is not known."""

    model_config = ConfigDict(extra="forbid", frozen=True)


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
    refill: (
        Annotated[str, plain(read_refill, choice(("interval", "greedy"), "How tokens come in."))] | None
    ) = None
    capacity: Annotated[int, plain(read_count("capacity"), POSITIVE)] | None = None
    max_burst_seconds: (
        Annotated[float, plain(read_seconds, {"type": "number", "minimum": 0, "maximum": 1e8})] | None
    ) = None

    @model_validator(mode="after")
    def _fits_together(self) -> LongLimitSpec:
        """Refuse numbers that would have no effect, or make no sense together."""
        if self.behavior == "warm_up" and self.algorithm not in (None, "sliding_window"):
            raise GrammarError(
                f"`behavior: warm_up` is an algorithm of its own: leave `algorithm: {self.algorithm}` out",
                "behavior",
            )
        if self.behavior == "warm_up" and not self.warm_up:
            raise GrammarError("`behavior: warm_up` needs its period: add `warm_up: 30s`", "behavior")
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
        takes = recipe.takes if recipe else frozenset({"warm_up"})
        said = self.model_fields_set - {"count", "per", "key", "algorithm", "behavior"}
        for key in sorted(said - takes):
            owners = [name for name in sorted(ALGORITHMS) if key in ALGORITHMS[name].takes]
            if key == "warm_up":
                owners.append("warm_up")
            where = ", ".join(f"`{name}`" for name in owners)
            raise GrammarError(f"`{key}` has no effect on `{self.word}`: it is for {where}", key)
        for key in sorted((recipe.needs if recipe else frozenset()) - said):
            raise GrammarError(f"`algorithm: {self.word}` needs `{key}`: add it", "algorithm")

    @property
    def word(self) -> str:
        """The algorithm, named or implied; `warm_up` for the behavior."""
        if self.behavior == "warm_up":
            return "warm_up"
        if self.algorithm:
            return self.algorithm
        if self.per[1] in ("month", "year"):
            return "fixed_window"
        return "sliding_window" if self.burst is None else "gcra"

    @property
    def limit(self) -> LimitText:
        """What the short form can say of it."""
        return LimitText(self.count, *self.per, self.burst, self.key)

    def numbers(self, timezone: str | None) -> Numbers:
        """For the table of algorithms, with the time zone of the rule or file."""
        more = {"refill": self.refill, "capacity": self.capacity, "max_burst_seconds": self.max_burst_seconds}
        warm_up = self.warm_up
        return Numbers(
            self.limit,
            None if self.behavior == "warm_up" else self.word,
            self.timezone or timezone,
            warm_up.period if warm_up else None,
            warm_up.cold_factor if warm_up else 3,
            {key: value for key, value in more.items() if value is not None},
        )


def _form(value: Any) -> str:
    return "long" if isinstance(value, dict) else "text"


LimitSpec: TypeAlias = Annotated[
    Annotated[LongLimitSpec, Tag("long")]
    | Annotated[tuple[LimitText | AskedText | Unlimited, ...], plain(read_limits, LIMIT), Tag("text")],
    Discriminator(_form),
]
