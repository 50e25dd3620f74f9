"""What the rule file says about leases: permits that a process takes in blocks."""

from __future__ import annotations

from typing import Annotated, Any

from ratelimit_middleware.errors import InvalidLimitError
from ratelimit_middleware.rules.limit_fields import read_count
from ratelimit_middleware.rules.queue_spec import read_wait
from ratelimit_middleware.rules.spec import Spec
from ratelimit_middleware.rules.values import POSITIVE, WAIT, plain
from ratelimit_middleware.rules.words import GrammarError, shown
from ratelimit_middleware.store_settings import LeaseSettings

__all__ = ["LeaseSpec"]

_DEFAULT = LeaseSettings()


def _read_size(value: Any) -> int:
    """The most permits of a block."""
    size = read_count("size")(value)
    try:
        return LeaseSettings(size).size
    except InvalidLimitError as error:
        raise GrammarError(f"a block of {shown(value)} permits is none: write {error.expected}") from None


def _read_max_age(value: Any) -> int:
    """How long a block may be spent, ns."""
    age_ns = read_wait(value)
    try:
        return LeaseSettings(max_age_ns=age_ns).max_age_ns
    except InvalidLimitError:
        raise GrammarError(
            f"the age {shown(value)} is too short or too long: write `200ms` or `1s`, from 1 ms to 60 s"
        ) from None


class LeaseSpec(Spec):
    """`{size: 50, max_age: 200ms}`."""

    size: Annotated[int, plain(_read_size, POSITIVE)] = _DEFAULT.size
    max_age: Annotated[int, plain(_read_max_age, WAIT)] = _DEFAULT.max_age_ns

    @property
    def settings(self) -> LeaseSettings:
        """As the rule set keeps it."""
        return LeaseSettings(self.size, self.max_age)
