"""What an app's own responder gives, made into an answer that can be sent, or refused as nonsense.

Sources: RFC 9110 (field names, field values, statuses without a body) and PEP 3333 (no hop-by-hop fields).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ratelimit_middleware.headers import Field
from ratelimit_middleware.request import RequestView
from ratelimit_middleware.responses import Refusal

__all__ = ["replaced"]

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t -~\x80-\xff]*")
_BODILESS = frozenset({204, 205, 304})
_HOP_BY_HOP = frozenset(
    "connection keep-alive proxy-authenticate te trailer transfer-encoding upgrade".split()
)


def replaced(view: RequestView, refusal: Refusal, reply: object) -> Refusal:
    """A responder's answer in the place of `refusal`.

    The fields of `refusal` (`Retry-After`, `Cache-Control`, RateLimit) stay unless the responder sets them;
    `Content-Length` is always counted here.

    Args:
        view: the request.
        refusal: what would be said otherwise.
        reply: what the responder gave: (status, headers, body).

    Raises:
        ValueError: this cannot be sent.
    """
    if not isinstance(reply, tuple) or len(reply) != 3:
        raise ValueError(f"a responder gives (status, headers, body), not {type(reply).__name__}")
    status, fields, body = _status(reply[0]), _fields(reply[1]), _body(reply[2])
    own_names = {name.lower() for name, _ in fields}
    if "content-type" not in own_names:
        fields.append(("Content-Type", "text/plain; charset=utf-8"))
    dropped = {*own_names, "content-type", "content-length"}
    kept = [field for field in refusal.headers if field[0].lower() not in dropped]
    length = ("Content-Length", str(len(body)))
    return Refusal(status, (*kept, *fields, length), b"" if view.is_head else body)


def _status(status: object) -> int:
    if isinstance(status, bool) or not isinstance(status, int) or not 200 <= status <= 599:
        raise ValueError(f"the status {status!r} is not a number from 200 to 599")
    if status in _BODILESS:
        raise ValueError(f"the status {int(status)} allows no body")
    return int(status)


def _fields(headers: object) -> list[Field]:
    """Pairs of texts that break no header line; `Content-Length` is left out."""
    if not isinstance(headers, Iterable) or isinstance(headers, (str, bytes)):
        raise ValueError(f"headers are pairs of texts or a mapping, not {type(headers).__name__}")  # noqa: TRY004
    pairs = [_field(pair) for pair in (headers.items() if isinstance(headers, Mapping) else headers)]
    return [(name, value) for name, value in pairs if name.lower() != "content-length"]


def _field(pair: object) -> Field:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise ValueError(f"a header is a pair of texts, not {type(pair).__name__}")
    name, value = pair
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name.lower() in _HOP_BY_HOP:
        raise ValueError(f"{name!r} is not the name of a header that a response may set")
    if not isinstance(value, str) or not _VALUE.fullmatch(value):
        raise ValueError(f"the header {name} holds what a header line cannot: a text of latin-1 is needed")
    return name, value


def _body(body: object) -> bytes:
    if isinstance(body, str):
        return body.encode()
    if not isinstance(body, bytes):
        raise ValueError(f"a body is bytes or a text, not {type(body).__name__}")  # noqa: TRY004
    return body
