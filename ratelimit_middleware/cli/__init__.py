"""The command `ratelimits`: is a rule file right, what does it do, and what does its store hold?

Exit codes: 0 all is well, 1 a rule file holds mistakes (with `--strict` warnings too, with `--fail-unlimited`
routes that go free), or a bucket cannot be read, 2 the command itself is wrong, 3 the store does not answer.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ratelimit_middleware import __version__
from ratelimit_middleware.cli.arguments import header, ip_address, method, path, place, times, user
from ratelimit_middleware.cli.buckets import Selection, keys, peek, reset
from ratelimit_middleware.cli.check import check
from ratelimit_middleware.cli.explain import Question, explain
from ratelimit_middleware.cli.routes import routes
from ratelimit_middleware.clock import SystemClock, utc_date
from ratelimit_middleware.stores._workers import read_count

__all__ = ["main"]

_BUCKETS = {"keys": keys, "peek": peek, "reset": reset}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: the arguments without the program's name; the process's own by default.

    Returns:
        The exit code.

    Raises:
        SystemExit: with code 2 when the arguments make no sense, 0 after `--help` and `--version`.
    """
    parser = _parser()
    arguments = parser.parse_args(argv)
    here = str(Path.cwd())
    if not {"", here} & set(sys.path):
        sys.path.insert(0, here)  # for `python:MODULE:FUNCTION`; an installed script does not look here
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # rule files may hold what a terminal cannot show
    if arguments.command == "check":
        text, code = check(
            arguments.files,
            today=utc_date(SystemClock().now_ns()),
            workers=arguments.workers or read_count(os.environ.get("WEB_CONCURRENCY", "")),
            strict=arguments.strict,
        )
    elif arguments.command == "routes":
        text, code = routes(
            arguments.app, arguments.file, as_json=arguments.json, fail_unlimited=arguments.fail_unlimited
        )
    elif arguments.command in _BUCKETS:
        if arguments.command == "reset" and not (arguments.rule or arguments.client or arguments.all):
            parser.error("reset: say which buckets: --rule RULE, --client CLIENT, or --all")
        selection = Selection(arguments.file, arguments.rule, arguments.client, arguments.json)
        text, code = _BUCKETS[arguments.command](selection)
    else:
        asked = (arguments.method, arguments.path, arguments.ip, tuple(arguments.headers))
        text, code = explain(arguments.file, Question(*asked, arguments.repeat, arguments.user))
    (sys.stderr if code >= 2 else sys.stdout).write(text)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ratelimits", description="Check rule files, and see what they do with a request."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    checking = commands.add_parser(
        "check", help="find the mistakes of rule files, and what is odd about them"
    )
    checking.add_argument("files", nargs="+", metavar="FILE")
    checking.add_argument("--strict", action="store_true", help="exit with 1 on warnings too")
    checking.add_argument(
        "--workers", type=times, metavar="N", help="how many will share the load ($WEB_CONCURRENCY, else 1)"
    )
    explaining = commands.add_parser(
        "explain",
        help="show which limits count for a request, and its answer",
        description="Counts in a fresh memory store whose clock stands still, not in the file's store.",
    )
    _add_question(explaining)
    listing = commands.add_parser(
        "routes",
        help="show which rules hold for each route of an app",
        description="Imports the app (FastAPI, Starlette, Litestar, Flask or Quart) and reads its routes.",
    )
    _add_app(listing)
    _add_selection(commands.add_parser("keys", help="list the buckets in the store of a rule file"))
    _add_selection(commands.add_parser("peek", help="list them, with what is left in each"))
    resetting = commands.add_parser("reset", help="forget buckets: their clients begin afresh")
    _add_selection(resetting)
    resetting.add_argument("--all", action="store_true", help="all buckets under the store's prefix")
    return parser


def _add_selection(command: argparse.ArgumentParser) -> None:
    command.add_argument("file", metavar="FILE")
    command.add_argument("--rule", help="only those of this rule, by its name or route")
    command.add_argument("--client", help="only those of this client: an address, a user, a key's value")
    command.add_argument("--json", action="store_true", help="print JSON")


def _add_question(explaining: argparse.ArgumentParser) -> None:
    explaining.add_argument("file", metavar="FILE")
    explaining.add_argument("method", type=method, metavar="METHOD", help="such as GET; WS for a handshake")
    explaining.add_argument("path", type=path, metavar="PATH", help="as in the request line: /items/7?page=2")
    explaining.add_argument("--ip", type=ip_address, default="127.0.0.1", help="the client (127.0.0.1)")
    explaining.add_argument("--user", type=user, metavar="NAME", help="who is logged in (nobody)")
    explaining.add_argument(
        "-H",
        "--header",
        type=header,
        action="append",
        default=[],
        dest="headers",
        metavar="'NAME: VALUE'",
        help="a header of the request; may be given several times",
    )
    explaining.add_argument(
        "--repeat", type=times, default=1, metavar="N", help="send it N times at one moment (1)"
    )


def _add_app(listing: argparse.ArgumentParser) -> None:
    listing.add_argument("app", type=place, metavar="MODULE:APP", help="such as shop.main:app")
    listing.add_argument("file", metavar="FILE")
    listing.add_argument(
        "--fail-unlimited", action="store_true", help="exit with 1 if a route may go without any limit"
    )
    listing.add_argument("--json", action="store_true", help="print JSON")
