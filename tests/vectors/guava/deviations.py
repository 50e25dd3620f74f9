"""The records of `errors.json` in which ours does not follow Guava, with both sides."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["DEVIATIONS", "IN_A_STORE", "Deviation"]


class Deviation(NamedTuple):
    """A record in which ours does not follow.

    Attributes:
        fault: what is wrong with the original; a heading of docs/deviations/guava.md.
        guava: what a caller of the original hears.
        ours: what a caller of ours hears.
    """

    fault: str
    guava: str
    ours: str


def _refused(fault: str) -> Deviation:
    return Deviation(fault, "accepts", "refuses")


_LAST = "call 2 waits 9223372036854775807"

DEVIATIONS = {
    "create-47": Deviation("no warm-up", "call 5 waits 0", "call 5 waits 200000"),
    "sequence-91": Deviation("no warm-up", "call 8 waits 0", "call 8 waits 200000"),
    "create-40": Deviation("negative overflow", "call 2 waits 0", _LAST),
    "sequence-93": Deviation("negative overflow", "call 2 waits 0", _LAST),
    **{
        name: _refused("rate too high")
        for name in (
            *("create-08", "create-09", "create-16", "create-17"),
            *("create-33", "create-34", "create-41", "create-42"),
            *("call-84", "call-85", "sequence-88", "sequence-89", "sequence-90"),
        )
    },
    **{name: _refused("rate too low") for name in ("create-12", "create-13", "create-37", "create-38")},
    **{name: _refused("senseless burst") for name in ("create-44", "create-45", "create-46")},
    **{name: _refused("senseless warm-up") for name in ("create-48", "create-50")},
    **{
        name: _refused("senseless cold factor")
        for name in ("create-52", "create-53", "create-54", "create-55", "create-56", "create-57")
    },
}

IN_A_STORE = ("bursty_setrate_stored_r3_to_11_b3",)
"""Public scenarios that a store reproduces but for the last bit of what is stored."""
