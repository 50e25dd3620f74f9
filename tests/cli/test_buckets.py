"""`ratelimits keys`, `peek`, `reset`: the store of a rule file from the command line."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from redis import Redis

from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.cli import main
from ratelimit_middleware.registry import LimiterRegistry
from ratelimit_middleware.request import WsgiView
from ratelimit_middleware.rules.load import load_rules
from ratelimit_middleware.stores.base import Check
from ratelimit_middleware.stores.open import open_store
from tests.redis_server import RedisServer

RULES = """
store: {url: "STORE", on_error: deny}
limits:
  POST /login: {name: login, limit: 2/hour, penalty: {after: 2, block: [1m]}}
  /search: [30/hour per header:X-Key, 300/hour per ip]
  /me: 5/hour per user
"""

Knock = Callable[..., None]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(params=["shared", "redis"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A rule file on an empty store."""
    url = f"shared://{tmp_path}/limits"
    if request.param == "redis":
        url = f"{request.getfixturevalue('redis_server').url}?prefix={tmp_path.name}:"
    rules = tmp_path / "ratelimit.yaml"
    rules.write_text(RULES.replace("STORE", url))
    yield str(rules)
    main(["reset", str(rules), "--all"])


@pytest.fixture
def knock(file: str) -> Iterator[Knock]:
    """Sends requests to the rules of the file."""
    ruleset = load_rules(file)
    store = open_store(ruleset.store)
    registry = LimiterRegistry(ruleset, store)

    def send(path: str, ip: str = "192.0.2.1", times: int = 1, **headers: str) -> None:
        environ = {name if name == "REMOTE_USER" else f"HTTP_{name}": text for name, text in headers.items()}
        for _ in range(times):
            registry.admit(
                WsgiView({"PATH_INFO": path, "REQUEST_METHOD": "POST", "REMOTE_ADDR": ip, **environ})
            )

    yield send
    store.close()


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def command(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        return (code, *capsys.readouterr())

    return command


def test_keys_lists_the_buckets(file: str, knock: Knock, run: Run) -> None:
    knock("/login")
    knock("/search", X_KEY="secret")
    assert run("keys", file) == (
        0,
        "/search%232|192.0.2.1\n/search|#8f64bfc250ac98ecf5a0f6a52cde7ec5\nlogin|192.0.2.1\n3 buckets\n",
        "",
    )


def test_a_rule_and_a_client_narrow_the_list(file: str, knock: Knock, run: Run) -> None:
    knock("/login")
    knock("/login", "192.0.2.2")
    knock("/search", X_KEY="secret")
    assert run("keys", file, "--rule", "login")[1] == "login|192.0.2.1\nlogin|192.0.2.2\n2 buckets\n"
    assert run("keys", file, "--client", "192.0.2.2")[1] == "login|192.0.2.2\n1 bucket\n"
    assert run("keys", file, "--rule", "/search", "--client", "192.0.2.1")[1].endswith("\n1 bucket\n")
    assert run("keys", file, "--rule", "login", "--client", "203.0.113.9")[1] == "0 buckets\n"


def test_a_client_is_found_by_what_is_hashed_and_what_is_escaped(file: str, knock: Knock, run: Run) -> None:
    knock("/search", X_KEY="secret")
    knock("/me", REMOTE_USER="ann|bob*")
    knock("/login", "2001:db8::1")
    assert run("keys", file, "--client", "secret")[1].endswith("\n1 bucket\n")
    assert run("keys", file, "--client", "ann|bob*")[1] == "/me|ann%7Cbob%2A\n1 bucket\n"
    assert run("keys", file, "--client", "2001:db8::ffff")[1] == "login|2001:db8::/64\n1 bucket\n"


def test_peek_tells_what_is_left(file: str, knock: Knock, run: Run) -> None:
    knock("/me", REMOTE_USER="ann", times=2)
    assert run("peek", file) == (0, "/me|ann  3 of 5 left\n1 bucket\n", "")
    knock("/login", times=2)
    assert "login|192.0.2.1  0 of 2 left, the next one in 35" in run("peek", file)[1]
    knock("/login", times=2)
    assert "login%23penalty|192.0.2.1  blocked for " in run("peek", file)[1]


def test_peek_names_the_buckets_that_cannot_be_read(
    redis_server: RedisServer, tmp_path: Path, run: Run
) -> None:
    prefix, rules = f"{tmp_path.name}:", tmp_path / "ratelimit.yaml"
    rules.write_text(RULES.replace("STORE", f"{redis_server.url}?prefix={prefix}"))
    store = open_store(load_rules(str(rules)).store)
    store.take([Check("login|192.0.2.1", SlidingWindow(2, 3600), "login|*")])
    store.close()
    with Redis.from_url(redis_server.url) as client:
        client.rpush(f"{prefix}login|192.0.2.2", "x")
        client.expire(f"{prefix}login|192.0.2.2", 60)
    code, out, _ = run("peek", str(rules))
    assert code == 1
    assert out == (
        "login|192.0.2.1  1 of 2 left\n"
        "login|192.0.2.2  cannot be read\n"
        "2 buckets, 1 of them cannot be read: `ratelimits reset` takes such a bucket away\n"
    )
    code, out, _ = run("peek", str(rules), "--json", "--client", "192.0.2.2")
    assert (code, json.loads(out)) == (1, [{"bucket": "login|192.0.2.2", "error": "cannot be read"}])
    assert run("reset", str(rules), "--client", "192.0.2.2")[0] == 0
    assert run("peek", str(rules))[0] == 0
    run("reset", str(rules), "--all")


@pytest.mark.parametrize("name", ["\x1b[2J", "1\nlogin|192.0.2.1", "\u202e", "\x9b2J"])
def test_a_foreign_key_is_shown_on_one_line_and_does_nothing_to_the_terminal(
    redis_server: RedisServer, tmp_path: Path, run: Run, name: str
) -> None:
    prefix, rules = f"{tmp_path.name}:", tmp_path / "ratelimit.yaml"
    rules.write_text(RULES.replace("STORE", f"{redis_server.url}?prefix={prefix}"))
    with Redis.from_url(redis_server.url) as client:
        client.set(f"{prefix}login|{name}", "x", ex=60)
    for command in ("keys", "peek"):
        line, count = run(command, str(rules))[1].splitlines()
        assert line.isprintable()
        assert line.startswith("login|")
        assert count.startswith("1 bucket")
    assert run("reset", str(rules), "--all")[0] == 0
    assert run("keys", str(rules))[1] == "0 buckets\n"


def test_whoever_types_a_command_waits_longer_than_a_request(tmp_path: Path, run: Run) -> None:
    server, rules = RedisServer(tmp_path), tmp_path / "ratelimit.yaml"
    rules.write_text(f"store: {{url: '{server.url}', timeout: 1ms}}\ndefault: 5/minute")
    server.send_signal(signal.SIGSTOP)
    goes_on = threading.Timer(0.3, server.send_signal, [signal.SIGCONT])
    goes_on.start()
    try:
        assert run("keys", str(rules)) == (0, "0 buckets\n", "")
    finally:
        goes_on.join()
        server.kill()


def test_json_is_for_programs(file: str, knock: Knock, run: Run) -> None:
    knock("/me", REMOTE_USER="ann", times=6)
    (row,) = json.loads(run("peek", file, "--json")[1])
    assert 3500 < row.pop("retry_after_s") <= 3600
    assert 3500 < row.pop("reset_after_s") <= 3600
    assert row == {"bucket": "/me|ann", "allowed": False, "limit": 5, "remaining": 0, "penalty": False}
    assert json.loads(run("keys", file, "--json", "--rule", "login")[1]) == []
    assert json.loads(run("reset", file, "--json", "--client", "ann")[1]) == [{"bucket": "/me|ann"}]


def test_reset_forgets_the_buckets_of_a_client_its_penalty_included(
    file: str, knock: Knock, run: Run
) -> None:
    knock("/login", times=5)
    knock("/login", "192.0.2.2")
    asked = ("reset", file, "--rule", "login", "--client", "192.0.2.1")
    assert run(*asked)[1] == "login%23penalty|192.0.2.1\nlogin|192.0.2.1\n2 buckets\n"
    assert run("keys", file)[1] == "login|192.0.2.2\n1 bucket\n"
    assert run("reset", file, "--all")[1] == "login|192.0.2.2\n1 bucket\n"


def test_reset_wants_to_know_of_what(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["reset", file])
    assert ended.value.code == 2
    assert "say which buckets: --rule RULE, --client CLIENT, or --all" in capsys.readouterr().err


def test_a_rule_that_is_not_in_the_file_is_named(file: str, run: Run) -> None:
    code, out, err = run("keys", file, "--rule", "logn")
    assert (code, out) == (2, "")
    assert "unknown rule `logn`: did you mean `login`?" in err


def test_counts_in_memory_cannot_be_seen_from_outside(tmp_path: Path, run: Run) -> None:
    rules = tmp_path / "ratelimit.yaml"
    rules.write_text("default: 5/minute")
    for command in (["keys"], ["peek"], ["reset", "--all"]):
        code, _, err = run(command[0], str(rules), *command[1:])
        assert code == 2
        assert "the counts are in `memory://`, inside the processes of the app" in err


def test_a_file_with_mistakes_and_a_store_that_is_gone_have_codes_of_their_own(
    tmp_path: Path, run: Run
) -> None:
    rules = tmp_path / "ratelimit.yaml"
    rules.write_text("default: 5/minuet")
    assert run("keys", str(rules))[0] == 1
    rules.write_text(
        f'store: {{url: "unix://:secret@{tmp_path}/none.sock", on_error: deny}}\ndefault: 5/minute'
    )
    code, out, err = run("keys", str(rules))
    assert (code, out) == (3, "")
    assert "none.sock cannot answer" in err
    assert "secret" not in err
