"""How much room is left in the shared store's file: counted seldom, and in time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lmdb
import pytest

from ratelimit_middleware.stores._shared_room import Room


class Transaction:
    """Stands for LMDB's: so many pages are in use in the transaction with this number.

    Attributes:
        counted: how often somebody has asked for the pages.
    """

    def __init__(self) -> None:
        self.number = self.pages = self.counted = 0

    def id(self) -> int:
        return self.number

    def stat(self) -> dict[str, int]:
        self.counted += 1
        return {"entries": 1, "branch_pages": 1, "leaf_pages": self.pages - 1, "overflow_pages": 0}


def grows(room: Room, transaction: Any) -> bool:
    return room.for_growth(transaction)


@pytest.mark.parametrize("pages_a_call", [1, 7, 64])
def test_pages_are_counted_again_before_they_can_be_used_up(pages_a_call: int) -> None:
    """All that other processes add lies between two numbers of transactions."""
    room, transaction = Room(1000), Transaction()
    while grows(room, transaction):
        transaction.number += 1
        transaction.pages += pages_a_call
        assert transaction.pages <= 900 + pages_a_call
    assert transaction.pages > 900


def test_with_many_pages_free_they_are_seldom_counted() -> None:
    room, transaction = Room(16_384), Transaction()
    for _ in range(1000):
        assert grows(room, transaction)
        transaction.number += 1
    assert transaction.counted == 5


def test_a_file_that_has_room_again_is_noticed_at_once() -> None:
    room, transaction = Room(1000), Transaction()
    transaction.pages = 901
    assert not grows(room, transaction)
    transaction.pages = 900
    assert grows(room, transaction)


@pytest.fixture
def writing(tmp_path: Path) -> Iterator[lmdb.Transaction[bytes]]:
    with (
        lmdb.open(str(tmp_path / "file"), subdir=False, lock=False) as env,
        env.begin(write=True) as transaction,
    ):
        transaction.put(b"\0", b"header")
        yield transaction


def test_the_header_is_no_key(writing: lmdb.Transaction[bytes]) -> None:
    assert Room(100).for_a_key(writing, 1)
    writing.put(b"=a", b"bucket")
    assert not Room(100).for_a_key(writing, 1)
    assert Room(100).for_a_key(writing, 2)


def test_new_keys_stop_before_buckets_stop_growing(writing: lmdb.Transaction[bytes]) -> None:
    for number in range(160):
        writing.put(b"=%d" % number, bytes(2000))
    stat = writing.stat()
    room = Room(int((stat["branch_pages"] + stat["leaf_pages"]) / 0.8))
    assert not room.for_a_key(writing, 10**6)
    assert room.for_growth(writing)
