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
from ratelimit_middleware.rules.choices import AskedLimit, Released
from ratelimit_middleware.rules.client_spec import ClientSpec
from ratelimit_middleware.rules.client_written import holds, is_written_by_client
from ratelimit_middleware.rules.compile_overrides import with_overrides
from ratelimit_middleware.rules.compile_tiers import TierCompiler
from ratelimit_middleware.rules.document import Path
from ratelimit_middleware.rules.grammar import AskedText, LimitText, parse_limit
from ratelimit_middleware.rules.key_grammar import key_text
from ratelimit_middleware.rules.limit_spec import LongLimitSpec
from ratelimit_middleware.rules.model import Limit, RequestList, Settle
from ratelimit_middleware.rules.queue_spec import InProgress, QueueSpec, at_a_time
from ratelimit_middleware.rules.schema import PlacedLimit, RuleSpec
from ratelimit_middleware.rules.shares import Share
from ratelimit_middleware.rules.stand_ins import StandIns, apart, with_numbers
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
        placed_limits, slots = self.spec.placed_limits, self.spec.concurrency
        limits: list[Limit] = []
        for number, placed in enumerate(placed_limits):
            limit = self._limit(number, placed, id_base, policy_name)
            if limit:
                limits.append(self._choosing(number, placed[1], limit))
        if slots:
            limit = self._slots(slots, id_base, policy_name(len(placed_limits)))
            limits.append(self._tiers(self.tiers).slots(limit) if self.tiers else limit)
        return tuple(limits)

    def _choosing(self, number: int, text: Any, limit: Limit) -> Limit:
        """A limit, with other numbers for some values of its key and for some tiers."""
        if self.spec.overrides and number == 0:
            claimed = self._written_by_client(limit.key[0]) and not self.spec.trusted
            stand_ins = self._stand_ins(shuts_out=True)
            limit = with_overrides(limit, self.spec, self.refuse, stand_ins, claimed=claimed)
        return self._tiers(self.tiers).limit(limit, text, is_first=number == 0) if self.tiers else limit

    def _tiers(self, plan: TierPlan) -> TierCompiler:
        return TierCompiler(plan, self.refuse, self._check_cost, self._max_wait_ns, self._stand_ins())

    def _stand_ins(self, *, shuts_out: bool = False) -> StandIns:
        """What makes limits in the place of others; whether they may be too small for the cost."""

        def check_cost(text: Any, algorithm: Algorithm) -> None:
            self._check_cost(text, algorithm, _rate(text), shuts_out=shuts_out)

        return StandIns(self.spec.behavior, self.refuse, self._algorithm, check_cost, self._max_wait_ns)

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
            self.key_of(text),
            id_base if number == 0 else f"{id_base}#{number + 1}",
            spec.mode == "shadow",
            missing=self.missing,
            max_wait_ns=self._max_wait_ns(text, algorithm, ("limit", index)),
            on_error=spec.on_error,
            settle=self._settle(),
            exempt=self.exempt,
            share=self.share_of(id_base),
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

    def _slots(self, most: InProgress, id_base: str, name: str) -> Limit:
        """The limit on requests in progress; each counts as one, whatever it costs."""
        algorithm, spec = Concurrency(most.requests), self.spec
        return Limit(
            Policy(name, algorithm.quota, algorithm.window_ns, at_a_time(most.requests)),
            algorithm,
            self.key_of(most),
            f"{id_base}#in-progress",
            spec.mode == "shadow",
            missing=self.missing,
            settle=Released(),
            on_error=spec.on_error,
            exempt=self.exempt,
            share=self.share_of(id_base),
        )

    def share_of(self, salt: str) -> Share | None:
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

    def key_of(self, text: Any) -> tuple[KeyPart, ...]:
        """What splits the traffic of a limit."""
        return tuple(self._part(part) for part in text.key or self.spec.key)

    def _part(self, part: KeyPart) -> KeyPart:
        """A part with what the rule and the file say of it."""
        part = replace(part, ipv6_prefix=self.spec.ipv6_prefix or self.client.ipv6_prefix)
        if part.kind == "user" and self.client.user:
            return replace(part, asked=self.client.user.asked)  # so that an async one is awaited in time
        return replace(part, any_case=self.any_case and part.kind == "path")

    @property
    def missing(self) -> Missing:
        """What happens to requests that lack a part of a key."""
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

    def _check_cost(self, text: Any, algorithm: Algorithm, rate: str, *, shuts_out: bool = False) -> None:
        cost, waits = self.spec.cost, bool(self._waiting(text))
        for place, message in cost_problems(cost, algorithm, rate, waits=waits, shuts_out=shuts_out):
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
            return apart(with_numbers(limit, algorithm_of(self._numbers(found)), found.rate), found)

        return read

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
        return holds(key, self.missing, self.spec.hosts)

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
