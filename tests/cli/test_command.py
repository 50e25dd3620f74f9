"""The command as a process: what it prints, where, and its exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ratelimit_middleware import __version__
from ratelimit_middleware.cli import main

ROOT = Path(__file__).parent.parent.parent
GOOD = "limits:\n  GET /items/{id}: 2/minute\ndefault: 300/minute\n"
BAD = "limits:\n  /a: 5/minuet\n  /b: {limit: 5/minute, behaviour: reject}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a good and a bad rule file."""
    (tmp_path / "good.yaml").write_text(GOOD)
    (tmp_path / "bad.yaml").write_text(BAD)
    return tmp_path


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`python -m ratelimit_middleware …` in a folder."""
    return subprocess.run(
        [sys.executable, "-m", "ratelimit_middleware", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_good_file_is_ok(folder: Path) -> None:
    done = run(folder, "check", "good.yaml")

    assert (done.returncode, done.stdout, done.stderr) == (0, "good.yaml: ok, 2 rules\n", "")


def test_every_mistake_of_every_file_is_printed(folder: Path) -> None:
    done = run(folder, "check", "bad.yaml", "good.yaml", "missing.yaml")

    assert done.returncode == 1
    assert done.stderr == ""
    assert "bad.yaml:2:7: unknown unit of time `minuet`: did you mean `minute`?" in done.stdout
    assert "bad.yaml:3:25: unknown key `behaviour`: did you mean `behavior`?" in done.stdout
    assert "good.yaml: ok, 2 rules\n" in done.stdout
    assert "missing.yaml: the rule file cannot be read: No such file or directory" in done.stdout
    assert f"(a relative path, looked up in {folder})" in done.stdout


def test_a_function_beside_the_rule_file_is_found(folder: Path) -> None:
    (folder / "shop.py").write_text("def refuse(view, verdict):\n    return 420, {}, 'no'\n")
    (folder / "own.yaml").write_text(
        "default: {limit: 1/minute, response: {responder: 'python:shop:refuse'}}\n"
    )

    assert run(folder, "check", "own.yaml").returncode == 0
    assert (
        "request 2: refused with 420 Refused"
        in run(folder, "explain", "own.yaml", "GET", "/", "--repeat", "2").stdout
    )


def test_explain_tells_what_happens_to_a_request(folder: Path) -> None:
    done = run(folder, "explain", "good.yaml", "get", "/items/7", "--ip", "2001:db8::7", "--repeat", "3")

    assert done.returncode == 0
    assert "GET /items/7 from 2001:db8::7\n" in done.stdout
    assert "bucket  GET /items/{id}|2001:db8::/64\n" in done.stdout
    assert "request 3: refused with 429 Too Many Requests\n  Retry-After: 60\n" in done.stdout


def test_what_the_terminal_cannot_show_is_escaped(folder: Path) -> None:
    (folder / "umlaut.yaml").write_text("limits: {/größe: 5/minute}\n", "utf-8")
    done = run(folder, "explain", "umlaut.yaml", "GET", "/gr%C3%B6%C3%9Fe", PYTHONIOENCODING="ascii")

    assert done.returncode == 0
    assert "rule    /gr\\xf6\\xdfe\n" in done.stdout


EXPLAIN = ("explain", "good.yaml", "GET", "/")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "the following arguments are required: COMMAND"),
        (("chekc", "good.yaml"), "invalid choice: 'chekc'"),
        (("check",), "the following arguments are required: FILE"),
        (("explain", "good.yaml", "GET"), "the following arguments are required: PATH"),
        (("explain", "good.yaml", "GE T", "/"), "`GE T` is not a method: write GET, POST, … or WS"),
        (("explain", "good.yaml", "", "/"), '`""` is not a method'),
        (("explain", "good.yaml", "GET", "items"), "`items` is not a path: it begins with `/`"),
        (("explain", "good.yaml", "GET", "/\x1b[2J"), "characters to be percent-encoded"),
        (("explain", "good.yaml", "GET", "/\udcff"), "characters to be percent-encoded"),
        ((*EXPLAIN, "--ip", "localhost"), "`localhost` is not an IP address: write it as `192.0.2.7`"),
        ((*EXPLAIN, "--ip", "192.0.2.7:80"), "is not an IP address"),
        ((*EXPLAIN, "-H", "X-API-Key"), "`X-API-Key` is not a header: write it as `X-API-Key: abc`"),
        ((*EXPLAIN, "-H", ": abc"), "is not a header"),
        ((*EXPLAIN, "-H", "X-A: b\r\nX-C: d"), "the value of the header `X-A` is not plain text"),
        ((*EXPLAIN, "-H", "X-A: €"), "the value of the header `X-A` is not plain text"),
        ((*EXPLAIN, "--repeat", "0"), "`0` is not a whole number from 1 to 100000"),
        ((*EXPLAIN, "--repeat", "1e9"), "`1e9` is not a whole number"),
        ((*EXPLAIN, "--repeat", "9" * 5000), "is not a whole number"),
        ((*EXPLAIN, "--repeat", "²"), "is not a whole number"),
        ((*EXPLAIN, "--nonsense"), "unrecognized arguments: --nonsense"),
    ],
)
def test_an_argument_that_makes_no_sense_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    with pytest.raises(SystemExit) as end:
        main([str(folder / word) if word == "good.yaml" else word for word in arguments])

    assert end.value.code == 2
    assert message in capsys.readouterr().err


def test_a_wrong_argument_ends_the_process_with_2(folder: Path) -> None:
    done = run(folder, "explain", "good.yaml", "GET", "items")

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("usage: ratelimits explain ")
    assert "Traceback" not in done.stderr


def test_help_names_both_commands(folder: Path) -> None:
    done = run(folder, "--help")

    assert done.returncode == 0
    assert "check" in done.stdout
    assert "explain" in done.stdout


def test_the_version_is_that_of_the_package(folder: Path) -> None:
    done = run(folder, "--version")

    assert (done.returncode, done.stdout) == (0, f"ratelimits {__version__}\n")


ODD = "limits:\n  /a: 5/minute\n  /b: [5/minute, 9/minute]\n"


def test_warnings_stand_below_the_file_they_are_about(folder: Path) -> None:
    (folder / "odd.yaml").write_text(ODD)
    done = run(folder, "check", "odd.yaml", "good.yaml")

    first, second, third = done.stdout.splitlines()
    assert done.returncode == 0
    assert first == "odd.yaml: ok, 2 rules, 1 warning"
    assert second.startswith("odd.yaml:3:3: RL101 `9/minute per ip` never refuses what ")
    assert second.endswith("(docs/lint.md#rl101)")
    assert third == "good.yaml: ok, 2 rules"


def test_a_warning_fails_a_strict_check(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "odd.yaml").write_text(ODD)

    assert main(["check", "--strict", str(folder / "odd.yaml")]) == 1
    assert main(["check", "--strict", str(folder / "good.yaml")]) == 0
    assert "RL101" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "environment", "warned"),
    [
        (["--workers", "4"], "", "4 workers"),
        ([], "3", "3 workers"),
        (["--workers", "1"], "3", ""),
        ([], "1", ""),
        ([], "many", ""),
        ([], "9" * 5000, ""),
    ],
)
def test_memory_is_warned_of_where_several_workers_are_told(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    environment: str,
    warned: str,
) -> None:
    monkeypatch.setenv("WEB_CONCURRENCY", environment)

    assert main(["check", *arguments, str(folder / "good.yaml")]) == 0
    out = capsys.readouterr().out
    assert ("RL501" in out, warned in out) == (bool(warned), True)


def test_a_user_is_given_to_explain(folder: Path) -> None:
    (folder / "user.yaml").write_text("default: 5/s per user\n")
    done = run(folder, "explain", "user.yaml", "GET", "/", "--user", "ann")

    assert "bucket  default|ann\n" in done.stdout
    assert "is nobody" in run(folder, "explain", "user.yaml", "GET", "/", "--user", "").stderr


APP = """
from starlette.applications import Starlette
from starlette.routing import Host, Route

