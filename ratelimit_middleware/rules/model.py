"""The rules as frozen values: what the file, a dict or Python code all end up as."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from typing import Literal, NamedTuple, TypeAlias

from ratelimit_middleware.client import Client
from ratelimit_middleware.errors import InvalidLimitError, RuleFileError, RuleProblem
from ratelimit_middleware.identity import KeyKind, KeyPart
from ratelimit_middleware.rules.answer import Answer, Responder
from ratelimit_middleware.rules.flow import FlowLimit
from ratelimit_middleware.rules.limit import Limit
from ratelimit_middleware.rules.request_list import RequestList
from ratelimit_middleware.rules.settle import Settle
from ratelimit_middleware.rules.tier_source import TierSource
from ratelimit_middleware.store_settings import StoreSettings

__all__ = [
    "Answer",
    "Client",
    "HeaderStyle",
    "HeadersOn",
    "Ignored",
    "KeyKind",
    "KeyPart",
    "Limit",
    "RequestList",
    "Responder",
    "Route",
    "Rule",
    "RuleSet",
    "Settle",
]

HeaderStyle: TypeAlias = Literal["draft-11", "draft-7", "draft-6", "legacy", "legacy-seconds"]
HeadersOn: TypeAlias = Literal["all", "refused"]
_PEERS = Client()
_ANSWER = Answer()
_FORBIDDEN = Answer(403)


@dataclass(frozen=True, slots=True)
class Route:
    """Which requests a rule is about.

    Attributes:
        pattern: the canonical spelling, `GET,POST /items/{id}`; also the value of the key part `route`.
        methods: upper-case methods, `WS` for WebSocket handshakes; None = all of them and handshakes.
        path: the path template in canonical spelling: `{id}`, `{id:int}`, `{rest:path}`, a final `/**`; or
            `~` and a regular expression for the whole path.
    """

    pattern: str
    methods: frozenset[str] | None
    path: str


@dataclass(frozen=True, slots=True)
class Rule:
    """What the file says about some requests.

    Attributes:
        name: unique in the file.
        routes: the requests it is about; empty for `always` and `default`.
        limits: all of them count, all or nothing; empty when `unlimited`.
        unlimited: the routes are taken out of `limits` and `default`.
        hosts: the hosts it is about, in lower case, `*.` for all below; empty = all.
        answer: what a client hears that a limit of this rule refuses; None = the rule set's.
        case_sensitive: whether its routes tell `/Items` from `/items`; None = as the rule set says.
        skip_preflight: whether it passes CORS preflights over; None = as the rule set says, and a rule of
            `always` counts them.
        since: the day on which a shadow rule began to watch, if the file says so.
        place: where it stands, for messages; empty when it was built in Python.
        flows: its limits on what flows within a request that has been admitted.
        relate: the routes whose requests use its limits up, which are `Related` then; its own take nothing.
        charges: what counts those.

    Raises:
        InvalidLimitError: `relate` and limits of `Related` stand without each other.
    """

    name: str
    routes: tuple[Route, ...] = ()
    limits: tuple[Limit, ...] = ()
    unlimited: bool = False
    answer: Answer | None = None
    hosts: tuple[str, ...] = ()
    case_sensitive: bool | None = None
    skip_preflight: bool | None = None
    since: date | None = None
    place: str = field(default="", compare=False)
    flows: tuple[FlowLimit, ...] = ()
    relate: tuple[Route, ...] = ()
    charges: tuple[Limit, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Make ready what counts requests of other routes."""
        charges = tuple(limit for limit in (own.charging() for own in self.limits) if limit)
        if (self.relate and len(charges) != len(self.limits)) or (charges and not self.relate):
            expected = "routes, and limits that are all `Related(...)`; or none of both"
            raise InvalidLimitError("relate", self.relate, expected)
        object.__setattr__(self, "charges", charges)

    @property
    def all_limits(self) -> tuple[Limit, ...]:
        """Those that count requests, and those on what flows."""
        return (*self.limits, *self.flows)


class Ignored(NamedTuple):
    """A warning that the author of the rules does not want to hear.

    Attributes:
        code: the warning's, such as `RL101`.
        rule: name of the rule that it is about; empty = any.
    """

    code: str
    rule: str = ""


@dataclass(frozen=True, slots=True)
class RuleSet:
    """All rules of a file.

    Attributes:
        limits: the rules with routes, `unlimited` ones included, in the order of the file.
        always: rules for every request, matched or not.
        default: the rule for requests that nothing else covers.
        store: where the counts live, and what is done when they cannot be reached.
        headers: which generations of the RateLimit fields are sent; empty = none.
        headers_on: on which responses: all, or refusals only.
        expose_cors: whether scripts of other origins may read these fields.
        answer: what a refused client hears, unless the rule that refuses has its own.
        source: where the rules come from, for messages.
        case_sensitive: whether `/Items` is another path than `/items`, for rules that do not say.
        skip_preflight: CORS preflights count under `always` only, and under rules that say so.
        ignored: warnings that are not given.
        client: who the client of a request is.
        deny: requests that are refused whatever the limits say.
        denied: what they hear.
        exempt: requests that pass uncounted, unless they are denied.
        tiers: tells the tier of a request.
        shadow: nothing is refused or delayed; what would have been is told as of shadow limits.
        shadow_header: whether clients are sent what shadow limits say.

    Raises:
        RuleFileError: two rules or policies have one name, or limits of one id have other numbers.
    """

    limits: tuple[Rule, ...] = ()
    always: tuple[Rule, ...] = ()
    default: Rule | None = None
    store: StoreSettings = field(default_factory=StoreSettings)
    headers: tuple[HeaderStyle, ...] = ("draft-11",)
    headers_on: HeadersOn = "all"
    expose_cors: bool = False
    answer: Answer = _ANSWER
    source: str = field(default="rules", compare=False)
    case_sensitive: bool = True
    skip_preflight: bool = True
    ignored: tuple[Ignored, ...] = ()
    client: Client = _PEERS
    deny: RequestList | None = None
    denied: Answer = _FORBIDDEN
    exempt: RequestList | None = None
    tiers: TierSource | None = None
    shadow: bool = False
    shadow_header: bool = False

    def __post_init__(self) -> None:
        """Refuse names that do not tell apart what they name."""
        problems = [RuleProblem(self.source, message) for message in _doubles(self.rules)]
        if problems:
            raise RuleFileError(problems)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """All rules, `always` first and `default` last."""
        return (*self.always, *self.limits, *((self.default,) if self.default else ()))

    def skips(self, rule: Rule) -> bool:
        """Whether a rule of this set passes CORS preflights over."""
        if rule.skip_preflight is not None:
            return rule.skip_preflight
        return self.skip_preflight and not any(rule is other for other in self.always)


def _doubles(rules: tuple[Rule, ...]) -> list[str]:
    """What is wrong with the names and ids of a set."""
    found: list[str] = []
    limits = [limit for rule in rules for limit in rule.all_limits]
    names = [("rule", rule.name) for rule in rules] + [("policy", limit.policy.name) for limit in limits]
    seen: set[tuple[str, str]] = set()
    for kind, name in names:
        if (kind, name) in seen:
            found.append(f"two of kind {kind} are named `{name}`: each needs its own name")
        seen.add((kind, name))
    first: dict[str, Limit] = {}
    for limit in limits:
        other = first.setdefault(limit.rule_id, limit)
        if (other.algorithm, other.key, other.shadow) != (limit.algorithm, limit.key, limit.shadow):
            found.append(f"two limits of the id `{limit.rule_id}` differ: a shared bucket has one limit")
    return found
