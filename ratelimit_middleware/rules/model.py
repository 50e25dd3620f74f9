"""The rules as frozen values: what the file, a dict or Python code all end up as."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ratelimit_middleware.algorithms.base import Algorithm
from ratelimit_middleware.decision import Policy
from ratelimit_middleware.identity import KeyKind, KeyPart

__all__ = ["HeaderStyle", "KeyKind", "KeyPart", "Limit", "Route", "Rule", "RuleSet"]

HeaderStyle: TypeAlias = Literal["draft-11", "legacy"]


@dataclass(frozen=True, slots=True)
class Limit:
    """A number and a period, with the arithmetic that keeps it.

    Attributes:
        policy: how clients see it.
        algorithm: the arithmetic.
        key: what splits the traffic; never empty.
        rule_id: unique id of the limit in its rule set; the first part of every key in a store.
        shadow: counted and reported, never refused.
    """

    policy: Policy
    algorithm: Algorithm
    key: tuple[KeyPart, ...]
    rule_id: str
    shadow: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """Which requests a rule is about.

    Attributes:
        pattern: the canonical spelling, `GET,POST /items/{id}`; also the value of the key part `route`.
        methods: upper-case methods, `WS` for WebSocket handshakes; None = all of them and handshakes.
        path: the path template in canonical spelling: `{id}`, `{id:int}`, `{rest:path}`, a final `/**`.
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
    """

    name: str
    routes: tuple[Route, ...] = ()
    limits: tuple[Limit, ...] = ()
    unlimited: bool = False


@dataclass(frozen=True, slots=True)
class RuleSet:
    """All rules of a file.

    Attributes:
        limits: the rules with routes, `unlimited` ones included, in the order of the file.
        always: rules for every request, matched or not.
        default: the rule for requests that nothing else covers.
        store_url: where the counts live.
        headers: which generations of the RateLimit fields are sent; empty = none.
        source: where the rules come from, for messages.
    """

    limits: tuple[Rule, ...] = ()
    always: tuple[Rule, ...] = ()
    default: Rule | None = None
    store_url: str = "memory://"
    headers: tuple[HeaderStyle, ...] = ("draft-11",)
    source: str = field(default="rules", compare=False)
