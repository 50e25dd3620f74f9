"""A limit as a frozen value, with what is made ready from it once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ratelimit_middleware.algorithms.base import Algorithm
from ratelimit_middleware.algorithms.concurrency import Concurrency
from ratelimit_middleware.algorithms.penalty import Strike
from ratelimit_middleware.algorithms.related import Related
from ratelimit_middleware.decision import Policy
from ratelimit_middleware.identity import KeyBuilder, KeyPart, Missing, key_builder, overflow_key
from ratelimit_middleware.overload.adaptive import Adaptive
from ratelimit_middleware.request import Asked, RequestView
from ratelimit_middleware.rules.request_list import RequestList
from ratelimit_middleware.rules.settle import Settle
from ratelimit_middleware.rules.shares import Share
from ratelimit_middleware.store_settings import OnError

__all__ = ["Limit", "Strikes"]

_NO_QUOTA = (Adaptive, Concurrency, Related)
"""Arithmetic that says nothing of how often somebody may come."""

_NO_MORE = frozenset({"ip", "global"})
"""Parts of a key that say no more of a request than the client's address."""


class Strikes(NamedTuple):
    """What a penalty counts.

    Attributes:
        algorithm: counts a refusal.
        counts: names of the policies whose refusals are counted.
    """

    algorithm: Strike
    counts: frozenset[str]


@dataclass(frozen=True, slots=True)
class Limit:
    """A number and a period, with the arithmetic that keeps it.

    Attributes:
        policy: how clients see it.
        algorithm: the arithmetic.
        key: what splits the traffic; never empty.
        rule_id: id of the limit; the first part of every key in a store. Only rules that share a bucket
            have limits of the same id.
        shadow: counted and reported, never refused.
        cost: permits that a request takes.
        cost_of: gives the cost where it depends on the request.
        missing: what happens when the request lacks a part of the key.
        max_wait_ns: how long a request may be delayed; 0 = it is refused instead.
        settle: what a request costs in the end; None = what was booked.
        choose: gives the limit that holds for a request instead, None for none; it differs in the
            numbers only.
        on_error: what is done when the store does not answer; None = what the file says.
        exempt: requests that are not counted.
        penalty: is checked with it; blocks clients that the rule has refused too often.
        strikes: of a penalty: what it counts.
        share: clients that it refuses; all others it only watches. None = all.
        chain: whether a request was reached in a way that counts; None = all count.
        charges: counts requests for a rule of another route, and never refuses; nobody is told of it.
        build_key: gives the key of a request's bucket.
        overflow: key of the bucket that new clients share when the store is full.
        watching: the same limit for clients that are not in its share.
        plain: nothing but the key depends on the request.
        by_address: and the key on the client's address alone.
        covers: with it checked, a request needs no `default`.
        by_route: the route that the app serves a request with is part of the key.
        sheds: it is about the state of the server, not about clients.
    """

    policy: Policy
    algorithm: Algorithm
    key: tuple[KeyPart, ...]
    rule_id: str
    shadow: bool = False
    cost: int = 1
    cost_of: Callable[[RequestView], int] | None = None
    missing: Missing = "ip"
    choose: Callable[[Limit, RequestView, str], Limit | None] | None = None
    max_wait_ns: int = 0
    settle: Settle | None = None
    on_error: OnError | None = None
    exempt: RequestList | None = None
    penalty: Limit | None = None
    strikes: Strikes | None = None
    share: Share | None = None
    charges: bool = False
    chain: Callable[[RequestView], bool] | None = None
    build_key: KeyBuilder = field(init=False, repr=False, compare=False)
    overflow: str = field(init=False, repr=False, compare=False)
    watching: Limit | None = field(init=False, repr=False, compare=False)
    plain: bool = field(init=False, repr=False, compare=False)
    by_address: bool = field(init=False, repr=False, compare=False)
    covers: bool = field(init=False, repr=False, compare=False)
    by_route: bool = field(init=False, repr=False, compare=False)
    sheds: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Make ready what does not depend on the request."""
        object.__setattr__(self, "build_key", key_builder(self.rule_id, self.key, self.missing))
        object.__setattr__(self, "overflow", overflow_key(self.rule_id))
        lets_pass = self.shadow or self.charges or isinstance(self.algorithm, _NO_QUOTA)
        object.__setattr__(self, "covers", not lets_pass)
        plain = (
            not (self.cost_of or self.choose or self.exempt or self.penalty or self.share or self.chain)
            and self.missing == "ip"
        )
        object.__setattr__(self, "plain", plain)
        object.__setattr__(self, "by_address", plain and {part.kind for part in self.key} <= _NO_MORE)
        watching = replace(self, share=None, shadow=True, penalty=None) if self.share else None
        object.__setattr__(self, "watching", watching)
        object.__setattr__(self, "sheds", isinstance(self.algorithm, Adaptive))
        object.__setattr__(self, "by_route", any(part.kind == "route" for part in self.key))

    def charging(self) -> Limit | None:
        """What counts requests of other routes for this limit; None if it counts its own.

        Such requests are never refused for it, also when the store is away or the key is not there.
        """
        if not isinstance(self.algorithm, Related):
            return None
        return replace(
            self,
            algorithm=self.algorithm.charged,
            charges=True,
            shadow=False,
            missing="skip" if self.missing == "deny" else self.missing,
            max_wait_ns=0,
            on_error="allow",
            settle=None,
            penalty=None,
            share=None,
        )

    def alternatives(self) -> tuple[Limit, ...]:
        """What may be checked in its place or beside it, as far as that is known beforehand."""
        chosen = getattr(self.choose, "alternatives", ())
        return (*chosen, *((self.penalty,) if self.penalty else ()))

    def awaited(self) -> tuple[Asked, ...]:
        """The functions whose answers must be awaited before the limit is checked."""
        asked = [getattr(self.cost_of, "asked", None), getattr(self.choose, "asked", None)]
        asked += [part.asked for part in self.key]
        return tuple(one for one in asked if isinstance(one, Asked) and one.awaited)
