"""Who gets what, over TCP: tiers, overrides, lists, penalties, shares, shadows and events.

uvicorn on asyncio, hypercorn on trio, gunicorn with threads. The app's clock stands still until a test moves
it. Each test is a client of its own, told apart by the address that the proxy (the test) reports.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.servers import RunningServer, gunicorn, hypercorn, uvicorn

APP = "tests.servers.who_app"
LINE = "ratelimit_middleware.refusals: refused by live of live"


@pytest.fixture(scope="module", params=["uvicorn", "hypercorn-trio", "gunicorn"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    """One server for all tests of this file."""
    log = tmp_path_factory.mktemp("who") / "log"
    serving = {
        "uvicorn": lambda: uvicorn(f"{APP}:asgi_app", log, "--factory", "--no-proxy-headers"),
        "hypercorn-trio": lambda: hypercorn(f"{APP}:asgi_app()", log),
        "gunicorn": lambda: gunicorn(f"{APP}:wsgi_app()", log),
    }
    with serving[request.param]() as running:
        yield running


@pytest.fixture
def client(server: RunningServer) -> Iterator[httpx.Client]:
    """A client that keeps its connection."""
    with httpx.Client(base_url=server.url, timeout=15) as http:
        yield http


def ask(client: httpx.Client, path: str, address: str, **headers: str) -> httpx.Response:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return client.get(path, headers={"x-forwarded-for": address, **sent})


def admitted(client: httpx.Client, path: str, address: str, **headers: str) -> int:
    """How many of eight requests pass."""
    statuses = [ask(client, path, address, **headers).status_code for _ in range(8)]
    assert set(statuses) <= {200, 429}
    return statuses.count(200)


def state(client: httpx.Client) -> Any:
    return client.get("/state").json()


@pytest.mark.parametrize(
    ("account", "passes"),
    [("free", 2), ("pro", 6), ("own", 5), ("staff", 8), ("gold", 2), ("broken", 2), ("", 2)],
)
def test_a_function_tells_the_tier(client: httpx.Client, account: str, passes: int) -> None:
    headers = {"x_account": account} if account else {}
    assert admitted(client, "/tiers", f"2001:db8:{account.encode().hex()[:4] or 0}::1", **headers) == passes


def test_a_header_tells_the_tier_where_the_proxy_is_trusted(client: httpx.Client) -> None:
    assert admitted(client, "/header/a", "-", x_plan="pro") == 6
    assert admitted(client, "/untrusted/a", "-", x_plan="pro") == 2


@pytest.mark.parametrize(
    ("address", "passes"),
    [("198.51.100.1", 4), ("198.51.100.17", 1), ("198.51.100.9", 8), ("198.51.100.200", 2)],
)
def test_overrides_go_by_the_value_and_then_by_globs(client: httpx.Client, address: str, passes: int) -> None:
    assert admitted(client, "/overrides", address) == passes


def test_a_limit_of_a_tiers_own_leaves_the_slots(client: httpx.Client, server: RunningServer) -> None:
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(httpx.get, f"{server.url}/slots", headers={"x-account": "own"}, timeout=15)
        while "admitted slots own" not in state(client)["told"]:
            pass  # each look is a round trip
        refused = client.get("/slots", headers={"x-account": "own"})
        client.get("/open")
        assert (refused.status_code, first.result().status_code) == (429, 200)
    again = [client.get("/slots", headers={"x-account": "own"}).status_code for _ in range(3)]
    assert again == [200] * 3


def test_an_override_waits_in_the_queue_as_its_own_numbers_let_it(server: RunningServer) -> None:
    def status(address: str) -> int:
        with httpx.Client(base_url=server.url, timeout=15) as client:
            return ask(client, "/queue", address).status_code

    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(status, ["198.51.100.50"] * 2))
    assert answers == [200, 200]  # with the wait of the rule's own limit, 1 ms, one would be refused


@pytest.mark.parametrize("address", ["203.0.113.9", "2001:db8:bad:7::1"])
def test_who_is_in_the_file_of_the_denied_is_refused(client: httpx.Client, address: str) -> None:
    refused = ask(client, "/live", address)

    assert refused.status_code == 403
    assert refused.json()["detail"] == "Write to abuse@example.com."
    assert "retry-after" not in refused.headers


def test_the_exempt_pass_uncounted_and_nobody_claims_to_be_one(client: httpx.Client) -> None:
    assert admitted(client, "/login", "192.0.2.3") == 8
    assert admitted(client, "/login", "198.51.100.30", x_internal="let-me-in") == 8
    assert admitted(client, "/login", "198.51.100.30", x_internal="let-me-im") == 1
    assert admitted(client, "/login", "192.0.2.3, 198.51.100.31") == 1


def test_who_does_not_stop_is_blocked_longer_each_time_and_others_are_not(client: httpx.Client) -> None:
    address, told = "198.51.100.21", []
    for block in (60, 300, 3600, 3600):
        assert ask(client, "/login", address).status_code == 200
        waits = [int(ask(client, "/login", address).headers["retry-after"]) for _ in range(3)]
        told.append(waits[1:])
        assert ask(client, "/login", f"198.51.100.{100 + len(told)}").status_code == 200
        client.get(f"/advance?{block}")
    assert told == [[60, 60], [300, 300], [3600, 3600], [3600, 3600]]


def test_a_quarter_of_the_clients_is_refused_and_always_the_same(client: httpx.Client) -> None:
    addresses = [f"198.18.0.{n}" for n in range(64)]
    for address in addresses:
        ask(client, "/share", address)
    refused = [{a for a in addresses if ask(client, "/share", a).status_code == 429} for _ in range(2)]

    assert refused[0] == refused[1]
    assert len(refused[0]) == 15  # of 64; by the hash of the client, so the same on every server


def test_a_shadow_refuses_nobody_and_says_what_it_would_do(client: httpx.Client) -> None:
    before = state(client)["rules"].get("candidate", [0, 0])
    answers = [ask(client, "/live", "198.51.100.22") for _ in range(4)]

    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    said = [answer.headers["x-ratelimit-shadow"] for answer in answers]
    assert said == ['"candidate";r=0;t=3600', *['"candidate";r=0;t=3600;refused'] * 3]
    assert state(client)["rules"]["candidate"] == [before[0], before[1] + 3]


def test_hooks_hear_of_every_verdict_also_after_one_that_fails(
    client: httpx.Client, server: RunningServer
) -> None:
    before = state(client)
    for address, account in (("198.51.100.23", "pro"), ("203.0.113.9", ""), ("192.0.2.3", "")):
        ask(client, "/tiers", address, x_account=account)
    after = state(client)

    assert after["told"][len(before["told"]) :] == ["admitted tiers pro", "denied", "exempt"]
    counted = [after["verdicts"][kind] - before["verdicts"].get(kind, 0) for kind in ("denied", "exempt")]
    assert counted == [1, 1]
    assert server.log().count("a hook with a bug") >= 1


def test_a_flood_of_refusals_leaves_three_lines_a_minute(client: httpx.Client, server: RunningServer) -> None:
    client.get("/advance?3600")
    before = server.log().count(LINE)
    with ThreadPoolExecutor(4) as pool:
        statuses = list(pool.map(lambda _: ask(client, "/live", "198.51.100.24").status_code, range(40)))
    client.get("/advance?60")
    ask(client, "/live", "198.51.100.24")

    assert statuses.count(200) == 3
    log = server.log()
    assert log.count(LINE) - before == 4
    assert "3540.000 s to wait (34 more since the last line)" in log
