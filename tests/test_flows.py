"""Which limits hold for what flows, where rules say more than a route."""

from __future__ import annotations

from typing import Any

import pytest

from ratelimit_middleware import asgi, wsgi
from ratelimit_middleware.entrances import AsgiEntrance, WsgiEntrance, entrance
from ratelimit_middleware.faults import FaultLogs
from ratelimit_middleware.flows import Flows
from ratelimit_middleware.request import WsgiView
from ratelimit_middleware.rules.load import load_rules

CHAINED = {"limit": "9/minute", "bandwidth": {"response": "1MB/s"}, "chain": "nightly"}


def held(limits: dict[str, Any], path: str = "/a", **file: Any) -> list[str]:
    flows = Flows(load_rules({"limits": limits, **file}), lambda _: None, FaultLogs())
    view = WsgiView({"REQUEST_METHOD": "GET", "PATH_INFO": path, "REMOTE_ADDR": "192.0.2.1"})
    return [one.limit.policy.name for one in flows.of(view)]


@pytest.mark.parametrize("limit", [{}, {"limit": "9/minute"}], ids=["alone", "beside a limit"])
def test_a_bandwidth_with_an_entrance_holds_for_those_who_come_from_there(limit: dict[str, str]) -> None:
    rule = {"bandwidth": {"response": "1MB/s"}, "chain": "nightly", **limit}
    assert held({"/a": rule}) == []
    with entrance("nightly"):
        assert held({"/a": rule}) == ["a-response"]


def test_the_bandwidth_of_default_holds_for_those_who_come_another_way() -> None:
    default = {"limit": "9/minute", "bandwidth": {"response": "2MB/s"}}
    assert held({"/a": CHAINED}, default=default) == ["default-response"]
    with entrance("nightly"):
        assert held({"/a": CHAINED}, default=default) == ["a-response"]


def test_where_bandwidths_alone_have_entrances_requests_are_followed_too() -> None:
    async def served(_scope: Any, _receive: Any, _send: Any) -> None:
        pass

    rules = {"limits": {"/a": {"bandwidth": "1MB/s", "chain": "POST /b"}}}
    outside: Any = asgi.RateLimitMiddleware(served, rules)._app
    inside: Any = wsgi.RateLimitMiddleware(lambda _environ, _start: [], rules)._app
    assert isinstance(outside.app, AsgiEntrance)
    assert isinstance(inside.app, WsgiEntrance)


def test_in_a_rule_that_others_use_up_what_flows_is_held_as_in_any() -> None:
    rule = {"limit": "9/minute", "relate": "/b", "bandwidth": {"response": "1MB/s"}}
    assert held({"/a": rule}) == ["a-response"]
    assert held({"/a": rule}, "/b") == []
