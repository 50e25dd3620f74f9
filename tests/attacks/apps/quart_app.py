"""Routes of every kind that Quart has."""

from quart import Blueprint, Quart, websocket
from quart.views import View

from ratelimit_middleware.asgi import RateLimitMiddleware
from tests.attacks.apps.rules import RULES

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]

app = Quart("attacked", static_folder=None)
outer, inner = Blueprint("v1", "v1", url_prefix="/v1"), Blueprint("things", "things", url_prefix="/things")
mounted = Blueprint("mounted", "mounted", url_prefix="/mounted")


async def page(**_: str) -> str:
    """A page."""
    return "page"


async def live(**_: str) -> None:
    """Hangs up at once."""
    await websocket.accept()


class Page(View):
    """A page of a class."""

    async def dispatch_request(self, **_: str) -> str:
        """A page."""
        return "page"


app.asgi_app = RateLimitMiddleware(app.asgi_app, RULES)  # type: ignore[assignment,method-assign,arg-type]
inner.add_url_rule("/<id>", "page", page, methods=METHODS)
outer.register_blueprint(inner)
app.register_blueprint(outer, url_prefix="/api/v1")
mounted.add_url_rule("/inner/<id>", "page", page, methods=METHODS)
app.register_blueprint(mounted)
for place in (
    "/items/<id>",
    "/files/<path:rest>",
    "/numbers/<int:id>",
    "/by-route/<id>",
    "/by-path/<id>",
    "/by-method/<id>",
):
    app.add_url_rule(place, place, page, methods=METHODS)
for place in ("/page", "/search", "/user", "/hosted", "/health", "/late/<id>"):
    app.add_url_rule(place, place, page, methods=METHODS)
app.add_url_rule("/class/<id>", "class", Page.as_view("class"), methods=METHODS)
app.add_websocket("/live/<room>", "live", live)
