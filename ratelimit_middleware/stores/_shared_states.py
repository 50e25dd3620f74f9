"""States as bytes: the commonest shapes in one piece, the others value by value.

A window's count and log, the two numbers of a GCRA and the three of a leaky bucket are read and written at
every decision. Value by value that costs as much as the arithmetic between.
"""

from __future__ import annotations

import struct

from ratelimit_middleware.algorithms.base import State
from ratelimit_middleware.stores._packing import pack, unpack

__all__ = ["pack_state", "unpack_state"]

# The first byte says which. What `pack` writes begins with a smaller one.
_LOG, _TICKS, _PAIR = 200, 201, 202
_COUNT = struct.Struct("<BI")  # the log follows, to the end
_NUMBERS = struct.Struct("<BqQqq")  # one of two words, since ticks are nanoseconds times a limit
_WORD = (1 << 64) - 1
_TWO = struct.Struct("<Bqq")


def pack_state(state: State) -> bytes:
    """The bytes of a state.

    Raises:
        ValueError: it holds something that `pack` refuses.
    """
    # Exact types: True would come back as 1.
    try:
        if len(state) == 2:
            number, other = state
            if type(other) is bytes and type(number) is int:
                return _COUNT.pack(_LOG, number) + other
            if type(other) is int and type(number) is int:
                return _TWO.pack(_PAIR, number, other)
        elif len(state) == 3:
            ticks, last, latest = state
            if type(ticks) is int and type(last) is int and type(latest) is int:
                return _NUMBERS.pack(_TICKS, ticks >> 64, ticks & _WORD, last, latest)
    except struct.error:
        pass  # a number is larger than that
    return pack(state)


def unpack_state(data: bytes, start: int) -> State:
    """The state that stands in `data` from `start` to its end.

    Raises:
        ValueError: the bytes are none that `pack_state` writes.
        struct.error: they are cut off.
    """
    shape = data[start] if start < len(data) else None
    if shape == _LOG:
        return _COUNT.unpack_from(data, start)[1], data[start + _COUNT.size :]
    if shape == _TICKS:
        _, high, low, last, latest = _NUMBERS.unpack_from(data, start)
        return high << 64 | low, last, latest
    if shape == _PAIR:
        return _TWO.unpack_from(data, start)[1:]
    return unpack(data, start)
