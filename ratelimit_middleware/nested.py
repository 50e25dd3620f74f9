"""Instances of the middleware inside each other: fields are told once, and each rule counts once."""

from __future__ import annotations

from typing import Any, NamedTuple

from ratelimit_middleware.decision import Outcome, Verdict
from ratelimit_middleware.stores.base import Check

__all__ = ["TOLD", "Told", "has_asked", "is_tighter", "told_of"]

TOLD = "ratelimit_middleware.told"
"""Where a middleware leaves its `Told` in the scope or environ, for an instance further in. Whatever a client
sends becomes a text there, never a `Told`."""

_new = tuple.__new__
"""Past the constructors of named tuples, which cost several times what they do."""


class Told(NamedTuple):
    """What one instance has done about a request, for the instances further in.

    Attributes:
        verdict: what it decided, or one around it that is closer to a refusal.
        fields: what is about to be added to the response, as its server wants it; an instance further in
            that is closer to a refusal puts its own in their place, so that the client sees them once.
        place: where its counts live.
        asked: what it has asked the store, as far as no instance further in has used it up.
        outer: what the instance around it has done.
    """

    verdict: Verdict
    fields: list[Any]
    place: object
    asked: list[Check]
    outer: Told | None


def told_of(outer: Told | None, verdict: Verdict, fields: list[Any], place: object) -> tuple[Told, bool]:
    """What an instance leaves for those further in, and whether it adds the fields itself.

    Args:
        outer: what the instance around it has done.
        verdict: what it decided.
        fields: what it wants to add to the response.
        place: where its counts live.
    """
    if outer is None or not outer.fields:
        return _new(Told, (verdict, fields, place, verdict.asked, outer)), bool(fields)
    tightest = outer.verdict
    if fields and is_tighter(verdict, tightest):
        tightest = verdict
        outer.fields[:] = fields
    return _new(Told, (tightest, outer.fields, place, verdict.asked, outer)), False


def has_asked(told: Told | None, place: object, check: Check) -> bool:
    """Whether an instance further out has asked the same of the same store; uses that up.

    Only once, so that an app that sends a request to itself again is counted again.
    """
    while told is not None:
        if told.place == place:
            try:
                told.asked.remove(check)
            except ValueError:
                pass
            else:
                return True
        told = told.outer
    return False


def is_tighter(verdict: Verdict, other: Verdict) -> bool:
    """Whether a client has less left under `verdict` than under `other`, both admitted."""
    if verdict.binding is None or other.binding is None:
        return verdict.binding is not None
    return _share_left(verdict.binding) < _share_left(other.binding)


def _share_left(outcome: Outcome) -> float:
    return outcome.decision.remaining / outcome.decision.limit
