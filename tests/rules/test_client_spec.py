"""`client` of the rule file: what its words mean, and that a request is counted by them."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Any

import pytest

from ratelimit_middleware.build import build_registry
from ratelimit_middleware.client import Client, UserSource
from ratelimit_middleware.errors import RuleFileError
from ratelimit_middleware.identity import KeyPart
from ratelimit_middleware.request import AsgiView
from ratelimit_middleware.rules.load import load_rules

pytestmark = pytest.mark.arithmetic


def client_of(**client: Any) -> Client:
    return load_rules(
        {"client": client, "default": "5/minute"}, env={"NET": "10.0.0.0/8", "HOPS": "2"}
    ).client


@pytest.mark.parametrize(
    ("said", "client"),
    [
        ({}, Client()),
        ({"trusted_proxies": "10.0.0.0/8"}, Client((ip_network("10.0.0.0/8"),))),
        (
            {"trusted_proxies": ["${NET}", "fd00::/8", " 192.0.2.1 "]},
            Client(tuple(map(ip_network, ("10.0.0.0/8", "fd00::/8", "192.0.2.1")))),
        ),
        ({"trusted_proxies": "::ffff:10.0.0.0/104"}, Client((ip_network("10.0.0.0/8"),))),
        ({"trusted_proxies": "unix"}, Client(trusts_unix=True)),
        ({"hops": "${HOPS}", "header": "Forwarded"}, Client(hops=2, header="forwarded")),
        ({"hops": 1, "header": "CF-Connecting-IP"}, Client(hops=1, header="cf-connecting-ip")),
        ({"user": "scope"}, Client(user=UserSource("scope"))),
        ({"user": "environ"}, Client(user=UserSource("environ"))),
        ({"user": "header:X-User", "trusted": True}, Client(user=UserSource("header", "x-user"))),
        ({"user": "python:json:dumps"}, Client(user=UserSource("python", "json:dumps"))),
        ({"ipv6_prefix": 56, "missing": "deny"}, Client()),
    ],
)
def test_a_setting_is_read(said: dict[str, Any], client: Client) -> None:
    assert client_of(**said) == client


def test_prefix_and_missing_of_a_rule_go_before_those_of_the_file() -> None:
    rules = load_rules(
        {
            "client": {"ipv6_prefix": 56, "missing": "deny"},
            "limits": {"/a": "5/minute", "/b": {"limit": "5/minute", "ipv6_prefix": 48, "missing": "ip"}},
        }
    )
    (a,), (b,) = (rule.limits for rule in rules.limits)
    assert a.key == (KeyPart("ip", ipv6_prefix=56),)
    assert b.key == (KeyPart("ip", ipv6_prefix=48),)
    assert (a.missing, b.missing) == ("deny", "ip")
    view = AsgiView({"type": "http", "path": "/", "client": ("2001:db8:1:234::7", 1)})
    assert a.build_key(view, "") == "/a|2001:db8:1:200::/56"
    assert b.build_key(view, "") == "/b|2001:db8:1::/48"


def test_rules_of_one_bucket_take_the_same_prefix() -> None:
    one = {"limit": "5/minute", "bucket": "b"}
    with pytest.raises(RuleFileError, match="the bucket `b` is shared"):
        load_rules({"limits": {"/a": one, "/b": {**one, "ipv6_prefix": 48}}})


def test_an_included_file_says_nothing_of_clients(tmp_path: Any) -> None:
    (tmp_path / "main.yaml").write_text("include: part.yaml\ndefault: 5/minute\n")
    (tmp_path / "part.yaml").write_text("client: {hops: 1}\n")
    with pytest.raises(RuleFileError, match="`client` stands in the main file only"):
        load_rules(tmp_path / "main.yaml")


async def by_token(view: AsgiView) -> str | None:
    """An async function of an app that tells the user."""
    return view.header("x-token")


@pytest.mark.anyio
async def test_an_async_function_that_tells_the_user_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    from ratelimit_middleware.views import Views

    rules = load_rules({"client": {"user": f"python:{__name__}:by_token"}, "default": "1/minute per user"})
    registry = build_registry(rules)
    views = Views(rules, AsgiView)
    allowed = []
    for token in (b"a", b"b", b"a"):
        scope = {"type": "http", "path": "/", "client": ("192.0.2.7", 1), "headers": [(b"x-token", token)]}
        allowed.append((await registry.admit_async(views.make(scope))).allowed)
    assert allowed == [True, True, False]
    with pytest.raises(RuleFileError, match="which WSGI cannot await"):
        build_registry(rules, awaits=False)
