"""The keys that buckets have in Redis."""

from __future__ import annotations

import re
from binascii import crc_hqx
from collections.abc import Sequence
from zlib import crc32

__all__ = ["Keys", "TaggedKeys"]

_FOR_ALL = "*global"  # as `identity` writes the client of a limit that all clients share
_NUMBER = "%23"  # before the number of a rule's second limit and of those behind it
_TAG_DIGITS = 6
_SLOTS = 16384


class Keys:
    """Keys of one server: the prefix, then the bucket's own.

    Args:
        prefix: what every key begins with.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._head_size = len(_encoded(prefix))

    def key(self, key: str) -> bytes:
        """The key in Redis of a bucket."""
        return (self._prefix + key).encode("utf-8", "surrogatepass")

    def pattern(self, beginning: str) -> bytes:
        """What SCAN matches with the keys of all buckets that begin so."""
        return _literal(self._prefix) + _literal(beginning) + b"*"

    def names(self, keys: Sequence[bytes]) -> list[str]:
        """The buckets of keys in Redis; a key that is no text is not ours."""
        return [name for key in keys if (name := _decoded(key[self._head_size :])) is not None]


class TaggedKeys(Keys):
    """Keys of a cluster, `prefix{tag}key`: all buckets of a client are in one slot.

    The tag is a sum over the client, as the key has it behind the limit's id; over the rule's name where the
    limit is one for all clients. So what a request is checked against is mostly in one place, and a limit's
    clients are spread over all. As a number it says nothing of the client and always has the same length.

    Args:
        prefix: what every key begins with; without `{`, which would make another tag.
    """

    def __init__(self, prefix: str) -> None:
        super().__init__(prefix)
        self._head_size += _TAG_DIGITS + 2

    def key(self, key: str) -> bytes:
        """The key in Redis of a bucket."""
        limit, _, client = key.partition("|")
        owner = client if client and client != _FOR_ALL else limit.partition(_NUMBER)[0]
        return _encoded(f"{self._prefix}{{{crc32(_encoded(owner)) & 0xFFFFFF:06x}}}{key}")

    def slot(self, key: bytes) -> int:
        """The slot of a key in Redis, which is that of its tag."""
        end = self._head_size - 1
        return crc_hqx(key[end - _TAG_DIGITS : end], 0) % _SLOTS

    def pattern(self, beginning: str) -> bytes:
        """What SCAN matches with the keys of all buckets that begin so."""
        return _literal(self._prefix) + b"{" + b"?" * _TAG_DIGITS + b"}" + _literal(beginning) + b"*"


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _decoded(name: bytes) -> str | None:
    try:
        return name.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None


def _literal(text: str) -> bytes:
    return re.sub(rb"([\[\]*?\\^])", rb"\\\1", _encoded(text))
