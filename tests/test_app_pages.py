"""The apps of the README and of the pages on the middlewares run as they are copied from there."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from ratelimit_middleware.cli import main

if TYPE_CHECKING:
    import httpx

ROOT = Path(__file__).parent.parent
LOGIN = '"post-login";q=5;w=60, "post-login-2";q=20;w=3600'
ITEMS = '"get-items-id";q=20;w=2'


def blocks(page: str, language: str) -> list[str]:
    """The blocks of a language, without the indentation that those in a list have."""
    found = re.findall(
        rf"^( *)```{language}\n(.*?)^ *```", (ROOT / page).read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    return [re.sub(rf"^{indent}", "", block, flags=re.MULTILINE) for indent, block in found]


def run(block: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "copied"}
    exec(compile(block, "page", "exec"), names)  # noqa: S102 - our own pages
    return names


@pytest.fixture(autouse=True)
def _beside_the_rules_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ratelimit.yaml").write_text(blocks("README.md", "yaml")[0])
    (tmp_path / "admin.yaml").write_text("limits: {/users: 1/minute}\n")
    monkeypatch.chdir(tmp_path)


Ask: TypeAlias = "Callable[..., httpx.Response]"


@pytest.fixture
def ask_asgi(asgi_client: Callable[..., httpx.AsyncClient]) -> Ask:
    """A function that asks an ASGI app, of a page that has been read before there is an event loop."""

    def ask(app: Any, method: str, path: str, **headers: str) -> httpx.Response:
        async def answer() -> httpx.Response:
            async with asgi_client(app) as client:
                return await client.request(method, path, headers=headers)

        return asyncio.run(answer())

    return ask


@pytest.fixture
def ask_wsgi(wsgi_client: Callable[..., httpx.Client]) -> Ask:
    """A function that asks a WSGI app."""
    return lambda app, method, path: wsgi_client(app).request(method, path)


def test_the_apps_of_the_readme_answer_and_refuse(ask_asgi: Ask, ask_wsgi: Ask) -> None:
    fastapi, flask = blocks("README.md", "python")
    for ask, block in ((ask_asgi, fastapi), (ask_wsgi, flask)):
        app = run(block)["app"]
        answers = [ask(app, "POST", "/login") for _ in range(6)]

        assert [answer.status_code for answer in answers] == [*[200] * 5, 429]
        assert {answer.headers["RateLimit-Policy"] for answer in answers} == {LOGIN}
        assert answers[0].json() == {"hello": "you"}


def test_the_mistake_that_the_readme_shows_is_what_the_command_prints(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rules = Path("ratelimit.yaml")
    rules.write_text(rules.read_text().replace("behavior: warm_up ", "behaviour: warm_up "))

    assert main(["check", "ratelimit.yaml"]) == 1
    head, mistake, *_ = capsys.readouterr().out.splitlines()
    shown = blocks("README.md", "text")[0].splitlines()
    assert head == shown[0]
    assert mistake.startswith(shown[1].removesuffix("…"))


def test_the_apps_of_the_page_on_asgi_have_the_fields(ask_asgi: Ask) -> None:
    fastapi, starlette, other, mounted, in_cors = blocks("docs/asgi.md", "python")
    for block in (fastapi, starlette, other):
        answer = ask_asgi(run(block)["app"], "GET", "/items/7")
        assert answer.status_code == 200
        assert answer.headers["RateLimit-Policy"] == ITEMS

    answer = ask_asgi(run(starlette + mounted)["app"], "GET", "/admin/users")
    assert answer.headers["RateLimit"].startswith('"users";')
    answer = ask_asgi(run(fastapi + in_cors)["app"], "GET", "/", Origin="https://shop.example")
    assert answer.headers["RateLimit"].startswith('"default";')
    assert answer.headers["Access-Control-Expose-Headers"] == "RateLimit, RateLimit-Policy, Retry-After"


def test_the_apps_of_the_page_on_wsgi_have_the_fields(ask_wsgi: Ask) -> None:
    flask, other = blocks("docs/wsgi.md", "python")
    for app in (run(flask)["app"], run(other)["application"]):
        answer = ask_wsgi(app, "GET", "/items/7")
        assert answer.status_code == 200
        assert answer.headers["RateLimit-Policy"] == ITEMS


@pytest.mark.filterwarnings("ignore:Using `httpx` with")  # Starlette's own, about its test client
def test_the_test_of_the_page_on_testing_passes() -> None:
    Path("ratelimit.yaml").write_text(blocks("docs/testing.md", "yaml")[0])
    run(blocks("docs/testing.md", "python")[0])["test_the_sixth_login_waits_for_a_minute"]()
