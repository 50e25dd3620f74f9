"""Share: which clients a rule refuses that is enforced for a part of them."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import ClassVar

from ratelimit_middleware.errors import InvalidLimitError

__all__ = ["Share"]


@dataclass(frozen=True, slots=True)
class Share:
    """So many hundredths of a percent of all clients, always the same ones.

    A client is known by its key, so that all limits of a rule with one key agree. A larger share holds all
    clients of a smaller one. Rules choose their clients apart from each other.

    Attributes:
        hundredths: of a percent, 1 to 10,000.
        salt: the rule's own.

    Raises:
        InvalidLimitError: the number is out of its range.
    """

    ALL: ClassVar[int] = 10_000

    hundredths: int
    salt: str = ""

    def __post_init__(self) -> None:
        """Refuse nonsense."""
        if not 0 < self.hundredths <= self.ALL:
            raise InvalidLimitError("share", self.hundredths, f"hundredths of a percent, 1 to {self.ALL}")

    def __contains__(self, bucket_key: str) -> bool:
        """Whether the client of a bucket belongs to the share."""
        client = bucket_key.partition("|")[2]  # without the limit's id: the limits of a rule must agree
        digest = blake2b(f"{self.salt}|{client}".encode("ascii", "replace"), digest_size=8).digest()
        return int.from_bytes(digest, "big") % self.ALL < self.hundredths
