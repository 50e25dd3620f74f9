"""Routes of every kind that Django has, as an ASGI and as a WSGI app."""

from typing import Any

import django
from django.conf import settings
from django.core.handlers.asgi import ASGIHandler
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpRequest, HttpResponse
from django.urls import include, path, re_path
from django.views import View

from ratelimit_middleware import asgi, wsgi
from tests.attacks.apps.rules import RULES

settings.configure(
    ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["*"],
    SECRET_KEY="not one",  # noqa: S106 - of a test
    MIDDLEWARE=["django.middleware.common.CommonMiddleware"],
)
django.setup()


def page(_: HttpRequest, **__: Any) -> HttpResponse:
    """A page."""
    return HttpResponse("page")


class Page(View):
    """A page of a class."""

    def get(self, _: HttpRequest, **__: Any) -> HttpResponse:
        """A page."""
        return HttpResponse("page")

    post = put = patch = delete = get


things = [path("things/<id>", page)]
urlpatterns = [
    path("items/<id>", page),
    path("api/", include([path("v1/", include((things, "things")))])),
    path("mounted/inner/<id>", page),
    path("numbers/<int:id>", page),
    path("class/<id>", Page.as_view()),
    re_path(r"^files/(?P<rest>.+)$", page),
    *(path(f"{name}/<id>", page) for name in ("by-route", "by-path", "by-method")),
    *(path(name, page) for name in ("page", "search", "user", "hosted", "health")),
]
urlpatterns.append(path("late/<id>", page))

asgi_app = asgi.RateLimitMiddleware(ASGIHandler(), RULES)
wsgi_app = wsgi.RateLimitMiddleware(WSGIHandler(), RULES)
