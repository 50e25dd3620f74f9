"""How many bytes of a body a message of an ASGI app sends, also where the server takes them from a file."""

from __future__ import annotations

import os
from pathlib import Path

from ratelimit_middleware._types import Message
from ratelimit_middleware.response import Response

__all__ = ["SHORTCUTS", "body_size"]

SHORTCUTS = frozenset({"http.response.pathsend", "http.response.zerocopysend"})
"""Extensions with which bytes go from the server to the client without being seen here."""


def body_size(message: Message, response: Response) -> int:
    """Bytes; of a file as many as the response says, else as there are.

    Args:
        message: what the app sends.
        response: how the response has begun.
    """
    if message["type"] not in SHORTCUTS:
        return len(message.get("body", b""))
    if message.get("count") is not None:
        return int(message["count"])
    told = response.header("content-length") or ""
    if told.isdecimal():
        return max(0, int(told) - response.bytes_sent)
    try:
        return max(0, _file_size(message) - int(message.get("offset") or 0))
    except (OSError, AttributeError, KeyError):
        return 0  # the server will not find more


def _file_size(message: Message) -> int:
    if "path" in message:
        return Path(message["path"]).stat().st_size
    return os.fstat(message["file"].fileno()).st_size
