"""Routes of the rule file: `GET,POST /items/{id}`, `GET ~/items/[0-9]+`, and the two spellings of a path.

Flask's `<int:id>` is read as `{id:int}`. Templates and request paths are folded by the same function,
so no spelling of a path that an app may answer escapes its rule.
"""

from __future__ import annotations

import re

from ratelimit_middleware.identity import REGISTERED_METHODS
from ratelimit_middleware.request_texts import fold
from ratelimit_middleware.rules.char_sets import overlap
from ratelimit_middleware.rules.engines import Fits, compiled
from ratelimit_middleware.rules.linear import first
from ratelimit_middleware.rules.model import Route
from ratelimit_middleware.rules.pattern import in_lower_case, parse_pattern
from ratelimit_middleware.rules.route_hints import looks_like_expression, meant_route
from ratelimit_middleware.rules.words import GrammarError, not_yet, reads, shown, unknown

__all__ = [
    "CONVERTERS",
    "REGEX",
    "REST",
    "fold",
    "parse_route",
    "read_method",
    "regexes",
    "segments",
]

REGEX = "~"
"""The mark in front of a path that is a regular expression."""

REST = "**"
"""The last segment of a template that takes the rest of the path, none included."""

CONVERTERS = ("str", "int", "float", "uuid", "path")

_FLASK_NAMES = {"string": "str", "default": "str"}
# fmt: off
_METHODS = REGISTERED_METHODS | {"WS"}
_COMMON_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "WS")
_MAX_ROUTE = 500
_SLASH = ((ord("/"), ord("/")),)

_METHODS_AND_PATH = re.compile(r"(?P<methods>[^/~\s,]*(?:\s*,(?:\s*[^/~\s,]+)?)*)\s+(?P<path>\S.*)")
_ADDRESS = re.compile(r"https?://(?P<host>[^/:]+)(?::[0-9]+)?(?P<path>/\S*)?")
_BRACES = re.compile(r"\{(?P<name>[^{}<>:]*)(?::(?P<converter>[^{}<>]*))?\}")
_ANGLES = re.compile(r"<(?:(?P<converter>[^{}<>]*):)?(?P<name>[^{}<>:]*)>")


def parse_route(text: str) -> Route:
    """Read `[METHOD[,METHOD]] /path/{template}`, or the same with `~` and a regular expression.

    Raises:
        GrammarError: the text is not a route, or one that is not supported.
    """
    text = text.strip()
    if len(text) > _MAX_ROUTE:
        raise GrammarError(f"a route of {len(text)} characters is too long: {_MAX_ROUTE} are allowed")
    try:
        return _route(text)
    except GrammarError:
        meant = meant_route(text)
        if meant == text or not reads(_route, meant):
            raise
        raise GrammarError(f"{shown(text)} is not a route: write {shown(meant)}") from None


def _route(text: str) -> Route:
    methods, path = _split(text)
    address = _ADDRESS.fullmatch(path)
    if address:
        plain, host = shown(address["path"] or "/"), address["host"]
        raise GrammarError(f"a route has no host: write {plain}, and `hosts: [{host}]` below it")
    if path.startswith(REGEX):
        template = _regex(path)
    elif path.startswith("/"):
        template = _template(path)
    else:
        raise GrammarError(f"the path {shown(path)} must begin with `/`: a route is `/items` or `GET /items`")
    named = ",".join(sorted(methods)) + " " if methods else ""
    return Route(named + template, methods, template)


def _split(text: str) -> tuple[frozenset[str] | None, str]:
    found = None if text.startswith(("/", "~")) else _METHODS_AND_PATH.fullmatch(text)
    if not found:
        return None, text
    return frozenset(read_method(word.strip()) for word in found["methods"].split(",")), found["path"]


def read_method(word: str) -> str:
    """One method in front of a path, or `WS`.

    Raises:
        GrammarError: it is not a registered method in capitals.
    """
    if word in _METHODS:
        return word
    if not word:
        raise GrammarError("an empty method: write `GET,POST /items`, or only the path for all methods")
    if word.upper() in _METHODS:
        raise GrammarError(f"methods are written in capitals: {shown(word.upper())}, not {shown(word)}")
    raise GrammarError(unknown("method", word, _COMMON_METHODS))


