"""Routes of every kind that Litestar has."""

from typing import Any

from litestar import Controller, HttpMethod, Litestar, Router, WebSocket, route, websocket
from litestar.handlers import asgi
from starlette.responses import PlainTextResponse

from ratelimit_middleware.asgi import RateLimitMiddleware
from tests.attacks.apps.rules import RULES

METHODS = [HttpMethod[name] for name in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")]


def page(*paths: str) -> Any:
    """A page under these paths."""

    @route(list(paths), http_method=METHODS[:1] + METHODS[2:], status_code=200)
    async def handler() -> str:
        return "page"

    return handler


class Pages(Controller):
    """Pages of a class."""

    path = "/class"

    @route("/{id:str}", http_method=METHODS[:1] + METHODS[2:], status_code=200)
    async def page(self) -> str:
        """A page."""
        return "page"


@websocket("/live/{room:str}")
async def live(socket: WebSocket[Any, Any, Any]) -> None:
    """Hangs up at once."""
    await socket.accept()
    await socket.close()


@asgi("/mounted", is_mount=True, copy_scope=True)
async def mounted(scope: Any, receive: Any, send: Any) -> None:
    """An app of its own."""
    await PlainTextResponse("page")(scope, receive, send)


things = Router("/things", route_handlers=[page("/{id:str}")])
paths = (
    "/items/{id:str}",
    "/files/{rest:path}",
    "/numbers/{id:int}",
    "/by-route/{id:str}",
    "/by-path/{id:str}",
)
app_itself = Litestar(
    route_handlers=[
        Router("/api", route_handlers=[Router("/v1", route_handlers=[things])]),
        Pages,
        live,
        page(*paths, "/by-method/{id:str}", "/page", "/search", "/user", "/hosted", "/health"),
        mounted,
    ],
    openapi_config=None,
    logging_config=None,  # else it turns on all loggers of the process
)
app_itself.register(page("/late/{id:str}"))
app = RateLimitMiddleware(app_itself, RULES)  # type: ignore[arg-type]
