"""From the checked shape of a rule to its limits: algorithms, keys, costs and overrides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ratelimit_middleware.algorithms.base import Algorithm
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.decision import Policy
from ratelimit_middleware.errors import InvalidLimitError
from ratelimit_middleware.identity import CLIENT_WRITTEN, KeyPart
from ratelimit_middleware.rules.algorithms import Numbers, algorithm_of
from ratelimit_middleware.rules.choices import AskedLimit, MethodCost, Overrides, has_glob
from ratelimit_middleware.rules.document import Path
from ratelimit_middleware.rules.grammar import AskedText, LimitText, key_text, parse_limit
from ratelimit_middleware.rules.hosts import is_exact
from ratelimit_middleware.rules.limit_spec import LongLimitSpec
from ratelimit_middleware.rules.model import Limit
from ratelimit_middleware.rules.schema import RuleSpec
from ratelimit_middleware.rules.words import GrammarError, shown

__all__ = ["LimitCompiler"]

_MAY_LACK = frozenset({"user", "python"})
_STRICTEST = SlidingWindow(limit=1, period=86_400)


@dataclass(frozen=True)
class LimitCompiler:
    """Makes the limits of one rule.

    Attributes:
        path: where the rule stands.
        spec: what the file says.
        refuse: is told a place below the rule and what is wrong there.
        timezone: of the file.
        any_case: paths that differ in case only are one.
    """

    path: Path
    spec: RuleSpec
    refuse: Callable[[Path, str], None]
    timezone: str | None = None
    any_case: bool = False

    def limits(self, id_base: str, policy_name: Callable[[int], str]) -> tuple[Limit, ...]:
        """All limits whose numbers make sense."""
        self._check_clients()
        made = [self._limit(number, id_base, policy_name) for number in range(len(self.spec.placed_limits))]
        limits = [limit for limit in made if limit]
        if limits and self.spec.overrides:
            limits[0] = self._with_overrides(limits[0])
        return tuple(limits)

    def _limit(self, number: int, id_base: str, policy_name: Callable[[int], str]) -> Limit | None:
        index, text = self.spec.placed_limits[number]
        algorithm = self._algorithm(text, ("limit", index))
        if not algorithm:
            return None
        spec = self.spec
        if not isinstance(text, AskedText):
            self._check_cost(algorithm, _rate(text))
        limit = Limit(
            Policy(policy_name(number), algorithm.quota, algorithm.window_ns, _rate(text)),
            algorithm,
            self._key(text),
            id_base if number == 0 else f"{id_base}#{number + 1}",
            spec.mode == "shadow",
            missing=spec.missing,
            on_error=spec.on_error,
        )
        if isinstance(text, AskedText):
            limit = replace(limit, choose=AskedLimit(text.asked, self._reader(limit)))
        if isinstance(spec.cost, int):
            return replace(limit, cost=spec.cost)
        return replace(limit, cost_of=spec.cost)

    def _key(self, text: Any) -> tuple[KeyPart, ...]:
        key = text.key or self.spec.key
        return tuple(replace(part, any_case=self.any_case and part.kind == "path") for part in key)

    def _algorithm(self, text: LimitText | LongLimitSpec | AskedText, place: Path) -> Algorithm | None:
        """The arithmetic; None when it refuses a number."""
        if isinstance(text, AskedText):
            return _STRICTEST  # never asked: a function tells the numbers of each request
        try:
            algorithm = algorithm_of(self._numbers(text))
        except InvalidLimitError as error:
            self.refuse(self._blamed(place, error.what), f"{shown(_rate(text))}: {error}")
            return None
        return algorithm

    def _check_cost(self, algorithm: Algorithm, rate: str) -> None:
        """Refuse a cost that is never admitted (an override may well shut some clients out)."""
        cost = self.spec.cost
        most = cost if isinstance(cost, int) else cost.most if isinstance(cost, MethodCost) else 1
        fresh = algorithm.peek(algorithm.start(0), 0, most)
        never = not fresh.allowed and fresh.retry_after_ns is None
        if never or most > algorithm.smallest_full_take:
            self.refuse(
                ("cost",),
                f"the cost {shown(most)} is more than {shown(rate)} ever admits at once, which is"
                f" {min(algorithm.quota, algorithm.smallest_full_take)}: lower the cost or raise the limit",
            )

    def _numbers(self, text: LimitText | LongLimitSpec) -> Numbers:
        timezone, warm_up = self.spec.timezone or self.timezone, self.spec.warm_up
        if isinstance(text, LongLimitSpec):
            return text.numbers(timezone)
        if warm_up:
            return Numbers(text, warm_up_s=warm_up.period, cold_factor=warm_up.cold_factor)
        return Numbers(text, timezone=timezone)

    def _reader(self, limit: Limit) -> Callable[[str], Limit | None]:
        """What turns the text that a function gives into a limit like `limit`."""

        def read(text: str) -> Limit | None:
            found = parse_limit(text)
            if isinstance(found, str):
                return None
            if isinstance(found, AskedText) or found.key is not None:
                raise GrammarError(f"{shown(text)} is not a plain limit such as `100/minute`")
            return _with_numbers(limit, algorithm_of(self._numbers(found)), found.rate)

        return read

    def _with_overrides(self, limit: Limit) -> Limit:
        """The first limit, with other numbers for some values of the first part of its key."""
        part = limit.key[0]
        if limit.choose:
            self.refuse(("overrides",), "overrides need a limit with numbers: let the function tell them")
        if self._written_by_client(part) and not self.spec.trusted:
            self.refuse(
                ("overrides",),
                f"`{key_text((part,))}` is written by the client, who could claim the limit of another: write"
                " `trusted: true` if a proxy sets it",
            )
        exact: dict[str, Limit | None] = {}
        globs: list[tuple[str, Limit | None]] = []
        for value, item in self.spec.overrides.items():
            (text,) = self.spec.forms(item)
            other = self._override(limit, value, text)
            if has_glob(value):
                globs.append((value, other))
            else:
                exact[value] = other
        return replace(limit, choose=Overrides(part, exact, tuple(globs)))

    def _override(self, limit: Limit, value: str, text: Any) -> Limit | None:
        if isinstance(text, str):
            return None
        if isinstance(text, AskedText):
            self.refuse(("overrides", value), "an override is a limit with numbers, such as `100/minute`")
            return limit
        algorithm = self._algorithm(text, ("overrides", value))
        return _with_numbers(limit, algorithm, _rate(text)) if algorithm else limit

    def _check_clients(self) -> None:
        """Refuse a limit that a client leaves by writing another header, if nothing else holds it."""
        keys = [(index, limit.key or self.spec.key) for index, limit in self.spec.placed_limits]
        if self.spec.trusted or any(self._holds(key) for _, key in keys):
            return
        for index, key in keys:
            if any(self._written_by_client(part) for part in key):
                self.refuse(
                    ("limit", index),
                    f"the key {shown(key_text(key))} has a part that the client writes and may change at"
                    " will: add a limit `per ip` beside it, or `trusted: true` if a proxy sets it",
                )

    def _holds(self, key: tuple[KeyPart, ...]) -> bool:
        """Whether a client cannot get out of a limit with this key."""
        lacking = self.spec.missing == "skip" and any(part.kind in _MAY_LACK for part in key)
        return not lacking and not any(self._written_by_client(part) for part in key)

    def _written_by_client(self, part: KeyPart) -> bool:
        return part.kind in CLIENT_WRITTEN and not (part.kind == "host" and is_exact(self.spec.hosts))

    def _blamed(self, place: Path, what: str) -> Path:
        """The place of the number that an algorithm refused."""
        if what not in ("cold_factor", "warm_up_period"):
            return place
        below: Path = ("warm_up", "cold_factor" if what == "cold_factor" else "period")
        return below if self.spec.warm_up else (*place, *below)


def _rate(text: Any) -> str:
    """A limit as clients are shown it."""
    return str(text.limit.rate if isinstance(text, LongLimitSpec) else text.rate)


def _with_numbers(limit: Limit, algorithm: Algorithm, rate: str) -> Limit:
    policy = Policy(limit.policy.name, algorithm.quota, algorithm.window_ns, rate)
    return replace(limit, policy=policy, algorithm=algorithm, choose=None)
