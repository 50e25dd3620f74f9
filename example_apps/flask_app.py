"""Flask, limited by one line.

Run it with `gunicorn --chdir example_apps --threads 8 flask_app:app`.
"""

from __future__ import annotations

from pathlib import Path

from flask import Flask

from ratelimit_middleware.wsgi import RateLimitMiddleware

app = Flask(__name__)
app.wsgi_app = RateLimitMiddleware(  # type: ignore[method-assign]  # the way Flask's manual shows
    app.wsgi_app, Path(__file__).with_name("ratelimit.yaml")
)


@app.get("/")
def index() -> dict[str, str]:
    """No rule names this page, so it falls under `default`."""
    return {"page": "index"}


@app.get("/items/<int:item_id>")
def item(item_id: int) -> dict[str, int]:
    """Ten a second for each client, whichever items it asks for."""
    return {"item": item_id}


@app.get("/reports")
def reports() -> dict[str, str]:
    """Three a second when cold, nine when warm, for all clients together."""
    return {"page": "reports"}


@app.post("/login")
def login() -> dict[str, str]:
    """Five a minute and twenty an hour for each client."""
    return {"page": "login"}


@app.get("/health")
def health() -> dict[str, str]:
    """Never limited."""
    return {"page": "health"}
