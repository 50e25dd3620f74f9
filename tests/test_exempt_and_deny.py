"""The lists `deny` and `exempt`, of the file and of a rule, under ASGI and WSGI."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.registry import LimiterRegistry
from ratelimit_middleware.request import AsgiView, WsgiView
from ratelimit_middleware.rules import request_list
from ratelimit_middleware.rules.load import load_rules
from ratelimit_middleware.rules.request_list import RequestList
from ratelimit_middleware.stores.memory import MemoryStore
from tests.conftest import Ask

pytestmark = pytest.mark.anyio

Limited = Callable[..., Ask]

TOKEN = "s3cret-token"  # noqa: S105 - of the tests
FILE: dict[str, Any] = {
    "deny": {"ips": ["203.0.113.0/24"], "methods": "TRACE"},
    "exempt": {
        "ips": ["192.0.2.0/28", "203.0.113.7"],
        "headers": {"X-Internal": TOKEN},
        "methods": ["OPTIONS"],
    },
    "always": "2/minute per global",
}


async def statuses(ask: Ask, times: int = 4, **how: Any) -> list[int]:
    return [(await ask(**how)).status_code for _ in range(times)]


async def test_a_denied_client_hears_403_and_no_wait(limited: Limited) -> None:
    response = await limited(FILE)(peer="203.0.113.9")
    assert response.status_code == 403
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["cache-control"] == "no-store"
    assert "retry-after" not in response.headers
    assert "ratelimit" not in response.headers
    assert response.json() == {
        "type": "about:blank",
        "title": "Forbidden",
        "status": 403,
        "detail": "Access from here is not allowed.",
    }


async def test_a_denied_client_may_be_told_something_else(limited: Limited) -> None:
    deny = {"ips": "203.0.113.0/24", "status": 404, "detail": "Nothing here."}
    response = await limited({"deny": deny, "default": "1/minute"})(peer="203.0.113.9", accept="text/plain")
    assert (response.status_code, response.text) == (404, "Not Found. Nothing here.\n")


async def test_the_denied_take_nothing_from_the_others(limited: Limited) -> None:
    ask = limited(FILE)
    assert await statuses(ask, peer="203.0.113.9") == [403] * 4
    assert await statuses(ask, method="TRACE", peer="198.51.100.1") == [403] * 4
    assert await statuses(ask, peer="198.51.100.1") == [200, 200, 429, 429]


async def test_deny_goes_before_exempt(limited: Limited) -> None:
    assert await statuses(limited(FILE), 1, peer="203.0.113.7") == [403]


@pytest.mark.parametrize(
    "how",
    [{"peer": "192.0.2.9"}, {"peer": "198.51.100.1", "x_internal": TOKEN}, {"method": "OPTIONS"}],
    ids=["address", "header", "method"],
)
async def test_the_exempt_pass_uncounted_even_by_always(limited: Limited, how: dict[str, Any]) -> None:
    ask = limited(FILE)
    assert await statuses(ask, **how) == [200] * 4
    assert "ratelimit" not in (await ask(**how)).headers
    assert await statuses(ask, peer="198.51.100.1") == [200, 200, 429, 429]


@pytest.mark.parametrize("value", ["", "s3cret-toke", f"{TOKEN}x", "S3CRET-TOKEN", f"{TOKEN}, {TOKEN}"])
async def test_a_wrong_secret_exempts_nobody(limited: Limited, value: str) -> None:
    ask = limited(FILE)
    assert await statuses(ask, peer="198.51.100.1", x_internal=value) == [200, 200, 429, 429]


async def test_the_address_is_that_of_the_client_and_not_what_it_claims(limited: Limited) -> None:
    client = {"trusted_proxies": "10.0.0.1", "header": "x-forwarded-for"}
    ask = limited({**FILE, "client": client})
    assert await statuses(ask, peer="10.0.0.1", x_forwarded_for="198.51.100.9, 192.0.2.9") == [200] * 4
    assert await statuses(ask, 1, peer="10.0.0.1", x_forwarded_for="192.0.2.9, 203.0.113.9") == [403]
    spoofed = await statuses(ask, peer="198.51.100.1", x_forwarded_for="192.0.2.9")
    assert spoofed == [200, 200, 429, 429]


async def test_who_is_exempt_from_a_rule_falls_under_the_default(limited: Limited) -> None:
    rules = {
        "limits": {"/login": {"limit": "1/minute", "exempt": {"ips": "192.0.2.0/28"}}},
        "default": "3/minute",
    }
    ask = limited(rules)
    assert await statuses(ask, path="/login", peer="198.51.100.1") == [200, 429, 429, 429]
    assert await statuses(ask, 5, path="/login", peer="192.0.2.1") == [200, 200, 200, 429, 429]


async def test_who_is_exempt_from_a_rule_still_counts_under_the_others(limited: Limited) -> None:
    rules = {
        "limits": {
            "/login": {"limit": "1/minute", "exempt": {"ips": "192.0.2.0/28"}},
            "/**": "3/minute",
        },
        "default": "1/hour",
    }
    assert await statuses(limited(rules), 5, path="/login") == [200, 200, 200, 429, 429]


def test_the_exempt_leave_no_key_in_the_store(clock: ManualClock) -> None:
    store = MemoryStore(clock=clock)
    registry = LimiterRegistry(load_rules(FILE), store)
    for peer in ("192.0.2.1", "203.0.113.9"):
        registry.admit(WsgiView({"REMOTE_ADDR": peer}))
    assert store.stats().keys == 0


def test_get_stands_for_head_and_ws_for_handshakes() -> None:
    gets, sockets = RequestList(methods=frozenset({"GET"})), RequestList(methods=frozenset({"WS"}))
    head = AsgiView({"type": "http", "method": "HEAD", "path": "/"})
    handshake = AsgiView({"type": "websocket", "path": "/"})
    assert [gets(head), sockets(head)] == [True, False]
    assert [gets(handshake), sockets(handshake)] == [False, True]


def test_all_headers_are_compared_even_after_one_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bytes] = []

    def compare(sent: bytes, secret: bytes) -> bool:
        compared.append(secret)
        return sent == secret

    monkeypatch.setattr(request_list, "compare_digest", compare)
    secrets = RequestList(headers=(("x-a", "one"), ("x-a", "two"), ("x-b", "three")))
    assert secrets(WsgiView({"HTTP_X_A": "one"}))
    assert compared == [b"one", b"two", b"three"]


def test_a_header_of_any_bytes_is_compared() -> None:
    secrets = RequestList(headers=(("x-a", "one"),))
    assert not secrets(WsgiView({"HTTP_X_A": "\xff"}))
    assert not secrets(WsgiView({"HTTP_X_A": "\u20ac"}))


def test_a_list_built_by_hand_takes_no_empty_secret_and_shows_none() -> None:
    with pytest.raises(ValueError, match="empty"):
        RequestList(headers=(("x-a", " "),))
    assert TOKEN not in repr(RequestList(headers=(("x-a", TOKEN),)))
    assert TOKEN not in repr(load_rules(FILE))


def test_a_file_of_addresses_stands_beside_the_rule_file(tmp_path: Path) -> None:
    (tmp_path / "lists").mkdir()
    lines = "\ufeff# scanners\n203.0.113.0/24  # of last night\n\n\t198.51.100.7\r\n2001:db8::/32"
    (tmp_path / "lists" / "deny.txt").write_text(lines, "utf-8")
    rules = tmp_path / "rules.yaml"
    rules.write_text("deny: {ips: [file:lists/deny.txt, 192.0.2.1]}\ndefault: 5/minute\n")
    deny = load_rules(rules).deny
    assert deny
    listed = ("203.0.113.9", "198.51.100.7", "2001:db8::1", "192.0.2.1", "192.0.2.2")
    assert [deny(WsgiView({"REMOTE_ADDR": peer})) for peer in listed] == [True, True, True, True, False]


def problems(rules: Path) -> list[str]:
    with pytest.raises(ValueError, match="mistake") as refusal:
        load_rules(rules)
    return [problem.message for problem in refusal.value.problems]  # type: ignore[attr-defined]  # a RuleFileError


def test_a_file_with_mistakes_names_each_with_its_line(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text("deny: {ips: file:deny.txt}\ndefault: 5/minute\n")
    (tmp_path / "deny.txt").write_text("# a\n10.0.0.1/8\nexample.com\n")
    assert problems(rules) == [
        "deny.txt:2: `10.0.0.1/8` has bits beyond its prefix: write `10.0.0.0/8` for the network",
        "deny.txt:3: `example.com` is no address and no network: write `192.0.2.7` or `192.0.2.0/28`",
    ]
    (tmp_path / "deny.txt").write_text("x\n" * 12)
    assert problems(rules)[-1] == "deny.txt: 2 more lines are wrong"


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text("deny: {ips: file:deny.txt}\ndefault: 5/minute\n")
    path = tmp_path / "deny.txt"
    assert problems(rules) == ["the file `deny.txt` cannot be read: No such file or directory"]
    path.write_bytes(b"\xff\xfe")
    assert "utf-8" in problems(rules)[0]
    monkeypatch.setattr("ratelimit_middleware.rules.lists_spec._MOST_BYTES", 4)
    path.write_text("10.0.0.1\n")
    assert "larger than" in problems(rules)[0]
    path.unlink()
    path.mkdir()
    assert problems(rules) == ["the file `deny.txt` cannot be read: it is not a regular file"]
