"""Routes of every kind that FastAPI has."""

from fastapi import APIRouter, FastAPI, WebSocket
from fastapi.responses import PlainTextResponse

from ratelimit_middleware.asgi import RateLimitMiddleware
from tests.attacks.apps.rules import RULES

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]

app = FastAPI(openapi_url=None)
outer, inner = APIRouter(prefix="/v1"), APIRouter(prefix="/things")
mounted = FastAPI(openapi_url=None)


async def page() -> PlainTextResponse:
    """A page."""
    return PlainTextResponse("page")


class Pages:
    """Pages of a class."""

    def __init__(self, text: str) -> None:
        self.text = text

    async def page(self) -> PlainTextResponse:
        """A page."""
        return PlainTextResponse(self.text)


inner.add_api_route("/{id}", page, methods=METHODS)
outer.include_router(inner)
app.include_router(outer, prefix="/api")
mounted.add_api_route("/inner/{id}", page, methods=METHODS)
app.mount("/mounted", mounted)
for path in (
    "/items/{id}",
    "/files/{rest:path}",
    "/numbers/{id:int}",
    "/by-route/{id}",
    "/by-path/{id}",
    "/by-method/{id}",
):
    app.add_api_route(path, page, methods=METHODS)
for path in ("/page", "/search", "/user", "/hosted", "/health"):
    app.add_api_route(path, page, methods=METHODS)
app.add_api_route("/class/{id}", Pages("page").page, methods=METHODS)
app.add_middleware(RateLimitMiddleware, rules=RULES)
app.add_api_route("/late/{id}", page, methods=METHODS)


@app.websocket("/live/{room}")
async def live(websocket: WebSocket) -> None:
    """Hangs up at once."""
    await websocket.accept()
    await websocket.close()
