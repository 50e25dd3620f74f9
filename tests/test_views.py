"""How a middleware looks at requests, and what it tells of a set-up in which all count as one."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from ratelimit_middleware.client import SeenView
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.request import AsgiView
from ratelimit_middleware.rules.load import load_rules
from ratelimit_middleware.views import FIRST_REQUESTS, Views

pytestmark = pytest.mark.arithmetic

PLAIN: dict[str, Any] = {"default": "5/minute"}
BY_USER = {"default": "5/minute per user"}
UNTRUSTED = "no proxy is trusted"
NO_USER = "had none"


def views(rules: dict[str, Any], clock: ManualClock) -> Views:
    return Views(load_rules(rules, env={}), AsgiView, clock)


def scope(
    forwarded: str = "", *, peer: str = "10.0.0.1", header: str = "x-forwarded-for", **more: Any
) -> dict[str, Any]:
    headers = [(header.encode(), forwarded.encode())] if forwarded else []
    return {"type": "http", "path": "/", "client": (peer, 1), "headers": headers, **more}


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    assert all(record.levelno == logging.WARNING for record in caplog.records)
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(
    ("header", "value"),
    [("x-forwarded-for", "1.2.3.4"), ("forwarded", "for=1.2.3.4"), ("x-real-ip", "1.2.3.4")],
)
def test_a_forwarded_header_is_told_of_once_where_no_proxy_is_trusted(
    header: str, value: str, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    made = views(PLAIN, clock)
    for _ in range(FIRST_REQUESTS):
        made.make(scope(value, header=header))

    (line,) = told(caplog)
    assert line.startswith(f"a request from 10.0.0.1 has the header {header}, but no proxy is trusted")
    assert "client: {trusted_proxies: [...], header: ...}" in line


def test_a_peer_that_is_no_address_is_told_in_plain_letters(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    views(PLAIN, clock).make(scope("1.2.3.4", peer="a\r\nERROR b"))
    assert told(caplog)[0].startswith("a request from =a%0D%0AERROR b has")


def test_a_refused_client_is_looked_at_however_late_it_comes(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    made = views(PLAIN, clock)
    for _ in range(FIRST_REQUESTS):
        made.make(scope())
    made.refused(AsgiView(scope()))
    made.refused(AsgiView(scope("1.2.3.4")))
    assert told(caplog) == []  # the look before was less than a second ago
    clock.advance(1)
    for _ in range(1000):
        made.refused(AsgiView(scope("1.2.3.4")))
        clock.advance(1)
    assert len(told(caplog)) == 1
    clock.advance(3600)
    made.refused(AsgiView(scope("1.2.3.4")))
    assert len(told(caplog)) == 2


@pytest.mark.parametrize(
    "client", [{"trusted_proxies": "10.0.0.0/8"}, {"trusted_proxies": "unix"}, {"hops": 1}]
)
def test_nothing_is_told_where_the_settings_say_who_is_believed(
    client: dict[str, Any], clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    made = views({**PLAIN, "client": client}, clock)
    made.refused(made.make(scope("1.2.3.4")))
    assert told(caplog) == []


def test_nothing_is_told_where_the_server_has_unwrapped_the_header_already(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    made = views(PLAIN, clock)
    made.refused(made.make(scope("6.6.6.6, 1.2.3.4", peer="1.2.3.4")))
    made.make(scope('for=6.6.6.6, for="[2001:db8::7]:80"', peer="2001:db8::7", header="forwarded"))
    assert told(caplog) == []


def test_a_user_that_is_never_there_is_told_of_once(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    made = views(BY_USER, clock)
    for number in range(3 * FIRST_REQUESTS):
        assert len(told(caplog)) == (1 if number >= FIRST_REQUESTS else 0)
        view = made.make(scope())
        assert [view.user, view.user] == [None, None]  # two limits that ask are one request
    assert told(caplog)[0].startswith(
        f"the first {FIRST_REQUESTS} requests that were to be counted by user had none"
    )


def test_requests_that_nobody_asks_for_their_user_do_not_count(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    made = views(BY_USER, clock)
    for _ in range(3 * FIRST_REQUESTS):
        made.make(scope())
    assert told(caplog) == []
    for _ in range(FIRST_REQUESTS):
        assert made.make(scope()).user is None
    assert len(told(caplog)) == 1


def test_one_user_is_enough(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    made = views(BY_USER, clock)
    for number in range(3 * FIRST_REQUESTS):
        assert made.make(scope(user="ada" if number == FIRST_REQUESTS - 1 else None)).peer == "10.0.0.1"
        assert made.make(scope(user="ada" if number == 50 else None)).user in ("ada", None)
    assert told(caplog) == []


@pytest.mark.parametrize("rules", [PLAIN, BY_USER])
def test_after_the_first_requests_nothing_is_looked_at_twice(
    rules: dict[str, Any], clock: ManualClock
) -> None:
    made = views(rules, clock)
    for _ in range(FIRST_REQUESTS):
        assert made.make(scope()).user is None
    assert made.make is AsgiView


def test_settings_of_the_client_hold_for_every_request(clock: ManualClock) -> None:
    client = {"trusted_proxies": "10.0.0.0/8", "user": "header:x-user", "trusted": True}
    made = views({**PLAIN, "client": client}, clock)
    for _ in range(2 * FIRST_REQUESTS):
        view = made.make(scope("1.2.3.4"))
        assert isinstance(view, SeenView)
        assert view.peer == "1.2.3.4"


class BrokenClock(ManualClock):
    """A clock that has stopped working."""

    def now_ns(self) -> int:
        raise OSError("no clock")


def test_looking_never_raises() -> None:
    made = views(PLAIN, BrokenClock())
    made.refused(made.make(scope("1.2.3.4")))
    assert made.make(scope("1.2.3.4")).peer == "10.0.0.1"