def page(request): ...

app = Starlette(routes=[
    Route("/items/{id}", page, methods=["GET", "POST"]),
    Host("api.example.com", Starlette(routes=[Route("/other", page, methods=["POST"])])),
])
def create_app():
    return app
not_an_app = 1
"""
NO_DEFAULT = "limits:\n  GET /items/{id}: 2/minute\n  /items/7: 1/minute\n  /itmes: 1/minute\n"


@pytest.fixture
def shop(folder: Path) -> Path:
    """The folder with an app beside the rule files."""
    (folder / "shop.py").write_text(APP)
    (folder / "rules.yaml").write_text(NO_DEFAULT)
    return folder


def test_routes_shows_the_rules_of_each_route_and_what_is_left_over(shop: Path) -> None:
    done = run(shop, "routes", "shop:app", "rules.yaml")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "route                  methods   rules\n"
        "/items/{id}            GET,HEAD  GET /items/{id}, /items/7 (some)\n"
        "/items/{id}            POST      /items/7 (some)\n"
        "api.example.com/other  POST      -\n"
        "\n"
        "may go without any limit:\n"
        "  POST /items/{id}\n"
        "  POST api.example.com/other\n"
        "\n"
        "rules that no route can match:\n"
        "  /itmes\n"
    )


def test_routes_fails_where_something_goes_free_only_if_asked_to(shop: Path) -> None:
    assert run(shop, "routes", "shop:create_app()", "rules.yaml", "--fail-unlimited").returncode == 1
    assert run(shop, "routes", "shop:app", "good.yaml", "--fail-unlimited").returncode == 0


def test_routes_speaks_json(shop: Path) -> None:
    report = json.loads(run(shop, "routes", "shop:app", "rules.yaml", "--json").stdout)

    assert report["idle_rules"] == ["/itmes"]
    assert report["routes"][2] == {
        "path": "/items/{id}",
        "host": "",
        "method": "POST",
        "rules": [],
        "some": ["/items/7"],
        "exempt": False,
        "limited": False,
    }


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("nowhere:app", "nowhere:app cannot be imported: ModuleNotFoundError: No module named 'nowhere'"),
        ("shop:missing", "shop:missing cannot be imported: AttributeError: "),
        ("shop:not_an_app", "shop:not_an_app: the routes of int cannot be found"),
        ("shop", "'shop' is not the place of an app"),
    ],
)
def test_routes_says_what_is_wrong_with_the_app(shop: Path, place: str, reason: str) -> None:
    done = run(shop, "routes", place, "rules.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert reason in done.stderr.replace("`", "'")


def test_routes_prints_the_mistakes_of_the_rules(shop: Path) -> None:
    done = run(shop, "routes", "shop:app", "bad.yaml")
    assert done.returncode == 1
    assert "minuet" in done.stdout
