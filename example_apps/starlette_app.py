"""Starlette, limited by one line.

Run it with `uvicorn --app-dir example_apps starlette_app:app`.
"""

from pathlib import Path

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from ratelimit_middleware import load_rules
from ratelimit_middleware.asgi import RateLimitMiddleware


async def page(request: Request) -> JSONResponse:
    """The index, the login, the reports and the health check: each says its name."""
    return JSONResponse({"page": request.url.path.strip("/") or "index"})


async def item(request: Request) -> JSONResponse:
    """Ten a second for each client, whichever items it asks for."""
    return JSONResponse({"item": request.path_params["item_id"]})


app = Starlette(
    routes=[
        Route("/", page),
        Route("/items/{item_id:int}", item),
        Route("/reports", page),
        Route("/login", page, methods=["POST"]),
        Route("/health", page),
    ],
    middleware=[
        Middleware(RateLimitMiddleware, rules=load_rules(Path(__file__).with_name("ratelimit.yaml")))
    ],
)
