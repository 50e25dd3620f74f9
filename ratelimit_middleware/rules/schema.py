"""The shape of the rule file. pydantic finds everything that is wrong with it at once.

Loaded only when rules are. Validators answer in the words of the file (`GrammarError`); pydantic's own
findings are put into them by `misfits`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    model_validator,
)

from ratelimit_middleware.rules.adaptive_spec import AdaptiveSpec, check_adaptive
from ratelimit_middleware.rules.bandwidth import Bandwidth
from ratelimit_middleware.rules.behaviors import QUEUES, check_idle, check_single, check_together
from ratelimit_middleware.rules.chain_spec import ENTRANCE, check_chain, read_entrance
from ratelimit_middleware.rules.charge_spec import CHARGE, COST, Cost, check_charge, read_charge, read_cost
from ratelimit_middleware.rules.charges import Charged
from ratelimit_middleware.rules.client_spec import ClientSpec, Ipv6Prefix, MissingWord
from ratelimit_middleware.rules.document import BROKEN
from ratelimit_middleware.rules.fields import (
    read_flag,
    read_mode,
    read_name,
    read_route,
    read_status,
    read_version,
)
from ratelimit_middleware.rules.flow_spec import Messages, WhenOver, check_flows
from ratelimit_middleware.rules.grammar import AskedText, LimitText
from ratelimit_middleware.rules.hosts import read_host
from ratelimit_middleware.rules.limit_spec import (
    Behavior,
    Key,
    LimitSpec,
    LongLimitSpec,
    Timezone,
    WarmUp,
)
from ratelimit_middleware.rules.lint_spec import LintSpec, Since
from ratelimit_middleware.rules.lists_spec import DenySpec, ListSpec
from ratelimit_middleware.rules.model import KeyPart
from ratelimit_middleware.rules.penalty_spec import PenaltySpec
from ratelimit_middleware.rules.queue_spec import Concurrent, Queue, QueueSpec
from ratelimit_middleware.rules.relate_spec import check_relate
from ratelimit_middleware.rules.response_spec import RefusalSpec, ResponseSpec
from ratelimit_middleware.rules.rule_fields import (
    read_include,
    read_override,
    read_place,
    read_preflight,
    read_rule_method,
    read_unmatched_routes,
)
from ratelimit_middleware.rules.shadow_spec import Enforced, FileMode
from ratelimit_middleware.rules.slots_only import check_slots_only
from ratelimit_middleware.rules.spec import Spec
from ratelimit_middleware.rules.store_spec import StoreSpec, read_on_error
from ratelimit_middleware.rules.tier_spec import RULE_TIERS, TiersSpec, read_rule_tiers
from ratelimit_middleware.rules.tiers import TierValue
from ratelimit_middleware.rules.values import (
    FLAG,
    HOST,
    LIMITS,
    METHOD,
    MODE,
    NAME,
    ON_ERROR,
    PLACE,
    ROUTE,
    STATUS,
    STORE,
    VERSION,
    Json,
    ShortForm,
    as_list,
    choice,
    plain,
    text,
)
from ratelimit_middleware.rules.words import GrammarError
from ratelimit_middleware.store_settings import OnError

__all__ = ["FileSpec", "PlacedLimit", "RuleSpec", "numbered"]

PlacedLimit: TypeAlias = tuple[int, "LimitText | AskedText | LongLimitSpec"]
"""A limit and its index in the list of its rule."""

_Name: TypeAlias = Annotated[str, plain(read_name, NAME)]
_ENOUGH = ("limit", "concurrency", "messages", "bandwidth", "adaptive")
_Route: TypeAlias = Annotated[str, plain(read_route, ROUTE)]
_Place: TypeAlias = Annotated[str, plain(read_place, PLACE)]
_Override: TypeAlias = Annotated[str, plain(read_override, text(".+", "A value of the key; globs allowed."))]
_Mode: TypeAlias = Literal["enforce", "shadow", "none"]
_CaseSensitive: TypeAlias = Annotated[bool, plain(read_flag("case_sensitive"), FLAG)]
_Preflight: TypeAlias = Annotated[
    Literal["skip", "count"],
    plain(read_preflight, choice(("skip", "count"), "Whether CORS preflights count.")),
]


def numbered(value: Any) -> Any:
    """A list as a map from its indexes; a single value as a list of one."""
    if value is BROKEN:
        return {}
    if isinstance(value, dict) and all(isinstance(key, int) for key in value):
        return value
    return dict(enumerate(value if isinstance(value, list) else [value]))


class RuleSpec(Spec):
    """One rule; a text or a list stands for its `limit`."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": [key]} for key in _ENOUGH]})

    limit: Annotated[list[LimitSpec], Field(min_length=1), as_list] = Field(default_factory=list)
    name: _Name | None = None
    key: Key = (KeyPart("ip"),)
    behavior: Behavior = "reject"
    warm_up: WarmUp | None = None
    queue: Queue | None = None
    concurrency: Concurrent | None = None
    mode: Annotated[_Mode, plain(read_mode, MODE)] = "enforce"
    status: Annotated[int, plain(read_status, STATUS)] | None = None
    response: RefusalSpec | None = None
    trusted: Annotated[bool, plain(read_flag("trusted"), FLAG)] = False
    timezone: Timezone | None = None
    missing: MissingWord | None = None
    ipv6_prefix: Ipv6Prefix | None = None
    cost: Annotated[Cost, plain(read_cost, COST)] = 1
    charge: Annotated[Charged | None, plain(read_charge, CHARGE)] = None
    overrides: dict[_Override, LimitSpec] = Field(default_factory=dict)
    routes: Annotated[list[_Route], Field(min_length=1), as_list] = Field(default_factory=list)
    methods: Annotated[
        list[Annotated[str, plain(read_rule_method, METHOD)]], Field(min_length=1), as_list
    ] = Field(default_factory=list)
    hosts: Annotated[list[Annotated[str, plain(read_host, HOST)]], Field(min_length=1), as_list] = Field(
        default_factory=list
    )
    bucket: _Name | None = None
    case_sensitive: _CaseSensitive | None = None
    preflight: _Preflight | None = None
    since: Since | None = None
    on_error: Annotated[OnError, plain(read_on_error, ON_ERROR)] | None = None
    exempt: ListSpec | None = None
    penalty: PenaltySpec | None = None
    enforce: Enforced | None = None
    tiers: Annotated[dict[str, TierValue] | None, plain(read_rule_tiers, RULE_TIERS)] = None
    messages: Messages | None = None
    on_excess: WhenOver | None = None
    adaptive: AdaptiveSpec | None = None
    chain: Annotated[list[Annotated[str, plain(read_entrance, ENTRANCE)]], Field(min_length=1), as_list] = (
        Field(default_factory=list)
    )
    relate: Annotated[list[_Route], Field(min_length=1), as_list] = Field(default_factory=list)
    bandwidth: Bandwidth | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> RuleSpec:
        """Refuse keys that would have no effect."""
        check_adaptive(self)
        check_flows(self)
        if not self.limit and self.concurrency:
            check_slots_only(self)
        check_idle(self)
        check_together(self)
        check_charge(self)
        check_relate(self)
        check_chain(self)
        if self.status and self.response and "status" in self.response.model_fields_set:
            raise GrammarError("`status` stands here and in `response`: leave one out", "status")
        if self.since and self.mode != "shadow":
            raise GrammarError(
                "`since` is the day on which a `mode: shadow` rule began: leave it out", "since"
            )
        if self.unlimited:
            self._stands_alone()
            return self
        limits = [limit for _, limit in self.placed_limits]
        check_single(self, limits, overrides=bool(self.overrides))
        if self.timezone and not any(_by_calendar(limit) for _, limit in self.placed_limits):
            raise GrammarError(
                "`timezone` has no effect here: it is for windows of the calendar, such as `100/month`",
                "timezone",
            )
        for value, limit in self.overrides.items():
            if isinstance(limit, tuple) and len(limit) > 1:
                raise GrammarError(f"an override is a single limit, not `{len(limit)}` of them", "overrides")
            if any(getattr(part, "key", None) for part in self.forms(limit)):
                raise GrammarError(
                    f"the override for `{value}` has a key of its own: the key is that of the first limit",
                    "overrides",
                )
        return self

    def _stands_alone(self) -> None:
        where = {"limit", "name", "routes", "methods", "hosts", "case_sensitive"}
        idle = sorted(self.model_fields_set - where)
        if self.placed_limits:
            raise GrammarError("`unlimited` stands alone: it cannot be one of several limits", "limit")
        if idle and self.mode != "none":
            raise GrammarError(
                f"`unlimited` counts nothing, so `{idle[0]}` has no effect: leave it out", idle[0]
            )

    @property
    def waiting(self) -> QueueSpec | None:
        """The bounds of the queue; None where nobody waits."""
        return (self.queue or QueueSpec()) if self.behavior in QUEUES else None

    @property
    def unlimited(self) -> bool:
        """Whether the word `unlimited` is among the limits."""
        return any(isinstance(limit, str) for part in self.limit for limit in self.forms(part))

    @property
    def placed_limits(self) -> tuple[PlacedLimit, ...]:
        """The limits with their index in the list (a text may hold several)."""
        return tuple(
            (index, limit)
            for index, part in enumerate(self.limit)
            for limit in self.forms(part)
            if not isinstance(limit, str)
        )

    @staticmethod
    def forms(part: LimitSpec) -> tuple[Any, ...]:
        """The limits of one item of the list."""
        return part if isinstance(part, tuple) else (part,)


