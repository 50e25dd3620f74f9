"""The contract of every algorithm: arithmetic on plain tuples, time as an argument.

No clock is read here, nothing is locked, nothing is logged. Amounts are whole permits, times whole
nanoseconds since the epoch. Rounding always favours fewer permits.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from ratelimit_middleware.decision import Decision
from ratelimit_middleware.errors import InvalidLimitError

__all__ = [
    "AdoptMode",
    "Algorithm",
    "State",
    "adopted_use",
    "ceil_div",
    "granted",
    "positive_int",
    "refused",
    "scaled_count",
]

State: TypeAlias = tuple[Any, ...]
"""Plain numbers (at most one packed `bytes`), comparable and packable."""

AdoptMode: TypeAlias = Literal["keep", "scale", "reset"]

_Self = TypeVar("_Self", bound="Algorithm")
_new = tuple.__new__


class Algorithm(Protocol):
    """A frozen value that holds a limit's numbers and does its arithmetic.

    `State` values belong to the algorithm: nobody else looks inside. A state may be used at a moment
    earlier than the one it was made for (another request booked ahead, or a clock went back): such a
    moment never gets more than the later one.
    """

    @property
    def quota(self) -> int:
        """Permits per window, as clients are told (`q` on the wire)."""

    @property
    def window_ns(self) -> int:
        """The window that goes with `quota`, ns (`w` on the wire)."""

    @property
    def smallest_full_take(self) -> int:
        """The largest cost that a fresh bucket can ever admit; a rule that costs more is refused at load."""

    def start(self, now_ns: int) -> State:
        """The state of a key never seen."""

    def step(self, state: State, now_ns: int) -> State:
        """Let time pass; never a consumption."""

    def take(
        self, state: State, now_ns: int, cost: int = 1, max_wait_ns: int | None = 0, from_ns: int = 0
    ) -> tuple[Decision, State]:
        """Decide and consume.

        Args:
            state: the key's state.
            now_ns: the present moment.
            cost: permits wanted, at least 1.
            max_wait_ns: how far ahead of `now_ns` the booking may lie; None = however far.
            from_ns: the booking may not lie before this moment (a request that several limits book
                together has one start time); moments before `now_ns` mean now.

        Returns:
            The decision, and the state to keep: with a refusal it is `step(state, now_ns)`.
        """

    def charge(self, state: State, now_ns: int, cost: int) -> State:
        """Consume without asking: the debt is carried, up to one full window beyond the limit."""

    def give_back(self, state: State, now_ns: int, cost: int, at_ns: int) -> State:
        """Undo a booking of `cost` permits for `at_ns` that was not used.

        Touches only that booking: nothing changes if it has left the window or if others stand behind
        it that cannot move. Never mints. `cost` and `at_ns` are those of the booking, made in this
        algorithm's numbers.
        """

    def peek(self, state: State, now_ns: int, cost: int = 1) -> Decision:
        """What a request would hear; nothing changes."""

    def scaled(self: _Self, factor: float) -> _Self:
        """The same algorithm with its amounts multiplied by `factor`, each at least 1."""

    def adopt(self, state: State, now_ns: int, old: Algorithm, mode: AdoptMode) -> State:
        """A state that `old` wrote, in this algorithm's numbers.

        `keep` carries the permits used, `scale` carries the used share, `reset` starts afresh. There
        and back (keep, scale) never mints.
        """

    def used(self, state: State, now_ns: int) -> int:
        """Permits in use at `now_ns`, bookings ahead and debt included (so it may exceed `quota`)."""

    def forget_at_ns(self, state: State) -> int:
        """From this moment on, dropping the state can only make the key stricter."""


def adopted_use(new: Algorithm, state: State, now_ns: int, old: Algorithm, mode: AdoptMode) -> int:
    """How many permits `new` has to count as used for a state of another kind of algorithm."""
    if mode == "reset":
        return 0
    used = old.used(state, now_ns)
    # A limit of 0 (it refuses everything) knows no share: from and to it permits count as they are.
    return used if mode == "keep" or not old.quota or not new.quota else ceil_div(used * new.quota, old.quota)


def ceil_div(a: int, b: int) -> int:
    """`a / b`, rounded up (b > 0)."""
    return -(-a // b)


def positive_int(what: str, value: object, maximum: int = 10**12) -> int:
    """`value` as an int from 1 to `maximum`.

    Raises:
        InvalidLimitError: anything else, booleans and fractions included.
    """
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not whole or not 1 <= value <= maximum:  # type: ignore[operator]
        raise InvalidLimitError(what, value, f"a whole number from 1 to {maximum}")
    return int(value)  # type: ignore[call-overload, no-any-return]


def scaled_count(count: int, factor: float) -> int:
    """`count * factor`, rounded down, at least 1.

    Raises:
        InvalidLimitError: the factor is not a finite number above 0.
    """
    if not 0 < factor < 1e9:
        raise InvalidLimitError("factor", factor, "a finite number above 0")
    # The factor 1/49 is a little less than a 49th: that must not cost one of 98 permits.
    return max(1, int(count * factor * (1 + 2**-50)))


def granted(at_ns: int, now_ns: int, limit: int, remaining: int, reset_after_ns: int) -> Decision:
    """An admission booked for `at_ns`."""
    # Past the named tuple's own constructor: it costs as much as the arithmetic before it.
    return _new(Decision, (True, at_ns, at_ns - now_ns, None, limit, remaining, reset_after_ns))


def refused(
    now_ns: int, retry_after_ns: int | None, limit: int, remaining: int, reset_after_ns: int
) -> Decision:
    """A refusal, to be tried again after `retry_after_ns`."""
    return _new(Decision, (False, now_ns, 0, retry_after_ns, limit, remaining, reset_after_ns))
