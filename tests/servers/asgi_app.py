"""A FastAPI app with everything that a middleware can break. Served by the tests."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator

from fastapi import APIRouter, BackgroundTasks, FastAPI, WebSocket
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Mount, Route

from ratelimit_middleware.asgi import RateLimitMiddleware

RULES = {
    "limits": {
        "POST /upload": "1/hour",
        "GET /shop/items/{id}": "2/hour",
        "GET /api/v1/items/{id}": "2/hour",
        "GET /page": "2/hour",
        "WS /live": "1/hour",
        "/happened/{event}": "unlimited",
    },
    "default": "1000/hour",
}
INNER_RULES = {"limits": {"/items/{id}": "1/hour"}}

events: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)


async def item(request: Request) -> PlainTextResponse:
    """A page of a mounted app."""
    return PlainTextResponse(request.path_params["id"])


mounted = Starlette(routes=[Route("/items/{id}", item)])
app = FastAPI(
    routes=[
        Mount("/shop", mounted),
        Mount("/inner", RateLimitMiddleware(mounted, INNER_RULES)),
    ]
)
app.add_middleware(RateLimitMiddleware, rules=RULES)


@app.get("/happened/{event}")
async def happened(event: str) -> str:
    """Answer once `event` has happened."""
    await asyncio.wait_for(events[event].wait(), timeout=10)
    return event


@app.post("/happened/{event}")
async def happen(event: str) -> str:
    """Let `event` happen."""
    events[event].set()
    return event


@app.api_route("/page", methods=["GET", "HEAD"])
async def page() -> PlainTextResponse:
    """A page."""
    return PlainTextResponse("page")


@app.get("/stream")
async def stream() -> StreamingResponse:
    """Three parts, each of which waits for the client to have seen the one before."""

    async def parts() -> AsyncIterator[str]:
        for part in ("one", "two", "three"):
            yield part
            await asyncio.wait_for(events[f"seen-{part}"].wait(), timeout=10)

    return StreamingResponse(parts())


@app.get("/endless")
async def endless() -> StreamingResponse:
    """Goes on until the client leaves."""

    async def parts() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"more"
                await asyncio.sleep(0.01)
        finally:
            events["left"].set()

    return StreamingResponse(parts())


@app.get("/background")
async def background(tasks: BackgroundTasks) -> str:
    """Does something after its answer."""
    tasks.add_task(events["background"].set)
    return "later"


@app.get("/broken")
async def broken() -> None:
    """Fails before it answers."""
    raise LookupError("broken before the start")


@app.get("/broken-late")
async def broken_late() -> StreamingResponse:
    """Fails in the middle of its answer."""

    async def parts() -> AsyncIterator[bytes]:
        yield b"so far so good"
        raise LookupError("broken after the start")

    return StreamingResponse(parts())


@app.post("/upload")
async def upload(request: Request) -> int:
    """The size of the body."""
    return len(await request.body())


@app.websocket("/live")
async def live(websocket: WebSocket) -> None:
    """Says hello."""
    await websocket.accept()
    await websocket.send_text("hello")
    await websocket.close()


inner = APIRouter(prefix="/items")


@inner.get("/{id}")
async def nested_item(id: str) -> str:  # noqa: A002 - the name in the path
    """A page of a router in a router."""
    return id


outer = APIRouter(prefix="/v1")
outer.include_router(inner)
app.include_router(outer, prefix="/api")
