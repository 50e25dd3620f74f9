"""How much of a route a rule is about: `rules.match`, for all requests of a route at once."""

from __future__ import annotations

import re
from enum import IntEnum
from itertools import zip_longest

from ratelimit_middleware.frameworks.routes import AppRoute
from ratelimit_middleware.frameworks.template import Piece, pieces_of
from ratelimit_middleware.rules.entries import methods_of
from ratelimit_middleware.rules.hosts import matches
from ratelimit_middleware.rules.index import CONVERTERS
from ratelimit_middleware.rules.model import Route, Rule
from ratelimit_middleware.rules.route import REGEX, REST, fold, regexes

__all__ = ["Extent", "extent_of"]

_NARROWER = {"float": {"int"}}
"""Converters all of whose values another one takes too."""


class Extent(IntEnum):
    """How many of a route's requests a rule is about."""

    NONE = 0
    SOME = 1
    WHOLE = 2


def extent_of(rule: Rule, route: AppRoute, method: str, *, any_case: bool) -> Extent:
    """How many of the requests with `method` that a route serves a rule is about.

    Where it is hard to tell, the answer is `SOME`.

    Args:
        rule: the rule.
        route: the route of the app.
        method: upper case; `WS` for a handshake.
        any_case: whether the rule holds for other spellings in upper and lower case too.
    """
    hosts = _hosts(rule.hosts, route.host)
    kind = "websocket" if method == "WS" else "http"
    wanted = methods_of(kind, method)
    return max(
        (
            min(hosts, _path(one, route, any_case=any_case, unlimited=rule.unlimited))
            for one in rule.routes
            if one.methods is None or one.methods & wanted
        ),
        default=Extent.NONE,
    )


def _hosts(hosts: tuple[str, ...], served: str) -> Extent:
    if not hosts:
        return Extent.WHOLE
    host = re.sub(r":\d*$", "", served.lower()).removesuffix(".")
    if not host:
        return Extent.SOME
    if not re.search(r"[{<]", host):
        return Extent.WHOLE if matches(hosts, host) else Extent.NONE
    below = re.sub(r"^(\{[^}]*\}|<[^>]*>)", "x", host)
    wide = tuple(one for one in hosts if one.startswith("*"))
    is_below = bool(wide) and not re.search(r"[{<]", below) and matches(wide, below)
    return Extent.WHOLE if is_below else Extent.SOME


def _path(wanted: Route, route: AppRoute, *, any_case: bool, unlimited: bool) -> Extent:
    if wanted.path.startswith(REGEX):
        return _regex(wanted.path, route, any_case=any_case)
    ends_in_rest = wanted.path.endswith((f"/{REST}", ":path}"))
    slashes = (wanted.path.endswith("/"), route.path.endswith("/"))
    if unlimited and slashes == (False, True) and not ends_in_rest and route.path != "/":
        return Extent.NONE  # `unlimited` holds for the path as it is spelled only
    pieces = [Piece("rest") if piece.text == REST else piece for piece in pieces_of(wanted.path)]
    extent = Extent.WHOLE
    for ours, theirs in zip_longest(pieces, route.pieces):
        if ours and ours.kind == "rest":
            return extent
        if theirs and theirs.kind == "rest":
            return Extent.SOME
        if not (ours and theirs):
            return Extent.NONE
        extent = min(extent, _segment(ours, theirs, any_case=any_case))
        if extent is Extent.NONE:
            break
    return extent


def _regex(path: str, route: AppRoute, *, any_case: bool) -> Extent:
    """A path without parameters is tried; else only the text at the beginning of both can tell."""
    if all(piece.kind == "text" for piece in route.pieces):
        spellings = (fold(route.path), route.path)
        fit = any(fits(text) for fits in regexes(path, any_case=any_case) for text in spellings)
        return Extent.WHOLE if fit else Extent.NONE
    ours = _text_at_start(r"[^\\.^$*+?{}\[\]|()]*(?![*?{|])", path.removeprefix(REGEX).removeprefix("^"))
    theirs = _text_at_start(r"[^{<]*", route.path)
    if any_case:
        ours, theirs = ours.lower(), theirs.lower()
    alike = ours.startswith(theirs) or theirs.startswith(ours) or "|" in path
    return Extent.SOME if alike else Extent.NONE


def _text_at_start(pattern: str, text: str) -> str:
    found = re.match(pattern, text)
    return found[0] if found else ""


def _segment(ours: Piece, theirs: Piece, *, any_case: bool) -> Extent:
    """How many values of one segment of a route a segment of a rule takes."""
    if theirs.kind == "text" and ours.kind == "text":
        alike = ours.text.lower() == theirs.text.lower() if any_case else ours.text == theirs.text
        return Extent.WHOLE if alike else Extent.NONE
    if theirs.kind == "text":
        return Extent.WHOLE if CONVERTERS[ours.converter](theirs.text) else Extent.NONE
    if ours.kind == "text":
        return Extent.SOME if _may_be(theirs, ours.text, any_case=any_case) else Extent.NONE
    if ours.converter in ("str", theirs.converter) or theirs.converter in _NARROWER.get(ours.converter, ()):
        return Extent.WHOLE
    return Extent.SOME


def _may_be(theirs: Piece, text: str, *, any_case: bool) -> bool:
    """Whether a parameter of the app takes `text`."""
    if theirs.text:
        return bool(re.fullmatch(theirs.text, text, re.IGNORECASE if any_case else 0))
    return not theirs.converter or bool(CONVERTERS[theirs.converter](text))
