"""What the store is asked, and what of it is remembered for a client's next request."""

from __future__ import annotations

from typing import Any

import pytest

from ratelimit_middleware import load_rules
from ratelimit_middleware.checking import Checking
from ratelimit_middleware.request import WsgiView
from ratelimit_middleware.rules.match import Matcher

pytestmark = pytest.mark.arithmetic


def checking(limits: dict[str, Any], **others: Any) -> Checking:
    return Checking(Matcher(load_rules({"limits": limits, **others})), None)


def view(path: str, peer: str | None = "192.0.2.7", **fields: str) -> WsgiView:
    return WsgiView({"REQUEST_METHOD": "GET", "PATH_INFO": path, "REMOTE_ADDR": peer, **fields})


def keys(asked: Any) -> list[str]:
    return [check.key for check in asked[1]]


def test_a_client_known_by_its_address_is_asked_about_in_the_same_words_each_time() -> None:
    asks = checking({"/items": "5/minute"}, always="9/minute")
    for _ in range(2):  # from the second time on it is worth remembering
        asks.asked(view("/items"))
    assert asks.asked(view("/items")) is asks.asked(view("/items"))
    assert keys(asks.asked(view("/items"))) == ["always-1|192.0.2.7", "/items|192.0.2.7"]


def test_what_is_remembered_cannot_be_changed_by_one_of_the_requests_that_share_it() -> None:
    asks = checking({"/items": "5/minute"})
    for _ in range(3):
        assert [type(part) for part in asks.asked(view("/items"))] == [tuple, tuple]


@pytest.mark.parametrize("peers", [("192.0.2.7", "192.0.2.8"), ("192.0.2.7", None), (None, "unix")])
def test_clients_are_told_apart(peers: tuple[str | None, str | None]) -> None:
    asks = checking({"/items": "5/minute"})
    first = [keys(asks.asked(view("/items", peer))) for peer in peers]
    for _ in range(2):
        assert first == [keys(asks.asked(view("/items", peer))) for peer in peers]
    assert first[0] != first[1]


def test_paths_with_other_limits_are_told_apart() -> None:
    asks = checking({"/a": "5/minute", "/b": "5/minute"})
    for _ in range(3):
        assert [keys(asks.asked(view(path))) for path in ("/a", "/b", "/c")] == [
            ["/a|192.0.2.7"],
            ["/b|192.0.2.7"],
            [],
        ]


def test_what_depends_on_more_than_the_address_is_worked_out_each_time() -> None:
    limits = {"/items": ["5/minute", "9/minute per ip+header:X-Key"]}
    asks = checking(limits)
    one, other = (keys(asks.asked(view("/items", HTTP_X_KEY=key))) for key in ("a", "b"))
    assert one[0] == other[0]
    assert one[1] != other[1]
    assert not len(asks._recent)


def test_a_cost_that_depends_on_the_request_is_worked_out_each_time() -> None:
    asks = checking({"/items": {"limit": "50/minute", "cost": "header:X-Cost"}})
    costs = [asks.asked(view("/items", HTTP_X_COST=cost))[1][0].cost for cost in ("2", "3")]
    assert costs == [2, 3]


def test_no_number_of_clients_and_no_length_of_their_names_fills_the_memory() -> None:
    asks = checking({"/items": "5/minute"})
    for number in range(20_000):
        for _ in range(2):
            asks.asked(view("/items", f"client-{number}"))
    assert 4096 <= len(asks._recent) <= 2 * 4096
    before = len(asks._recent)
    for _ in range(2):
        asks.asked(view("/items", "x" * 200))
    assert len(asks._recent) == before
