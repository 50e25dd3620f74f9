"""What stands in a bucket: for every store, whatever it keeps its states in."""

from __future__ import annotations

from ratelimit_middleware.algorithms.base import Algorithm, State
from ratelimit_middleware.algorithms.penalty import Strike
from ratelimit_middleware.algorithms.related import Related, RelatedCharge
from ratelimit_middleware.stores.base import Look

__all__ = ["look_at"]


def look_at(algorithm: Algorithm, state: State, now_ns: int) -> Look:
    """What the numbers that wrote a state say to a request.

    A strike is written for requests of its penalty, a related charge for those of the other route.
    """
    if isinstance(algorithm, Strike):
        algorithm = algorithm.penalty
    elif isinstance(algorithm, RelatedCharge):
        algorithm = Related(algorithm.limit)
    decision = algorithm.peek(state, now_ns)
    if decision.allowed and not isinstance(algorithm, Related):
        decision = decision._replace(remaining=min(decision.limit, decision.remaining + 1))
    return Look(algorithm, decision)
