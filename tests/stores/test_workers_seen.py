"""How the memory store learns that it is one of several."""

from __future__ import annotations

import logging
import shlex
import sys
from typing import Any
from unittest.mock import Mock

import pytest

from ratelimit_middleware.build import build_registry
from ratelimit_middleware.clock import ManualClock
from ratelimit_middleware.store_settings import StoreSettings
from ratelimit_middleware.stores._workers import worker_count
from ratelimit_middleware.stores.memory import MemoryStore
from ratelimit_middleware.stores.open import open_store
from ratelimit_middleware.wsgi import RateLimitMiddleware
from tests.stores.faulty import FaultyStore

pytestmark = pytest.mark.arithmetic


@pytest.mark.parametrize(
    ("command", "environment", "count"),
    [
        ("uvicorn app:app", {}, 1),
        ("/venv/bin/uvicorn --workers 4 app:app", {}, 4),
        ("/site-packages/uvicorn/__main__.py app:app --workers=2", {}, 2),
        ("uvicorn app:app", {"WEB_CONCURRENCY": "3"}, 3),
        ("uvicorn --workers 1 app:app", {"WEB_CONCURRENCY": "3"}, 1),
        ("uvicorn --reload app:app", {"WEB_CONCURRENCY": "3"}, 1),
        ("gunicorn -w 4 app:app", {}, 4),
        ("gunicorn -w8 app:app", {}, 8),
        ("gunicorn app:app", {"GUNICORN_CMD_ARGS": "--bind=0.0.0.0 --workers=5"}, 5),
        ("gunicorn -w 2 app:app", {"GUNICORN_CMD_ARGS": "--workers=5"}, 2),
        ("fastapi run --workers 4 main.py", {}, 4),
        ("hypercorn -w 3 app:app", {"WEB_CONCURRENCY": "9"}, 3),
        ("uvicorn -w 4 app:app", {}, 1),
        ("uvicorn --workers many app:app", {}, 1),
        ("uvicorn app:app --workers", {}, 1),
        ("gunicorn -w 0 app:app", {}, 1),
        ("gunicorn app:app", {"WEB_CONCURRENCY": "9" * 5000}, 1),
        ("pytest -w 4 --workers 4", {"WEB_CONCURRENCY": "4"}, 1),
        ("", {"WEB_CONCURRENCY": "4"}, 1),
    ],
)
def test_the_servers_command_line_tells_the_number_of_workers(
    command: str, environment: dict[str, str], count: int
) -> None:
    assert worker_count(shlex.split(command), environment) == count


@pytest.mark.parametrize(("workers", "lines"), [("4", 1), ("1", 0)])
def test_the_memory_store_of_a_rule_file_says_that_workers_do_not_share_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, workers: str, lines: int
) -> None:
    monkeypatch.setattr(sys, "argv", ["uvicorn", "--workers", workers, "app:app"])
    with caplog.at_level(logging.WARNING):
        open_store("memory://").close()
    assert len(caplog.records) == lines
    assert caplog.text.count("with 4 workers a client may get that many times the limit") == lines
    assert caplog.text.count("store: shared://") == lines


def test_a_memory_store_made_by_hand_is_spoken_of_too(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "argv", ["uvicorn", "--workers", "4", "app:app"])
    build_registry({"default": "5/minute"}, store=MemoryStore())
    assert caplog.text.count("with 4 workers") == 1


@pytest.mark.parametrize(("planned", "lines"), [(4, 0), (8, 0), (3, 1)])
def test_nothing_is_said_where_the_limits_are_divided_by_enough(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, planned: int, lines: int
) -> None:
    monkeypatch.setattr(sys, "argv", ["uvicorn", "--workers", "4", "app:app"])
    open_store(StoreSettings(workers=planned)).close()
    assert len(caplog.records) == lines


def serve(rules: dict[str, Any], *, multiprocess: bool, store: Any = None) -> None:
    """Three requests of a WSGI server."""
    app = RateLimitMiddleware(lambda environ, start_response: [], rules, store=store)
    for _ in range(3):
        app({"REQUEST_METHOD": "GET", "PATH_INFO": "/", "wsgi.multiprocess": multiprocess}, Mock())


def test_a_wsgi_server_of_several_processes_is_spoken_of_once(caplog: pytest.LogCaptureFixture) -> None:
    serve({"default": "5/minute"}, multiprocess=True)
    (line,) = caplog.records
    assert "with several processes a client may get that many times the limit" in line.getMessage()


def test_nothing_is_said_of_a_single_process_or_a_store_that_is_fit_for_several(
    caplog: pytest.LogCaptureFixture,
) -> None:
    serve({"default": "5/minute"}, multiprocess=False)
    serve({"default": "5/minute", "store": {"workers": 4}}, multiprocess=True)
    serve({"default": "5/minute"}, multiprocess=True, store=FaultyStore(ManualClock()))
    assert not caplog.records


def test_what_the_command_line_has_told_is_not_said_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "argv", ["gunicorn", "-w", "4", "app:app"])
    serve({"default": "5/minute"}, multiprocess=True)
    assert len(caplog.records) == 1
