"""What a type checker must refuse: a decorated function is called as the one it decorates."""

from __future__ import annotations

from pathlib import Path

import pytest
from mypy import api as mypy

import ratelimit_middleware

HEAD = """
from ratelimit_middleware import GCRA, Limiter
limiter = Limiter(GCRA(5, 1, 5))
@limiter
def fetch(page: int, *, size: int = 10) -> str:
    return "page"
@limiter
async def fetch_async(page: int) -> str:
    return "page"
"""
BAD = {
    "fetch('first')": "[arg-type]",
    "fetch(1, 2)": "[call-arg]",
    "fetch()": "[call-arg]",
    "number: int = fetch(1)": "[assignment]",
    "text: str = fetch_async(1)": "[assignment]",
    "limiter.acquire('10')": "[arg-type]",
    "limiter.reserve(1, 2.0)": "[call-arg]",
    "Limiter(5)": "[arg-type]",
}


@pytest.mark.timeout(300)  # the first run reads all that the package imports
def test_wrong_uses_are_refused_and_nothing_else_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """One run for all lines: each is told its own error, and the lines above have none."""
    monkeypatch.setenv("MYPYPATH", str(Path(ratelimit_middleware.__file__).parents[1]))
    code = HEAD + "\n".join(BAD)
    told, failure, _ = mypy.run(["--config-file=", "--strict", "--no-error-summary", "-c", code])
    assert not failure
    first = HEAD.count("\n") + 1
    expected = [f"<string>:{first + place}:" for place in range(len(BAD))]
    errors = [line for line in told.splitlines() if ": error:" in line]
    assert [line.split()[0] for line in errors] == expected, told
    assert [line.split()[-1] for line in errors] == list(BAD.values()), told
