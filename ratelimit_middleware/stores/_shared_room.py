"""How much room is left in the shared store's file."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import lmdb

__all__ = ["Room"]

# LMDB needs free pages for whatever it does, dropping keys included. So new keys stop first, then buckets
# that grow, and what remains is never used up.
_FULL_FOR_NEW_KEYS = 0.75
_FULL = 0.9

_PAGES_A_CALL = 64
"""More than a transaction adds, which is a page or two for each of its limits."""


class Room:
    """The pages of one file; used by one transaction at a time.

    Args:
        max_pages: how many it has room for.
    """

    def __init__(self, max_pages: int) -> None:
        self._for_new_keys = int(max_pages * _FULL_FOR_NEW_KEYS)
        self._for_growth = int(max_pages * _FULL)
        self._enough_until = 0

    def for_a_key(self, transaction: lmdb.Transaction[bytes], max_keys: int) -> bool:
        """Whether another key may come in: there are less than so many, and less than enough pages in use."""
        keys, pages = _in_use(transaction)
        return keys < max_keys and pages < self._for_new_keys

    def for_growth(self, transaction: lmdb.Transaction[bytes]) -> bool:
        """Whether a bucket may become larger.

        Counting the pages costs as much as a decision. LMDB numbers the transactions of all processes, so
        with many pages free it is known up to which number there will be enough of them.
        """
        number = transaction.id()
        if number < self._enough_until:
            return True
        left = self._for_growth - _in_use(transaction)[1]
        self._enough_until = number + left // _PAGES_A_CALL
        return left >= 0


def _in_use(transaction: lmdb.Transaction[bytes]) -> tuple[int, int]:
    """Keys (the header is none) and pages."""
    stat = transaction.stat()
    return stat["entries"] - 1, stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
