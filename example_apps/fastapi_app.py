"""FastAPI, limited by one line.

Run it with `uvicorn --app-dir example_apps fastapi_app:app`.
"""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI

from ratelimit_middleware import load_rules
from ratelimit_middleware.asgi import RateLimitMiddleware

app = FastAPI(title="Shop")
app.add_middleware(RateLimitMiddleware, rules=load_rules(Path(__file__).with_name("ratelimit.yaml")))


@app.get("/")
async def index() -> dict[str, str]:
    """No rule names this page, so it falls under `default`."""
    return {"page": "index"}


@app.get("/items/{item_id}")
async def item(item_id: int) -> dict[str, int]:
    """Ten a second for each client, whichever items it asks for."""
    return {"item": item_id}


@app.get("/reports")
async def reports() -> dict[str, str]:
    """Three a second when cold, nine when warm, for all clients together."""
    return {"page": "reports"}


@app.post("/login")
async def login() -> dict[str, str]:
    """Five a minute and twenty an hour for each client."""
    return {"page": "login"}


@app.get("/health")
async def health() -> dict[str, str]:
    """Never limited."""
    return {"page": "health"}
