"""Entries of a store that keeps bytes: a bucket's state, behind the numbers that wrote it."""

from __future__ import annotations

import struct
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any, cast

from ratelimit_middleware.algorithms.base import Algorithm, State
from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.stores._packing import pack, unpack
from ratelimit_middleware.stores._shared_states import pack_state, unpack_state

__all__ = ["EntryCodec"]

_HOME = "ratelimit_middleware.algorithms."
_HEAD_SIZE = struct.Struct("<H")
_MOST_CACHED = 1024
_NO_ENTRY = (ValueError, TypeError, OverflowError, struct.error)


class EntryCodec:
    """Packs `(algorithm, state)` and reads it back.

    An entry is a head and a state. The head holds the algorithm's class and the arguments of its
    constructor, so that whoever has other numbers (after a reload, in another worker) can adopt the
    state; for whoever has the same numbers it is bytes to be compared.

    Only classes of this package and those that this process has used itself are built from a head: what
    a foreign file names is never imported.
    """

    def __init__(self) -> None:
        # By identity: an algorithm is frozen, and hashing its fields costs as much as its arithmetic.
        self._heads: dict[int, tuple[Algorithm, bytes]] = {}
        self._writers: dict[bytes, Algorithm | None] = {}
        self._classes: dict[str, type[Any]] = {}

    def head(self, algorithm: Algorithm) -> bytes:
        """What entries of this algorithm begin with.

        Raises:
            StoreError: the algorithm is no dataclass of packable values.
        """
        known = self._heads.get(id(algorithm))
        if known is not None:
            return known[1]
        if len(self._heads) >= _MOST_CACHED:
            self._heads.clear()
        head = self._describe(algorithm)
        self._heads[id(algorithm)] = (algorithm, head)
        return head

    def encode(self, algorithm: Algorithm, state: State) -> bytes:
        """The entry to keep."""
        return self.head(algorithm) + pack_state(state)

    def decode(self, entry: bytes) -> tuple[Algorithm, State] | None:
        """Who wrote the entry, and the state; None if this cannot be told."""
        try:
            size = _HEAD_SIZE.unpack_from(entry)[0]
            writer = self._writer(entry[:size])
            return None if writer is None else (writer, unpack_state(entry, size))
        except _NO_ENTRY:
            return None

    def split(self, entry: bytes) -> tuple[Algorithm | None, bytes]:
        """Who wrote the entry (None if this cannot be told), and what follows the head."""
        try:
            size = _HEAD_SIZE.unpack_from(entry)[0]
            return self._writer(entry[:size]), entry[size:]
        except _NO_ENTRY:
            return None, b""

    def _writer(self, head: bytes) -> Algorithm | None:
        if head not in self._writers:
            if len(self._writers) >= _MOST_CACHED:
                self._writers.clear()
            self._writers[head] = self._build(head)
        return self._writers[head]

    def _describe(self, algorithm: Algorithm) -> bytes:
        try:
            values = [getattr(algorithm, name) for name in _arguments(type(algorithm))]
            # An algorithm around another one: bytes are no argument of any.
            arguments = [self.head(cast("Algorithm", v)) if is_dataclass(v) else v for v in values]
            body = pack((_name(type(algorithm)), *arguments))
            head = _HEAD_SIZE.pack(_HEAD_SIZE.size + len(body)) + body
        except _NO_ENTRY as error:
            raise StoreError(f"{algorithm!r} cannot be kept in a shared store: {error}") from error
        self._classes[_name(type(algorithm))] = type(algorithm)
        return head

    def _build(self, head: bytes, *, is_inner: bool = False) -> Algorithm | None:
        name, *arguments = unpack(head, _HEAD_SIZE.size)
        kind = self._classes.get(name) or _own_class(str(name))
        if kind is None:
            return None
        if is_inner and any(isinstance(value, bytes) for value in arguments):
            return None  # a file may nest them as deep as it likes
        values = [
            self._build(value, is_inner=True) if isinstance(value, bytes) else value for value in arguments
        ]
        return cast("Algorithm", kind(**dict(zip(_arguments(kind), values, strict=True))))


def _arguments(kind: type[Any]) -> list[str]:
    """The names of the constructor's arguments.

    Raises:
        TypeError: it is no dataclass.
    """
    return [field.name for field in fields(kind) if field.init]


def _name(kind: type[Any]) -> str:
    name = f"{kind.__module__}:{kind.__qualname__}"
    return name.removeprefix(_HOME)


def _own_class(name: str) -> type[Any] | None:
    """The class of this package with this name (`gcra:GCRA`)."""
    module, _, attribute = name.partition(":")
    if not (module.isidentifier() and attribute.isidentifier()):
        return None
    try:
        kind = getattr(import_module(_HOME + module), attribute, None)
    except ImportError:
        return None
    return kind if is_dataclass(kind) and isinstance(kind, type) else None
