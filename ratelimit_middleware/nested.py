"""Instances of the middleware inside each other: fields are told once, and each rule counts once."""

from __future__ import annotations

from typing import Any, TypeAlias

from ratelimit_middleware.decision import Verdict
from ratelimit_middleware.stores.base import Check

__all__ = ["TOLD", "Told", "has_asked", "is_tighter", "told_of", "withdraw"]

TOLD = "ratelimit_middleware.told"
"""Where a middleware leaves its `Told` in the scope or environ, for an instance further in. Whatever a client
sends becomes a text there, never a `Told`."""

Told: TypeAlias = "tuple[Verdict, list[Any], object, list[Check], Told | None]"
"""What one instance has done about a request, for the instances further in; a plain tuple, because each
request makes one and hardly any looks into it:

- what it decided, or one around it that is closer to a refusal;
- the fields that are about to be added to the response, as its server wants them; an instance further in that
  is closer to a refusal puts its own in their place, so that the client sees them once;
- where its counts live;
- what it has asked the store, as far as no instance further in has used it up;
- what the instance around it has done.
"""


def told_of(outer: Told, verdict: Verdict, fields: list[Any], place: object) -> Told:
    """What an instance leaves that is inside another; it adds its fields itself if they are in there.

    Args:
        outer: what the instance around it has done.
        verdict: what it decided.
        fields: what it wants to add to the response.
        place: where its counts live.
    """
    tightest, outer_fields, *_ = outer
    if not outer_fields:
        return (verdict, fields, place, [*verdict.asked], outer)
    if fields and is_tighter(verdict, tightest):
        tightest = verdict
        outer_fields[:] = fields
    return (tightest, outer_fields, place, [*verdict.asked], outer)


def withdraw(told: Told | None) -> None:
    """Nothing is to be added to the response any more: it is a refusal of an instance further in."""
    if told is not None:
        told[1].clear()


def has_asked(told: Told | None, place: object, check: Check) -> bool:
    """Whether an instance further out has asked the same of the same store; uses that up.

    Only once, so that an app that sends a request to itself again is counted again.
    """
    while told is not None:
        _, _, its_place, asked, told = told
        if its_place == place:
            try:
                asked.remove(check)
            except ValueError:
                continue
            return True
    return False


def is_tighter(verdict: Verdict, other: Verdict) -> bool:
    """Whether a client has less left under `verdict` than under `other`, both admitted."""
    mine, its = verdict.binding, other.binding
    if mine is None or its is None:
        return mine is not None
    return mine.decision.share_left < its.decision.share_left
