"""What `ratelimits explain` prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from ratelimit_middleware.cli.explain import Question, explain

pytestmark = pytest.mark.arithmetic

RULES = """
limits:
  GET /items/{id}: 3/second burst 2 per header:X-API-Key; 100/minute
  /v2/**: {limit: 1/second, mode: shadow, name: v2}
  /health: unlimited
  /busy: {limit: 1/minute, status: 503}
  WS /live/{room}: 5/minute
  POST /login: 5/minute
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "rules.yaml"
    path.write_text(RULES)
    return str(path)


def explained(file: str, *question: str, repeat: int = 1, headers: tuple[tuple[str, str], ...] = ()) -> str:
    method, path = question
    text, code = explain(file, Question(method, path, "192.0.2.7", headers, repeat))
    assert code == 0
    return text


def test_each_limit_is_shown_with_its_bucket_and_then_the_answers(file: str) -> None:
    key = (("X-API-Key", "abc"),)

    assert (
        explained(file, "GET", "/items/7", repeat=4, headers=key)
        == """\
GET /items/7 from 192.0.2.7

get-items-id: 3/second burst 2
  rule    GET /items/{id}
  key     header:x-api-key
  bucket  GET /items/{id}|#cf4ab791c62b8d2b2109c90275287816
  cost    1

get-items-id-2: 100/minute
  rule    GET /items/{id}
  key     ip
  bucket  GET /items/{id}%232|192.0.2.7
  cost    1

requests 1 to 2: admitted
  RateLimit-Policy: "get-items-id";q=2;w=1, "get-items-id-2";q=100;w=60
  RateLimit: "get-items-id";r=0;t=1

requests 3 to 4: refused with 429 Too Many Requests
  Retry-After: 1
  RateLimit-Policy: "get-items-id";q=2;w=1, "get-items-id-2";q=100;w=60
  RateLimit: "get-items-id";r=0;t=1
  Cache-Control: no-store
  Content-Type: application/problem+json
  Content-Length: 228
"""
    )


def test_a_shadow_limit_is_marked_and_sends_nothing(file: str) -> None:
    assert (
        explained(file, "GET", "/v2/x", repeat=9)
        == """\
GET /v2/x from 192.0.2.7

v2: 1/second, shadow: never refuses
  rule    v2
  key     ip
  bucket  v2|192.0.2.7
  cost    1

requests 1 to 9: admitted
"""
    )


@pytest.mark.parametrize(
    ("path", "reason"), [("/health", "unlimited by /health"), ("/nowhere", "no rule matches")]
)
def test_a_request_that_nothing_counts_has_a_reason(file: str, path: str, reason: str) -> None:
    assert explained(file, "GET", path) == f"GET {path} from 192.0.2.7\n\n{reason}\n\nrequest 1: admitted\n"


def test_a_rule_with_a_status_of_its_own_is_shown_with_it(file: str) -> None:
    assert "request 2: refused with 503 Service Unavailable\n" in explained(file, "GET", "/busy", repeat=2)


def test_a_handshake_is_asked_for_as_ws(file: str) -> None:
    assert "rule    WS /live/{room}" in explained(file, "WS", "/live/7")
    assert "no rule matches" in explained(file, "GET", "/live/7")


@pytest.mark.parametrize("path", ["/items/%37", "/items/7?page=2", "//items/7", "/x/../items/7"])
def test_a_path_is_read_as_a_server_reads_it(file: str, path: str) -> None:
    assert "rule    GET /items/{id}" in explained(file, "GET", path)


@pytest.mark.parametrize("top", ["case_sensitive: false", ""])
def test_an_unlimited_route_is_named_in_whatever_case_it_holds(tmp_path: Path, top: str) -> None:
    own = "" if top else ", case_sensitive: false"
    path = tmp_path / "rules.yaml"
    path.write_text(f"{top}\nlimits:\n  /Health: {{limit: unlimited{own}}}\n")

    assert "unlimited by /Health" in explained(str(path), "GET", "/health")
    preflight = (("origin", "https://a.example"), ("access-control-request-method", "GET"))
    assert "unlimited by /Health" in explained(str(path), "OPTIONS", "/health", headers=preflight)


def test_asking_twice_gives_the_same_text(file: str) -> None:
    assert explained(file, "POST", "/login", repeat=9) == explained(file, "POST", "/login", repeat=9)


def lose(_view: object, _verdict: object) -> object:
    """A responder with a bug."""
    raise LookupError("lost")


def test_a_responder_that_fails_is_told(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(f"default: {{limit: 1/minute, response: {{responder: 'python:{__name__}:lose'}}}}\n")
    text = explained(str(path), "GET", "/", repeat=3)

    assert "requests 2 to 3: refused with 429 Too Many Requests\n" in text
    assert text.endswith("\nthe own responder failed: LookupError: lost\n")


def test_a_file_with_a_mistake_is_answered_with_the_mistake(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text("default: 5/minuet\n")
    text, code = explain(str(path), Question("GET", "/"))

    assert code == 1
    assert "did you mean `minute`?" in text


def rules_of(tmp_path: Path, text: str) -> str:
    path = tmp_path / "rules.yaml"
    path.write_text(text)
    return str(path)


APP = "python:tests.rules.app_functions"


@pytest.mark.parametrize(
    "rule",
    [
        f"2/minute per {APP}:tenant_async",
        f"{APP}:plan_limit_async",
        f"{{limit: 2/m, cost: '{APP}:weight_async'}}",
    ],
)
def test_async_functions_are_awaited(tmp_path: Path, rule: str) -> None:
    text = explained(rules_of(tmp_path, f"default: {rule}\n"), "GET", "/", repeat=3)

    assert "requests 1 to 2: admitted\n" in text
    assert "request 3: refused with 429 Too Many Requests\n" in text


def test_a_function_that_fails_is_told_with_the_answer(tmp_path: Path) -> None:
    text = explained(rules_of(tmp_path, f"default: {APP}:broken\n"), "GET", "/")

    assert "\nthe limits cannot be checked: LookupError: no such tenant\n" in text
    assert "request 1: refused with 503 Service Unavailable\n" in text


def test_a_user_may_be_posed_as(tmp_path: Path) -> None:
    file = rules_of(tmp_path, "default: {limit: 5/s per user, overrides: {ann: 9/s}}\n")
    text, code = explain(file, Question("GET", "/", user="ann"))

    assert code == 0
    assert "default: 9/second\n" in text
    assert "bucket  default|ann\n" in text
    assert "bucket  default|!127.0.0.1\n" in explain(file, Question("GET", "/"))[0]


def test_a_request_that_lacks_a_part_of_the_key_has_its_reason(tmp_path: Path) -> None:
    file = rules_of(tmp_path, "default: {limit: 5/s per user, missing: deny}\n")
    text = explained(file, "GET", "/")

    assert "\ndefault: the request lacks a part of the key, and `missing: deny`\n" in text
    assert "request 1: refused with 429" in text


def test_the_client_behind_a_trusted_proxy_is_found(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text("client: {trusted_proxies: 10.0.0.0/8}\ndefault: 5/minute\n")
    headers = (("X-Forwarded-For", "6.6.6.6, 198.51.100.7"),)
    for peer, client in (("10.0.0.5", "198.51.100.7"), ("192.0.2.7", "192.0.2.7")):
        text, _ = explain(str(path), Question("GET", "/", peer, headers))
        assert f"  bucket  default|{client}\n" in text


WHO = """
client: {user: "header:X-User", trusted: true}
tiers:
  {by: "header:X-Plan", trusted: true, free: {scale: 1}, pro: {scale: 10}, own: 9/second, staff: unlimited}
limits:
  /api:
    name: api
    limit: 2/minute per user
    concurrency: 3
    tiers: true
    overrides: {"bot-*": 1/minute, vip: unlimited}
    charge: {on_status: [401, 403, 5xx]}
    penalty: {after: 2, block: [1m, 90s, 2h]}
  /render: {limit: 10/second per global, behavior: queue, queue: {max_waiting: 3}}
  /chat: {limit: 1000/minute, cost: {reserve: 10, actual: bytes}, enforce: 25%, exempt: {methods: POST}}
  /found: {limit: 5/minute, charge: "python:tests.rules.app_functions:broken"}
  /who: {limit: [5/minute per user, 5/hour], missing: skip}
  /said: "python:tests.rules.app_functions:plan_limit"
unmatched_routes: skip
default: 5/minute
"""


def shown(
    tmp_path: Path, method: str, path: str, *, user: str | None = None, repeat: int = 1, **headers: str
) -> str:
    sent = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return explain(rules_of(tmp_path, WHO), Question(method, path, "192.0.2.7", sent, repeat, user))[0]


def test_tiers_overrides_charges_and_penalties_stand_with_their_limit(tmp_path: Path) -> None:
    text = shown(tmp_path, "GET", "/api", user="bot-7", repeat=3)

    assert (
        """\
api: 1/minute
  rule    api
  key     user
  bucket  api|bot-7
  cost    1
  numbers for the override `bot-*`
  charge  given back unless the status is 401, 403, 500-599
  penalty after 2 refusals in a row: blocked for 1m, 90s, 2h

api-2: 3 at a time
  rule    api
  key     ip
  bucket  api%23in-progress|192.0.2.7
  cost    1
  numbers for requests of no tier
  charge  given back at the end of the response

request 1: admitted
"""
        in text
    )
    assert "request 2: refused with 429 Too Many Requests\n" in text
    assert "request 3: refused with 429 Too Many Requests, blocked by the penalty\n" in text


@pytest.mark.parametrize(
    ("plan", "first", "slots", "whose"),
    [
        ("pro", "20/minute", 30, "for the tier `pro`"),
        ("own", "9/second", 3, "for the tier `own`"),
        ("gold", "2/minute", 3, "for requests of no tier, the file names no `gold`"),
    ],
)
def test_the_numbers_of_a_tier_are_shown(
    tmp_path: Path, plan: str, first: str, slots: int, whose: str
) -> None:
    text = shown(tmp_path, "GET", "/api", user="ann", X_Plan=plan)

    assert f"\napi: {first}\n" in text
    assert f"\napi-2: {slots} at a time\n" in text
    assert text.count(f"  numbers {whose}\n") == 2


def test_a_limit_that_matches_and_does_not_count_says_why(tmp_path: Path) -> None:
    assert "because unlimited for the override `vip`\n" in shown(tmp_path, "GET", "/api", user="vip")
    staff = shown(tmp_path, "GET", "/api", X_Plan="staff")
    assert staff.count(", does not count\n") == staff.count("because unlimited for the tier `staff`\n") == 2
    exempt = shown(tmp_path, "POST", "/chat")
    assert "because the request is on the list `exempt` of the rule\n" in exempt
    assert "\ndefault: 5/minute\n" in exempt
    assert "charge  given back if no route of the app fits\n" in exempt
    lacking = shown(tmp_path, "GET", "/who")
    assert "because the request lacks a part of the key, and `missing: skip`\n" in lacking
    assert "told by tests.rules.app_functions:plan_limit\n" in shown(tmp_path, "GET", "/said", x_limit="3/s")


def test_a_queue_a_share_and_what_is_settled_are_shown(tmp_path: Path) -> None:
    assert "  waits   at most 0.3 s\n" in shown(tmp_path, "GET", "/render")
    chat = shown(tmp_path, "GET", "/chat")
    assert "  enforce for 25% of the clients: this one is " in chat
    assert "  charge  settled to bytes of the response\n" in chat
    assert "given back unless tests.rules.app_functions:broken says" in shown(tmp_path, "GET", "/found")


def test_a_user_may_be_posed_as_wherever_the_file_looks_for_users(tmp_path: Path) -> None:
    assert "bucket  api|ann\n" in shown(tmp_path, "GET", "/api", X_User="ann")
    assert "bucket  api|bob\n" in shown(tmp_path, "GET", "/api", X_User="ann", user="bob")
    assert "bucket  api|!192.0.2.7\n" in shown(tmp_path, "GET", "/api")
    file = rules_of(tmp_path, f"client: {{user: '{APP}:tenant_async'}}\ndefault: 5/minute per user\n")
    assert "bucket  default|bob\n" in explain(file, Question("GET", "/", user="bob"))[0]


def test_a_request_on_a_list_of_the_file_says_so(tmp_path: Path) -> None:
    lists = "deny: {ips: 192.0.2.7}\nexempt: {headers: {x-internal: let-me-in}}\ndefault: 5/minute\n"
    file = rules_of(tmp_path, lists)

    assert "\nthe request is on the list `deny`\n" in explained(file, "GET", "/")
    passed = explain(file, Question("GET", "/", headers=(("X-Internal", "let-me-in"),)))[0]
    assert "\nthe request is on the list `exempt`\n" in passed
    assert "\ndefault:" not in passed


def test_limits_on_messages_are_shown_after_those_on_handshakes(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(
        "limits:\n"
        "  WS /live:\n"
        "    limit: 5/minute\n"
        "    messages: 20/second burst 40; 9/second per user\n"
        "    on_excess: drop\n"
        "default: {limit: 9/minute, mode: shadow}\n"
    )
    assert """\

ws-live-messages: 20/second burst 40, messages, on excess drop
  rule    WS /live
  key     each connection
  bucket  in this process

ws-live-messages-2: 9/second, messages, on excess drop
  rule    WS /live
  key     user
  bucket  WS /live%23messages-2|!192.0.2.7

request 1: admitted
""" in explained(str(path), "WS", "/live")
    assert "messages" not in explained(str(path), "GET", "/live")
