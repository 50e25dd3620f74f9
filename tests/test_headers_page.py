"""What the page on the fields and refusals shows is true."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ratelimit_middleware._types import Environ, StartResponse
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.rules.load import load_rules
from ratelimit_middleware.wsgi import RateLimitMiddleware

if TYPE_CHECKING:
    import httpx

PAGE = (Path(__file__).parent.parent / "docs" / "headers.md").read_text("utf-8")
RULES = re.findall(r"^ *```yaml\n(.*?)^ *```$", PAGE, re.MULTILINE | re.DOTALL)
CODE = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
GENERATIONS = re.findall(r"^\| `([a-z0-9-]+)`", PAGE, re.MULTILINE)


def hello(_: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """An app."""
    start_response("200 OK", [])
    return [b"hello"]


@pytest.fixture(autouse=True)
def _shop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module that the page's responder stands in."""
    module = types.ModuleType("shop.answers")
    exec("\n".join(CODE), module.__dict__)  # noqa: S102 - the page's own code
    monkeypatch.setitem(sys.modules, "shop", types.ModuleType("shop"))
    monkeypatch.setitem(sys.modules, "shop.answers", module)


@pytest.mark.parametrize("text", RULES, ids=range(len(RULES)))
def test_an_example_of_the_page_loads(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(text)
    rules = load_rules(path)

    assert rules.limits or "response:" in text


def test_the_page_names_every_generation() -> None:
    assert GENERATIONS == ["draft-11", "draft-7", "draft-6", "legacy", "legacy-seconds", "none"]
    assert all(load_rules({"response": {"headers": name}}) for name in GENERATIONS)


def test_the_responder_of_the_page_answers(
    tmp_path: Path, clock: ManualClock, wsgi_client: Callable[..., httpx.Client]
) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(next(text for text in RULES if "slow_down" in text))
    client = wsgi_client(RateLimitMiddleware(hello, path, clock=clock))
    last = [client.get("/shop/") for _ in range(101)][-1]

    assert last.status_code == 429
    assert last.headers["content-type"] == "text/html; charset=utf-8"
    assert last.text == "<h1>Slow down</h1><p>The limit is 100/minute."
