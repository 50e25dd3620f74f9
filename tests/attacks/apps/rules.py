"""What limits every app: three an hour on each of its routes, for each client that the proxy names."""

from __future__ import annotations

from typing import Any

RULES: dict[str, Any] = {
    "client": {"trusted_proxies": ["127.0.0.1/32"], "header": "x-forwarded-for"},
    "limits": {
        "/items/{id}": "3/hour",
        "/api/**": "3/hour",
        "/mounted/**": "3/hour",
        "/late/{id}": "3/hour",
        "/class/{id}": "3/hour",
        "/files/{rest:path}": "3/hour",
        "/by-route/**": "3/hour per ip+route",
        "/by-path/{id}": "3/hour per ip+path",
        "/by-method/{id}": "3/hour per ip+method",
        "GET /page": "3/hour",
        "/search": ["3/hour per header:X-API-Key", "3/hour per ip"],
        "/user": "3/hour per user",
        "/hosted": {"limit": "3/hour", "hosts": ["api.test", "*.sub.test", "[::1]"]},
        "/numbers/{id:int}": "3/hour",
        "/wide/**": "1000/hour",
        "/health": "unlimited",
        "/health/{rest:path}": "unlimited",
        "WS /live/{room}": "3/hour",
    },
    "default": "3/hour",
}
