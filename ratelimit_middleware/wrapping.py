"""Whether an app is of the world that a middleware is for: told when it is wrapped, not at a request."""

from __future__ import annotations

import inspect
from typing import Any

from ratelimit_middleware.errors import InvalidLimitError

__all__ = ["check_asgi", "check_wsgi"]

_ASGI, _WSGI = 3, 2  # (scope, receive, send) and (environ, start_response)


def check_asgi(app: Any) -> None:
    """Refuse an app that only a WSGI server can call.

    Raises:
        InvalidLimitError: it takes (environ, start_response), or cannot be called.
    """
    if not callable(app) or (_takes(app, _WSGI) and not _takes(app, _ASGI)):
        expected = (
            "an ASGI app, called with (scope, receive, send); a WSGI app, such as one of Flask, belongs into"
            " `ratelimit_middleware.wsgi.RateLimitMiddleware`"
        )
        raise InvalidLimitError("app", app, expected)


def check_wsgi(app: Any) -> None:
    """Refuse an app that only an ASGI server can call.

    Raises:
        InvalidLimitError: it takes (scope, receive, send), is async, or cannot be called.
    """
    is_async = inspect.iscoroutinefunction(app) or inspect.iscoroutinefunction(type(app).__call__)
    if not callable(app) or is_async or (_takes(app, _ASGI) and not _takes(app, _WSGI)):
        expected = (
            "a WSGI app, called with (environ, start_response); an ASGI app, such as one of FastAPI, belongs"
            " into `ratelimit_middleware.asgi.RateLimitMiddleware`"
        )
        raise InvalidLimitError("app", app, expected)


def _takes(app: Any, arguments: int) -> bool:
    """Whether an app can be called with so many arguments; True where nobody can tell."""
    try:
        inspect.signature(app).bind(*range(arguments))
    except TypeError:
        return False
    except ValueError:  # a function of C
        return True
    return True
