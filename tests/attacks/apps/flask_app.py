"""Routes of every kind that Flask has."""

from flask import Blueprint, Flask
from flask.views import View
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from ratelimit_middleware.wsgi import RateLimitMiddleware
from tests.attacks.apps.rules import RULES

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]

app = Flask("attacked", static_folder=None)
mounted = Flask("mounted", static_folder=None)
outer, inner = Blueprint("v1", "v1", url_prefix="/v1"), Blueprint("things", "things", url_prefix="/things")


def page(**_: str) -> str:
    """A page."""
    return "page"


class Page(View):
    """A page of a class."""

    def dispatch_request(self, **_: str) -> str:
        """A page."""
        return "page"


app.wsgi_app = RateLimitMiddleware(  # type: ignore[method-assign]
    DispatcherMiddleware(app.wsgi_app, {"/mounted": mounted}), RULES
)
inner.add_url_rule("/<id>", "page", page, methods=METHODS)
outer.register_blueprint(inner)
app.register_blueprint(outer, url_prefix="/api/v1")
mounted.add_url_rule("/inner/<id>", "page", page, methods=METHODS)
for place in (
    "/items/<id>",
    "/files/<path:rest>",
    "/numbers/<int:id>",
    "/by-route/<id>",
    "/by-path/<id>",
    "/by-method/<id>",
):
    app.add_url_rule(place, place.replace(".", ""), page, methods=METHODS)
for place in ("/page", "/search", "/user", "/hosted", "/health", "/late/<id>"):
    app.add_url_rule(place, place, page, methods=METHODS)
app.add_url_rule("/class/<id>", "class", Page.as_view("class"), methods=METHODS)
