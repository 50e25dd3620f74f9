"""From the checked shape of a rule to its limits: algorithms, keys, costs and overrides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from ratelimit_middleware.algorithms.base import Algorithm, ceil_div
from ratelimit_middleware.algorithms.concurrency import Concurrency
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.decision import Policy
from ratelimit_middleware.errors import InvalidLimitError
from ratelimit_middleware.identity import KeyPart, Missing
from ratelimit_middleware.rules.algorithms import Numbers, algorithm_of
from ratelimit_middleware.rules.charges import Reserve, UnmatchedFree
from ratelimit_middleware.rules.check_cost import cost_problems
from ratelimit_middleware.rules.choices import AskedLimit, Overrides, Released, has_glob
from ratelimit_middleware.rules.client_spec import ClientSpec
from ratelimit_middleware.rules.client_written import holds, is_written_by_client
from ratelimit_middleware.rules.compile_tiers import TierCompiler, with_numbers
from ratelimit_middleware.rules.document import Path
from ratelimit_middleware.rules.grammar import AskedText, LimitText, parse_limit
from ratelimit_middleware.rules.key_grammar import key_text
from ratelimit_middleware.rules.limit_spec import LongLimitSpec
from ratelimit_middleware.rules.model import Limit, RequestList, Settle
from ratelimit_middleware.rules.queue_spec import InProgress, QueueSpec
from ratelimit_middleware.rules.schema import PlacedLimit, RuleSpec
from ratelimit_middleware.rules.shares import Share
from ratelimit_middleware.rules.tiers import TierPlan
from ratelimit_middleware.rules.words import GrammarError, shown

__all__ = ["LimitCompiler"]

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
        client: what the file says of clients.
        unmatched_free: requests without a route of the app get their permits back.
        exempt: requests that the rule does not count.
        tiers: what some tiers have in the place of its numbers.
    """

    path: Path
    spec: RuleSpec
    refuse: Callable[[Path, str], None]
    timezone: str | None = None
    any_case: bool = False
    client: ClientSpec = field(default_factory=ClientSpec)
    unmatched_free: bool = False
    exempt: RequestList | None = None
    tiers: TierPlan | None = None

    def limits(self, id_base: str, policy_name: Callable[[int], str]) -> tuple[Limit, ...]:
        """All limits whose numbers make sense."""
        self._check_clients()
        made = [
            self._limit(number, placed, id_base, policy_name)
            for number, placed in enumerate(self.spec.placed_limits)
        ]
        limits = [limit for limit in made if limit]
        if self.spec.concurrency:
            limits.append(self._slots(self.spec.concurrency, len(made), id_base, policy_name(len(made))))
        if limits and self.spec.overrides:
            limits[0] = self._with_overrides(limits[0])
        return tuple(self._with_tiers(number, limit) for number, limit in enumerate(limits))

    def _limit(
        self, number: int, placed: PlacedLimit, id_base: str, policy_name: Callable[[int], str]
    ) -> Limit | None:
        index, text = placed
        algorithm = self._algorithm(text, ("limit", index))
        if not algorithm:
            return None
        spec = self.spec
        if not isinstance(text, AskedText):
            self._check_cost(text, algorithm, _rate(text))
        limit = Limit(
            Policy(policy_name(number), algorithm.quota, algorithm.window_ns, _rate(text)),
            algorithm,
            self._key(text),
            id_base if number == 0 else f"{id_base}#{number + 1}",
            spec.mode == "shadow",
            missing=self._missing,
            max_wait_ns=self._max_wait_ns(text, algorithm, ("limit", index)),
            on_error=spec.on_error,
            settle=self._settle(),
            exempt=self.exempt,
            share=self._share(id_base),
        )
        if isinstance(text, AskedText):
            limit = replace(limit, choose=AskedLimit(text.asked, self._reader(limit)))
        if isinstance(spec.cost, int):
            return replace(limit, cost=spec.cost)
        if isinstance(spec.cost, Reserve):
            return replace(limit, cost=spec.cost.permits)
        return replace(limit, cost_of=spec.cost)

    def _settle(self) -> Settle | None:
        """What a request costs in the end."""
        cost = self.spec.cost
        settle = cost.settle if isinstance(cost, Reserve) else self.spec.charge
        return UnmatchedFree(settle) if self.unmatched_free else settle

    def _slots(self, most: InProgress, number: int, id_base: str, name: str) -> Limit:
        """The limit on requests in progress; each counts as one, whatever it costs."""
        algorithm, spec = Concurrency(most.requests), self.spec
        return Limit(
            Policy(name, algorithm.quota, algorithm.window_ns, f"{most.requests} at a time"),
            algorithm,
            self._key(most),
            f"{id_base}#in-progress" if number else id_base,
            spec.mode == "shadow",
            missing=self._missing,
            settle=Released(),
            on_error=spec.on_error,
            exempt=self.exempt,
            share=self._share(id_base),
        )

    def _share(self, salt: str) -> Share | None:
        """The clients that the rule refuses, if not all."""
        share = self.spec.enforce
        return replace(share, salt=salt) if share and share.hundredths < Share.ALL else None

    def _max_wait_ns(self, text: Any, algorithm: Algorithm, place: Path) -> int:
        """How long a request may be delayed, so that no more wait than there are places."""
        waiting = self._waiting(text)
        if not waiting:
            return 0
        if waiting.max_waiting is None:
            return waiting.max_wait
        if isinstance(algorithm, GCRA):
            return min(waiting.max_wait, ceil_div(waiting.max_waiting * algorithm.period_ns, algorithm.limit))
        at = (*place, "queue") if isinstance(text, LongLimitSpec) else ("queue",)
        self.refuse(
            (*at, "max_waiting"),
            "`max_waiting` is for evenly spaced requests, `behavior: queue` with or without a burst: here"
            " `max_wait` alone bounds the queue",
        )
        return waiting.max_wait

    def _waiting(self, text: Any) -> QueueSpec | None:
        return text.waiting if isinstance(text, LongLimitSpec) else self.spec.waiting

    def _key(self, text: Any) -> tuple[KeyPart, ...]:
        return tuple(self._part(part) for part in text.key or self.spec.key)

    def _part(self, part: KeyPart) -> KeyPart:
        """A part with what the rule and the file say of it."""
        part = replace(part, ipv6_prefix=self.spec.ipv6_prefix or self.client.ipv6_prefix)
        if part.kind == "user" and self.client.user:
            return replace(part, asked=self.client.user.asked)  # so that an async one is awaited in time
        return replace(part, any_case=self.any_case and part.kind == "path")

    @property
    def _missing(self) -> Missing:
        return self.spec.missing or self.client.missing

    def _algorithm(self, text: LimitText | LongLimitSpec | AskedText, place: Path) -> Algorithm | None:
        """The arithmetic; None when it refuses a number."""
        if isinstance(text, AskedText):
            return _STRICTEST  # never asked: a function tells the numbers of each request
        try:
            algorithm = algorithm_of(self._numbers(text))
        except InvalidLimitError as error:
            self.refuse(self._blamed(place, error.what, text), f"{shown(_rate(text))}: {error}")
            return None
        return algorithm

    def _check_cost(self, text: Any, algorithm: Algorithm, rate: str) -> None:
        waits = bool(self._waiting(text))
        for place, message in cost_problems(self.spec.cost, algorithm, rate, waits=waits):
            self.refuse(place, message)

    def _numbers(self, text: LimitText | LongLimitSpec) -> Numbers:
        spec = self.spec
        timezone, warm_up = spec.timezone or self.timezone, spec.warm_up
        if isinstance(text, LongLimitSpec):
            return text.numbers(timezone)
        return Numbers(
            text,
            timezone=timezone,
            warm_up_s=warm_up.period if warm_up else None,
            cold_factor=warm_up.cold_factor if warm_up else 3,
            behavior=spec.behavior,
            max_wait_ns=spec.waiting.max_wait if spec.waiting else 0,
        )

    def _reader(self, limit: Limit) -> Callable[[str], Limit | None]:
        """What turns the text that a function gives into a limit like `limit`."""

        def read(text: str) -> Limit | None:
            found = parse_limit(text)
            if isinstance(found, str):
                return None
            if isinstance(found, AskedText) or found.key is not None:
                raise GrammarError(f"{shown(text)} is not a plain limit such as `100/minute`")
            return with_numbers(limit, algorithm_of(self._numbers(found)), found.rate)

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
        return with_numbers(limit, algorithm, _rate(text)) if algorithm else limit

    def _with_tiers(self, number: int, limit: Limit) -> Limit:
        """A limit, with other numbers for some tiers."""
        if self.tiers is None:
            return limit
        placed = self.spec.placed_limits
        text = placed[number][1] if number < len(placed) else self.spec.concurrency
        tiers = TierCompiler(self.tiers, self.refuse, self._algorithm, self._check_cost, self._max_wait_ns)
        return tiers.limit(limit, text, is_first=number == 0)

    def _check_clients(self) -> None:
        """Refuse a limit that a client leaves by writing another header, if nothing else holds it."""
        keys: list[tuple[Path, tuple[KeyPart, ...]]] = [
            (("limit", index), limit.key or self.spec.key) for index, limit in self.spec.placed_limits
        ]
        if self.spec.trusted or any(self._holds(key) for _, key in keys):
            return
        if self.spec.concurrency:
            keys.append((("concurrency",), self.spec.concurrency.key or self.spec.key))
        for place, key in keys:
            if any(self._written_by_client(part) for part in key):
                self.refuse(
                    place,
                    f"the key {shown(key_text(key))} has a part that the client writes and may change at"
                    " will: add a limit `per ip` beside it, or `trusted: true` if a proxy sets it",
                )

    def _holds(self, key: tuple[KeyPart, ...]) -> bool:
        return holds(key, self._missing, self.spec.hosts)

    def _written_by_client(self, part: KeyPart) -> bool:
        return is_written_by_client(part, self.spec.hosts)

    def _blamed(self, place: Path, what: str, text: LimitText | LongLimitSpec) -> Path:
        """The place of the number that an algorithm refused."""
        if isinstance(text, LongLimitSpec) and what in text.model_fields_set:
            return (*place, what)
        if what not in ("cold_factor", "warm_up_period"):
            return place
        below: Path = ("warm_up", "cold_factor" if what == "cold_factor" else "period")
        return below if self.spec.warm_up else (*place, *below)


def _rate(text: Any) -> str:
    """A limit as clients are shown it."""
    return str(text.limit.rate if isinstance(text, LongLimitSpec) else text.rate)
