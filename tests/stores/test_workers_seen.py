"""How the memory store learns that it is one of several."""

from __future__ import annotations

import logging
import shlex
import sys

import pytest

from ratelimit_middleware.stores._workers import worker_count
from ratelimit_middleware.stores.open import open_store

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