def _regex(path: str) -> str:
    """The path as it is, once it is known to fit some path."""
    _check_decoded(path)
    text = path.removeprefix(REGEX)
    regexes(path, any_case=False)
    if not overlap(first(parse_pattern(text)), _SLASH):
        anywhere = f"{REGEX}.*{text.removeprefix('^')}"
        raise GrammarError(
            f"the regular expression {shown(text)} fits no path: it is compared with the whole path, which"
            f" begins with `/`; write {shown(anywhere)} for any path that ends so"
        )
    return path


def regexes(path: str, *, any_case: bool) -> list[Fits]:
    """What compares with a regular expression after `~`: one comparison must succeed.

    Args:
        path: of a route.
        any_case: whether the lower-case spelling of a text is compared, too.

    Raises:
        GrammarError: the expression cannot be read, or no engine does it in linear time.
    """
    text = path.removeprefix(REGEX)
    try:
        pattern = parse_pattern(text)
        spellings = {pattern, in_lower_case(pattern)} if any_case else {pattern}
        return [compiled(one) for one in spellings]
    except GrammarError as error:
        raise GrammarError(f"the regular expression {shown(text)} cannot be used: {error}") from None


def _check_decoded(path: str) -> None:
    if re.search("%[0-9A-Fa-f]{2}", path):
        raise GrammarError(f"the path {shown(path)} is percent-encoded: write the characters themselves")


def _template(path: str) -> str:
    _check_decoded(path)
    if re.search("[?#]", path):
        raise GrammarError(f"the path {shown(path)} has a query or fragment: a route ends before `?` and `#`")
    if re.search(r",\s*/", path):
        raise GrammarError(f"{shown(path)} is two paths: give the rule a name and write `routes: [/a, /b]`")
    last = path.split()[-1].strip("[](),")
    if last in _METHODS:
        raise GrammarError(f"the method stands before the path: `{last} /items`, not {shown(path)}")
    parts = [_segment(part) for part in path[1:].split("/")]
    for part in parts[:-1]:
        if part == REST:
            raise GrammarError(f"`/**` stands at the end only, not inside {shown(path)}")
        if part.endswith(":path}"):
            raise GrammarError(not_yet(f"{shown(part)} before the end of a path"))
    return "/" + "/".join(parts)


def _segment(text: str) -> str:
    """A segment in canonical spelling."""
    found = _BRACES.fullmatch(text) or _ANGLES.fullmatch(text)
    if found:
        return _parameter(text, found["name"].strip(), (found["converter"] or "str").strip())
    if text == "*" or ("*" in text and text != REST):
        raise GrammarError(
            f"{shown(text)} is no part of a path: `{{name}}` is one segment, a final `/**` the rest"
        )
    if looks_like_expression(text):
        raise GrammarError(
            f"{shown(text)} would be taken literally: for a regular expression write `~` before the path,"
            " `~/v[0-9]+/items`"
        )
    if text.startswith(":") or re.fullmatch(r"\[\w+\]", text):
        name = text.strip(":[]")
        raise GrammarError(f"{shown(text)} would be taken literally: write `{{{name}}}` for any segment")
    if re.search(r"[{}<>]", text):
        whole = _BRACES.search(text) or _ANGLES.search(text)
        if whole:
            raise GrammarError(
                not_yet(f"a parameter beside text, {shown(text)},", "write `{name}` for the segment")
            )
        raise GrammarError(f"{shown(text)} has a bracket without its pair: write `{{name}}`")
    return text


def _parameter(text: str, name: str, converter: str) -> str:
    converter = _FLASK_NAMES.get(converter, converter)
    if not name.isidentifier():
        raise GrammarError(f"{shown(text)} has no name: write `{{name}}` or `{{name:int}}`")
    if converter not in CONVERTERS:
        raise GrammarError(f"{unknown('converter', converter, CONVERTERS)}; `{{{name}}}` takes any segment")
    return f"{{{name}}}" if converter == "str" else f"{{{name}:{converter}}}"


def segments(path: str) -> list[str]:
    """The segments of a path; none for `/`."""
    return [] if path == "/" else path.removeprefix("/").split("/")
