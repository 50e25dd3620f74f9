"""States and algorithms as bytes: read back as they were, and nothing else can be made of them."""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratelimit_middleware.algorithms.base import Algorithm
from ratelimit_middleware.algorithms.gcra import GCRA
from ratelimit_middleware.algorithms.leaky_bucket import LeakyBucket
from ratelimit_middleware.algorithms.sliding_window import SlidingWindow
from ratelimit_middleware.algorithms.token_bucket import TokenBucket
from ratelimit_middleware.algorithms.warm_up import WarmUp
from ratelimit_middleware.algorithms.warm_up_window import WarmUpWindow
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.stores._entries import EntryCodec
from ratelimit_middleware.stores._packing import pack, unpack
from ratelimit_middleware.stores._shared_states import pack_state, unpack_state

pytestmark = pytest.mark.arithmetic

NOW_NS = 1_700_000_000_123_456_789

NUMBERS = st.one_of(st.integers(-(2**900), 2**900), st.integers(-(2**64), 2**64), st.floats(allow_nan=False))
PLAIN = st.one_of(
    NUMBERS, st.binary(), st.text(), st.none(), st.booleans(), st.timedeltas(), st.lists(NUMBERS).map(tuple)
)
ALGORITHMS: list[Algorithm] = [
    GCRA(10**9, timedelta(days=7), 10**9),
    SlidingWindow(5, 0.25),
    LeakyBucket(2.5, 10, "nodelay"),
    TokenBucket(7, 1.5, 2, "greedy"),
    WarmUp(20, 10),
    WarmUpWindow(5, 60, 600),
]


def kinds(values: object) -> object:
    """The types of nested values: 1 and True are equal, but not the same."""
    return [kinds(each) for each in values] if isinstance(values, tuple) else type(values)


@given(st.lists(PLAIN).map(tuple))
def test_values_are_read_back_as_they_were(values: tuple[Any, ...]) -> None:
    assert unpack(pack(values)) == values
    assert kinds(unpack(pack(values))) == kinds(values)


@given(
    st.one_of(
        st.tuples(NUMBERS, st.binary()),
        st.tuples(NUMBERS, NUMBERS),
        st.tuples(NUMBERS, NUMBERS, NUMBERS),
        st.lists(PLAIN).map(tuple),
    )
)
def test_states_are_read_back_as_they_were(state: tuple[Any, ...]) -> None:
    """Those of the shapes that are written in one piece too, with numbers that do not fit in."""
    read = unpack_state(b"head" + pack_state(state), 4)
    assert read == state
    assert kinds(read) == kinds(state)


@given(st.booleans(), st.integers(0, 9), st.binary())
def test_a_truth_value_in_a_state_does_not_become_a_number(flag: bool, number: int, log: bytes) -> None:
    for state in [
        (flag, log),
        (flag, number),
        (number, flag),
        (flag, number, number),
        (number, number, flag),
    ]:
        assert kinds(unpack_state(pack_state(state), 0)) == kinds(state)


@given(st.binary(max_size=64))
def test_any_bytes_are_a_state_or_an_error(data: bytes) -> None:
    try:
        state = unpack_state(data, 0)
    except (ValueError, OverflowError, TypeError, struct.error):
        return
    assert isinstance(state, tuple)


@given(st.binary(max_size=64))
def test_any_bytes_are_values_or_an_error(data: bytes) -> None:
    try:
        values = unpack(data)
    except (ValueError, OverflowError, TypeError):
        return
    assert isinstance(values, tuple)


@given(st.lists(PLAIN, min_size=1).map(tuple), st.data())
def test_a_value_that_is_cut_off_is_never_read_as_the_whole(
    values: tuple[Any, ...], data: st.DataObject
) -> None:
    packed = pack(values)
    part = packed[: data.draw(st.integers(0, len(packed) - 1))]
    try:
        assert unpack(part) != values
    except (ValueError, OverflowError, TypeError):
        assert part


def test_tuples_do_not_nest_without_end() -> None:
    deep: tuple[Any, ...] = ()
    for _ in range(50):
        deep = ("x", deep)
    with pytest.raises(ValueError, match="too deep"):
        unpack(pack(deep))


@pytest.mark.parametrize("value", [{}, object(), 2**1100])
def test_other_things_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="packed"):
        pack([value])


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda algorithm: type(algorithm).__name__)
def test_an_entry_tells_who_wrote_it(algorithm: Algorithm) -> None:
    state = algorithm.start(NOW_NS)
    for second in range(30):
        state = algorithm.take(state, NOW_NS + second * 10**9)[1]
    known = EntryCodec().decode(EntryCodec().encode(algorithm, state))
    assert known
    writer, read = known
    assert (writer, read) == (algorithm, state)
    assert all(getattr(writer, f.name) == getattr(algorithm, f.name) for f in fields(type(writer)))  # type: ignore[arg-type]  # all are dataclasses


def test_numbers_that_differ_make_other_heads() -> None:
    heads = {EntryCodec().head(algorithm) for algorithm in [*ALGORITHMS, GCRA(1, 60, 5), GCRA(1, 60, 6)]}
    assert len(heads) == len(ALGORITHMS) + 2


def test_many_algorithms_do_not_pile_up() -> None:
    codec = EntryCodec()
    for limit in range(1, 3000):
        assert codec.decode(codec.encode(GCRA(limit, 60, 1), (limit, 0))) == (GCRA(limit, 60, 1), (limit, 0))
    assert len(codec._heads) + len(codec._writers) <= 2048


@dataclass(frozen=True)
class Stranger:
    """A class that a foreign file may name."""

    limit: int


@pytest.mark.parametrize(
    "name",
    [
        f"{__name__}:Stranger",
        "os:system",
        "gcra:ceil_div",
        "gcra:Algorithm",
        "nowhere:Nothing",
        "..stores.memory:MemoryStore",
        "gcra",
        7,
    ],
)
def test_what_a_foreign_file_names_is_never_built(name: object) -> None:
    body = pack((name, 1))
    head = (len(body) + 2).to_bytes(2, "little") + body
    assert EntryCodec().decode(head + pack((1, 2))) is None


@given(st.binary(max_size=40))
def test_any_bytes_are_an_entry_or_none(data: bytes) -> None:
    assert EntryCodec().decode(data) is None


@pytest.mark.parametrize("arguments", [(0, 60, 1), (5,), (5, 60, 1, 1), ("5", 60, 1)])
def test_numbers_that_make_no_sense_are_no_entry(arguments: tuple[object, ...]) -> None:
    body = pack(("gcra:GCRA", *arguments))
    head = (len(body) + 2).to_bytes(2, "little") + body
    assert EntryCodec().decode(head + pack((1, 2))) is None


def test_an_algorithm_that_cannot_be_packed_is_refused() -> None:
    with pytest.raises(StoreError, match="cannot be kept in a shared store"):
        EntryCodec().head(object())  # type: ignore[arg-type]  # that is the point
