"""States and numbers as bytes: small, self-describing, and nothing in them can run.

A byte says what follows: 0 to 127 a whole number of that many bytes (little-endian, signed), so that
numbers of any size fit; above that the kinds below. (`pickle` would run what a foreign file tells it to,
`marshal` may end the process.)
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

__all__ = ["pack", "unpack"]

_FLOAT, _BYTES, _TEXT, _TUPLE, _NUMBERS, _SPAN, _NONE, _TRUE, _FALSE = range(128, 137)
_CONSTANTS = {_NONE: None, _TRUE: True, _FALSE: False}
_TAGS = [bytes([tag]) for tag in range(137)]
_DOUBLE = struct.Struct("<d")
_LENGTH = struct.Struct("<I")
_DEEPEST = 4


def pack(values: Iterable[Any]) -> bytes:
    """The values one after another.

    Raises:
        ValueError: a value of another kind than numbers, bytes, text, None, `timedelta` and tuples of them.
    """
    parts: list[bytes] = []
    for value in values:
        # The two kinds that states are made of come first, and without a call.
        if type(value) is int:
            size = (value.bit_length() >> 3) + 1
            if size > 127:
                raise ValueError(f"{value!r} is too large to be packed")
            parts += (_TAGS[size], value.to_bytes(size, "little", signed=True))
        elif type(value) is bytes:
            parts += (_TAGS[_BYTES], _LENGTH.pack(len(value)), value)
        else:
            _pack_other(value, parts)
    return b"".join(parts)


def _pack_other(value: object, parts: list[bytes]) -> None:
    if isinstance(value, float):
        parts += (_TAGS[_FLOAT], _DOUBLE.pack(value))
    elif isinstance(value, tuple):
        parts += _packed_tuple(value)
    elif isinstance(value, str):
        data = value.encode("utf-8", "surrogatepass")
        parts += (_TAGS[_TEXT], _LENGTH.pack(len(data)), data)
    elif isinstance(value, timedelta):
        parts += (_TAGS[_SPAN], pack((value.days, value.seconds, value.microseconds)))
    elif value is None or isinstance(value, bool):
        parts.append(_TAGS[{None: _NONE, True: _TRUE, False: _FALSE}[value]])
    else:
        raise ValueError(f"{value!r} cannot be packed: expected numbers, bytes, text or tuples of them")


def _packed_tuple(values: tuple[Any, ...]) -> tuple[bytes, ...]:
    """A tuple in a tuple; a long list of plain numbers goes in one piece."""
    try:
        numbers = struct.pack(f"<{len(values)}q", *values)
    except struct.error:
        return (_TAGS[_TUPLE], _LENGTH.pack(len(values)), pack(values))
    return (_TAGS[_NUMBERS], _LENGTH.pack(len(values)), numbers)


def unpack(data: bytes, start: int = 0) -> tuple[Any, ...]:
    """The values that stand in `data` from `start` to its end.

    Raises:
        ValueError: the bytes are none that `pack` writes.
    """
    values: list[Any] = []
    end = len(data)
    while start < end:
        size = data[start]
        if size < 128:
            start, begin = start + 1 + size, start + 1
            values.append(int.from_bytes(data[begin:start], "little", signed=True))
        elif size == _BYTES and start + 5 <= end:
            begin = start + 5
            start = begin + _LENGTH.unpack_from(data, start + 1)[0]
            values.append(data[begin:start])
        else:
            value, start = _unpack_other(data, start, _DEEPEST)
            values.append(value)
    if start > end:
        raise ValueError("a packed value is cut off")
    return tuple(values)


def _unpack_one(data: bytes, start: int, depth: int) -> tuple[Any, int]:
    if start >= len(data):
        raise ValueError("a packed value is missing")
    size = data[start]
    if size < 128:
        body, start = _cut(data, start + 1, size)
        return int.from_bytes(body, "little", signed=True), start
    return _unpack_other(data, start, depth)


def _unpack_other(data: bytes, start: int, depth: int) -> tuple[Any, int]:
    kind = data[start]
    if kind in _CONSTANTS:
        return _CONSTANTS[kind], start + 1
    if kind == _FLOAT:
        body, start = _cut(data, start + 1, _DOUBLE.size)
        return _DOUBLE.unpack(body)[0], start
    if kind == _SPAN:
        parts, start = _unpack_some(data, start + 1, 3, depth)
        return timedelta(*parts), start
    body, start = _cut(data, start + 1, _LENGTH.size)
    length: int = _LENGTH.unpack(body)[0]
    if kind == _BYTES:
        return _cut(data, start, length)
    if kind == _TEXT:
        body, start = _cut(data, start, length)
        return body.decode("utf-8", "surrogatepass"), start
    if kind == _NUMBERS:
        body, start = _cut(data, start, 8 * length)
        return struct.unpack(f"<{length}q", body), start
    if kind == _TUPLE:
        return _unpack_some(data, start, length, depth)
    raise ValueError(f"{kind} marks no packed value")


def _unpack_some(data: bytes, start: int, count: int, depth: int) -> tuple[tuple[Any, ...], int]:
    if not depth:
        raise ValueError("packed tuples stand too deep")
    values = []
    for _ in range(count):
        value, start = _unpack_one(data, start, depth - 1)
        values.append(value)
    return tuple(values), start


def _cut(data: bytes, start: int, size: int) -> tuple[bytes, int]:
    stop = start + size
    if stop > len(data):
        raise ValueError("a packed value is cut off")
    return data[start:stop], stop
