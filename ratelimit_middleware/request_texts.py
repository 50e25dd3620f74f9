"""The texts of a request, read as its standards have them: paths, hosts, queries, cookies, users."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

__all__ = ["cookie_of", "fold", "host_of", "identity_of", "parameter_of", "path_of", "without_root"]

_IDENTITY = ("identity", "id", "sub", "username", "display_name")


def fold(path: str) -> str:
    """The plain spelling: no doubled slashes, dot segments (RFC 3986, 5.2.4) or trailing slash.

    One trailing newline goes too: routers whose pattern ends in `$` let it pass.
    """
    kept: list[str] = []
    for segment in path.removesuffix("\n").split("/"):
        if segment == "..":
            del kept[-1:]
        elif segment not in ("", "."):
            kept.append(segment)
    return "/" + "/".join(kept)


def without_root(path: str, root: str) -> str:
    """A path below the place where the app is mounted."""
    return path[len(root) :] if root and (path == root or path.startswith(root + "/")) else path


def path_of(url: str) -> str:
    """The path of a whole URL, as a client may send it to a proxy."""
    try:
        return urlsplit(url).path
    except ValueError:  # brackets that are none of IPv6
        return url


def host_of(text: str) -> str:
    """A `Host` header (RFC 9110, 7.2) without port; the brackets of an IPv6 address stay."""
    name, colon, port = text.strip().lower().rpartition(":")
    if not colon or not (port.isdecimal() or not port) or (":" in name and not name.endswith("]")):
        name = text.strip().lower()
    return name.removesuffix(".")


def parameter_of(query: str, name: str) -> str | None:
    """All values of a query parameter, joined; None if it is not there."""
    values = [value for key, value in parse_qsl(query, keep_blank_values=True) if key == name]
    return ", ".join(values) if values else None


def cookie_of(header: str, name: str) -> str | None:
    """Read as RFC 6265, 4.2 has it, without decoding."""
    pairs = [pair.partition("=") for pair in header.split(";")]
    values = [value.strip() for key, mark, value in pairs if mark and key.strip() == name]
    return ", ".join(values) if values else None


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