def _by_calendar(limit: LimitText | AskedText | LongLimitSpec) -> bool:
    if isinstance(limit, LongLimitSpec):
        return limit.word == "fixed_window"
    return isinstance(limit, AskedText) or limit.by_calendar


class _Numbered:
    """Annotates a list of rules, kept by its indexes so that a wrong one can be taken out."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> Any:
        """Number the items first."""
        return BeforeValidator(numbered).__get_pydantic_core_schema__(source, handler)

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> Json:
        """A rule, or a list of rules."""
        rule = handler(core)["additionalProperties"]
        return {"anyOf": [rule, {"type": "array", "items": rule}]}


_Rule: TypeAlias = Annotated[RuleSpec, ShortForm("limit", LIMITS)]


class FileSpec(Spec):
    """The whole file."""

    version: Annotated[int, plain(read_version, VERSION)] = 1
    include: Annotated[
        list[Annotated[str, plain(read_include, text(".+", "A file, relative to this one; globs allowed."))]],
        as_list,
    ] = Field(default_factory=list)
    store: Annotated[StoreSpec, ShortForm("url", STORE)] = StoreSpec()
    limits: dict[_Place, _Rule] = Field(default_factory=dict)
    default: _Rule | None = None
    always: Annotated[dict[int, _Rule], _Numbered()] = Field(default_factory=dict)
    client: ClientSpec = ClientSpec()
    response: ResponseSpec = ResponseSpec()
    lint: LintSpec = LintSpec()
    deny: DenySpec | None = None
    exempt: ListSpec | None = None
    tiers: TiersSpec | None = None
    mode: FileMode = "enforce"
    timezone: Timezone | None = None
    case_sensitive: _CaseSensitive = True
    preflight: _Preflight = "skip"
    unmatched_routes: Annotated[
        Literal["limit", "skip"],
        plain(
            read_unmatched_routes,
            choice(("limit", "skip"), "Whether requests without a route of your app count under `default`."),
        ),
    ] = "limit"
