"""The texts of a request, read as its standards have them: paths, hosts, queries, cookies, users."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlparse

__all__ = [
    "Doubtful",
    "cookie_of",
    "fold",
    "has_dots",
    "host_of",
    "identity_of",
    "joined",
    "parameter_of",
    "path_of",
    "readings",
    "squeezed",
    "unquoted",
    "without_root",
]

_IDENTITY = ("identity", "id", "sub", "username", "display_name")
_DOTS = frozenset({".", ".."})
_HOST = re.compile(r"(?P<name>[a-z0-9_.-]+|\[[0-9a-f:.]+\])(?::[0-9]+)?")
_ESCAPED = re.compile(r"\\(?:(?P<octal>[0-3][0-7]{2})|(?P<plain>.))", re.DOTALL)
_NAME = re.compile(r"\[[^\]]*\]|[^\[:]*")


class Doubtful(str):
    """A text that routers read in more than one way.

    Attributes:
        others: what it may mean besides.
    """

    __slots__ = ("others",)
    others: tuple[str, ...]

    def __new__(cls, text: str, *others: str) -> Doubtful:
        """The text, and what it may mean besides."""
        made = super().__new__(cls, text)
        made.others = others
        return made


def readings(text: str) -> tuple[str, ...]:
    """All that a text may mean; a plain one means itself."""
    return (text, *text.others) if isinstance(text, Doubtful) else (text,)


def fold(path: str) -> str:
    """The plain spelling: no doubled slashes, dot segments (RFC 3986, 5.2.4) or trailing slash.

    One trailing newline goes too: routers whose pattern ends in `$` let it pass.
    """
    if path[:1] == "/" and path[-1] not in "/\n" and "//" not in path and "/." not in path:
        return path  # as nearly all are
    kept: list[str] = []
    for segment in path.removesuffix("\n").split("/"):
        if segment == "..":
            del kept[-1:]
        elif segment not in ("", "."):
            kept.append(segment)
    return "/" + "/".join(kept)


def squeezed(path: str) -> str:
    """The plain spelling but for dot segments, which few routers resolve."""
    kept = [segment for segment in path.removesuffix("\n").split("/") if segment]
    return "/" + "/".join(kept)


def has_dots(path: str) -> bool:
    """Whether a path has dot segments."""
    return "/." in path and not _DOTS.isdisjoint(path.removesuffix("\n").split("/"))


def without_root(path: str, root: str) -> str:
    """A path below the place where the app is mounted.

    Where the root leads a path without a slash behind it (`/shopitems` under `/shop`) some routers take it
    off all the same (Quart, Django, Litestar).
    """
    if not root or not path.startswith(root):
        return path
    rest = path[len(root) :]
    return rest if not rest or rest[0] == "/" else Doubtful(path, f"/{rest}")


def path_of(url: str) -> str:
    """The path of a whole URL, as a client may send it to a proxy.

    Without what stands behind `;` in its last segment: so Quart reads it, the one router that takes URLs.
    """
    try:
        return urlparse(url).path
    except ValueError:  # brackets that are none of IPv6
        return url


def host_of(text: str) -> str:
    """A `Host` header (RFC 9110, 7.2) without port; the brackets of an IPv6 address stay.

    What is no such header some frameworks read all the same: the first of several lines, without what stands
    before `@` or behind `/`, as in a URL, up to the first colon, with or without the final dot. To others it
    is no host. It is `Doubtful` then.
    """
    whole = text.strip().lower()
    found = _HOST.fullmatch(whole)
    if found and not found["name"].endswith("."):
        return found["name"]
    first = whole.partition(",")[0]
    as_in_url = re.split(r"[/?#\\]", first, maxsplit=1)[0].rpartition("@")[2]
    return Doubtful(*dict.fromkeys([*map(_name, (as_in_url, first, whole)), ""]))


def _name(host: str) -> str:
    """Up to the port, or what looks like one."""
    return _NAME.match(host)[0].strip().removesuffix(".")  # type: ignore[index]  # it matches nothing, too


def parameter_of(query: str, name: str) -> str | None:
    """All values of a query parameter, joined; None if it is not there."""
    values = [value for key, value in parse_qsl(query, keep_blank_values=True) if key == name]
    return joined(values)


def cookie_of(header: str, name: str) -> str | None:
    """Read as RFC 6265, 4.2 has it, without decoding."""
    pairs = [pair.partition("=") for pair in header.split(";")]
    values = [value.strip() for key, mark, value in pairs if mark and key.strip() == name]
    return joined(values)


def unquoted(cookie: str) -> str:
    """The value of a cookie as frameworks read it: without its quotes, and with what is escaped in them."""
    if len(cookie) < 2 or not cookie[0] == cookie[-1] == '"':
        return cookie
    return _ESCAPED.sub(_unescaped, cookie[1:-1])


def _unescaped(found: re.Match[str]) -> str:
    return chr(int(found["octal"], 8)) if found["octal"] else found["plain"]


def joined(values: Sequence[str]) -> str | None:
    """All values of a name; several are `Doubtful`: some frameworks take the first, others the last."""
    if len(values) < 2:
        return values[0] if values else None
    return Doubtful(", ".join(values), *values)


def identity_of(user: Any) -> str | None:
    """The id of a `scope["user"]`: a text, a dict, or an object as Starlette and others make them."""
    if isinstance(user, str):
        return user or None
    if user is None or not getattr(user, "is_authenticated", True):
        return None
    for name in _IDENTITY:
        try:
            value = user.get(name) if isinstance(user, Mapping) else getattr(user, name, None)
        except NotImplementedError:  # Starlette's SimpleUser has a name but no identity
            continue
        if isinstance(value, (str, int)) and not isinstance(value, bool) and value != "":
            return str(value)
    return None
