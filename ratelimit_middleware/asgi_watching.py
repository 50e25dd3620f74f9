"""Whether a client may be watched while its request waits, by asking for what it sends ahead of the app."""

from __future__ import annotations

from ratelimit_middleware._types import Receive, Scope

__all__ = ["may_watch"]

_UNWATCHED = "ratelimit_middleware.unwatched"
_LOSES = "starlette.middleware.base"
"""Starlette's `BaseHTTPMiddleware`, which loses a message that has come if asking for it is cancelled."""


def may_watch(scope: Scope, receive: Receive) -> bool:
    """Not where asking, or no longer asking, would change what the app is told.

    Args:
        scope: the request; noted in it for instances further in, which are given another `receive`.
        receive: what would be asked.
    """
    if getattr(receive, "__module__", None) == _LOSES:
        scope[_UNWATCHED] = True
    # A client that expects `100 Continue` would be told to send its body.
    return _UNWATCHED not in scope and not any(name == b"expect" for name, _ in scope.get("headers", ()))
