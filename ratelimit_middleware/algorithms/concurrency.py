"""Concurrency: how many requests may be in progress at one time."""

from __future__ import annotations

__all__ = ["has_room"]


def has_room(in_progress: int, cost: int, count: float) -> bool:
    """Whether `cost` more fit beside those in progress.

    As `DefaultController` of alibaba/Sentinel (1.8.9 line) decides on its number of threads. There a
    request counts as one when it has been let in, whatever it asked for.
    """
    return in_progress + cost <= count
