"""Functions of the app that fail: something else takes the place of their answer, and the log is told.

A rule whose function fails still counts. `BaseException`s that are no `Exception`s pass through.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ratelimit_middleware.request import Asked, RequestView

__all__ = ["Failure", "failures", "heard", "note", "said"]

_NOTED = "failures"  # no name of a function: those have a colon


class Failure(NamedTuple):
    """What has failed, and how.

    Attributes:
        name: `MODULE:FUNCTION`, or what else was asked.
        error: what it raised, or why its answer is of no use.
    """

    name: str
    error: Exception


def said(asked: Asked, view: RequestView) -> Any:
    """What a function says of a request; it is called once, also if it fails.

    Raises:
        Exception: whatever the function raised.
    """
    try:
        answer = asked(view)
    except Exception as error:
        view.memo[asked.name] = Failure(asked.name, error)
        raise
    if isinstance(answer, Failure):
        raise answer.error
    return answer


async def heard(asked: Asked, view: RequestView) -> None:
    """Await a function's answer, or what it raises, to be had by `said` afterwards."""
    try:
        await asked.ask(view)
    except Exception as error:  # noqa: BLE001 - whoever needs the answer says what takes its place
        view.memo[asked.name] = Failure(asked.name, error)


def note(view: RequestView, name: str, error: Exception) -> None:
    """Keep for the log that something else has taken the place of an answer."""
    view.memo.setdefault(_NOTED, []).append(Failure(name, error))


def failures(view: RequestView) -> list[Failure]:
    """What has been noted; each is given once."""
    noted: list[Failure] = view.memo.pop(_NOTED, [])
    return noted
