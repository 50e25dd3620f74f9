"""Routes of every kind that Starlette has."""

from starlette.applications import Starlette
from starlette.endpoints import HTTPEndpoint
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.websockets import WebSocket

from ratelimit_middleware.asgi import RateLimitMiddleware
from tests.attacks.apps.rules import RULES

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]


async def page(_: Request) -> PlainTextResponse:
    """A page."""
    return PlainTextResponse("page")


class Page(HTTPEndpoint):
    """A page of a class."""

    async def get(self, _: Request) -> PlainTextResponse:
        """A page."""
        return PlainTextResponse("page")

    post = put = patch = delete = head = get


async def live(websocket: WebSocket) -> None:
    """Hangs up at once."""
    await websocket.accept()
    await websocket.close()


things = [Route("/things/{id}", page, methods=METHODS)]
mounted = Starlette(routes=[Mount("/", routes=[Route("/inner/{id}", page, methods=METHODS)])])
paths = (
    "/items/{id}",
    "/files/{rest:path}",
    "/numbers/{id:int}",
    "/by-route/{id}",
    "/by-path/{id}",
    "/by-method/{id}",
)
app = Starlette(
    routes=[
        Mount("/api", routes=[Mount("/v1", routes=things)]),
        Mount("/mounted", mounted),
        Route("/class/{id}", Page),
        WebSocketRoute("/live/{room}", live),
        *(Route(path, page, methods=METHODS) for path in paths),
        *(Route(path, page, methods=METHODS) for path in ("/page", "/search", "/user", "/hosted", "/health")),
    ]
)
app.add_middleware(RateLimitMiddleware, rules=RULES)
app.router.routes.append(Route("/late/{id}", page, methods=METHODS))
