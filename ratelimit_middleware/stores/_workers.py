"""Whether this process is one of several workers, as far as that can be known."""

from __future__ import annotations

import logging
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from ratelimit_middleware.stores.memory import MemoryStore

__all__ = ["MEMORY_UNDER_WORKERS", "ProcessesWarning", "read_count", "warn_of_workers", "worker_count"]

logger = logging.getLogger("ratelimit_middleware.stores")

MEMORY_UNDER_WORKERS = (
    "the memory store counts in each worker for itself: with %s a client may get that many times the limit; "
    "write `store: shared://` to share the counts, `workers: n` below `store` to divide the limits, or start "
    "one worker"
)

_MOST_DIGITS = 9
_SHORT_OPTION = {"gunicorn", "hypercorn"}
_LONG_OPTION = {"uvicorn", "fastapi", "granian"} | _SHORT_OPTION
_READ_WEB_CONCURRENCY = {"gunicorn", "uvicorn", "fastapi"}


def warn_of_workers(planned: int = 1) -> None:
    """Log a warning if the server was told to start more workers than a memory store was planned for."""
    workers = worker_count(sys.argv, os.environ)
    if workers > planned:
        logger.warning(MEMORY_UNDER_WORKERS, f"{workers} workers")


class ProcessesWarning:
    """Warns once when a WSGI server tells that it has several processes, and a memory store counts.

    Nothing is said where `warn_of_workers` has seen them on the command line.

    Args:
        store: the store that counts.
    """

    __slots__ = ("_is_due",)

    def __init__(self, store: object) -> None:
        self._is_due = isinstance(store, MemoryStore) and worker_count(sys.argv, os.environ) == 1

    def look(self, environ: Mapping[str, object]) -> None:
        """Look at what the server says with a request (PEP 3333, `wsgi.multiprocess`)."""
        if self._is_due and environ.get("wsgi.multiprocess"):
            self._is_due = False
            logger.warning(MEMORY_UNDER_WORKERS, "several processes")


def worker_count(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """How many workers the server was told to start; 1 if it was not, or if that cannot be seen.

    Workers see the command line of the server that started them. Workers asked for in a configuration file
    or from Python are not seen here; WSGI servers tell of them in `wsgi.multiprocess`. Being a child
    process proves nothing: a reloading server with one worker has one too.

    Args:
        arguments: the command line (`sys.argv`).
        environment: the environment (`os.environ`).
    """
    server = _server(arguments)
    if server not in _LONG_OPTION or "--reload" in arguments:
        return 1
    options = [*arguments[1:]]
    if server == "gunicorn":
        options = [*shlex.split(environment.get("GUNICORN_CMD_ARGS", "")), *options]
    asked = environment.get("WEB_CONCURRENCY", "") if server in _READ_WEB_CONCURRENCY else ""
    for option, following in zip(options, [*options[1:], ""], strict=True):
        asked = _value(option, following, may_be_short=server in _SHORT_OPTION) or asked
    return read_count(asked)


def read_count(text: str) -> int:
    """A number of workers as it is written; 1 if it is none."""
    return max(1, int(text)) if text.isdecimal() and len(text) <= _MOST_DIGITS else 1


def _server(arguments: Sequence[str]) -> str:
    """The program's name, also where it was started with `python -m`."""
    program = PurePath(arguments[0] if arguments else "")
    return program.parent.name if program.name == "__main__.py" else program.stem


def _value(option: str, following: str, *, may_be_short: bool) -> str:
    """The number of workers, if this option gives it."""
    if option == "--workers" or (may_be_short and option == "-w"):
        return following
    if option.startswith("--workers="):
        return option.removeprefix("--workers=")
    return option[2:] if may_be_short and option.startswith("-w") else ""
