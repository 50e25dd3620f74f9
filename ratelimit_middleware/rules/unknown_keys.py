"""Messages about keys that stand where nobody reads them, and about what stands in the place of a map."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from ratelimit_middleware.identity import REGISTERED_METHODS
from ratelimit_middleware.rules.adaptive_spec import AdaptiveSpec
from ratelimit_middleware.rules.bandwidth import BandwidthSpec
from ratelimit_middleware.rules.client_spec import ClientSpec
from ratelimit_middleware.rules.document import Path
from ratelimit_middleware.rules.foreign_keys import in_a_rule, in_the_file, instead_of
from ratelimit_middleware.rules.lease_spec import LeaseSpec
from ratelimit_middleware.rules.limit_spec import LongLimitSpec, WarmUpSpec
from ratelimit_middleware.rules.lint_spec import LintSpec
from ratelimit_middleware.rules.lists_spec import DenySpec, ListSpec
from ratelimit_middleware.rules.penalty_spec import PenaltySpec
from ratelimit_middleware.rules.queue_spec import QueueSpec
from ratelimit_middleware.rules.response_spec import RefusalSpec, ResponseSpec
from ratelimit_middleware.rules.schema import FileSpec, RuleSpec
from ratelimit_middleware.rules.spec import Spec
from ratelimit_middleware.rules.store_spec import StoreSpec
from ratelimit_middleware.rules.tier_spec import TiersSpec
from ratelimit_middleware.rules.words import (
    FILE_KEYS_NOT_YET,
    LIMIT_KEYS_NOT_YET,
    RULE_KEYS_NOT_YET,
    STORE_KEYS_NOT_YET,
    not_yet,
    shown,
    unknown,
)
from ratelimit_middleware.rules.yaml_mistakes import missing_colon

__all__ = ["no_map", "unknown_key"]


def _habits(**words: str) -> Mapping[str, str]:
    return {word: key for key, many in words.items() for word in many.split()}


class _Place(NamedTuple):
    """A map of the file: its keys, those to come, and the words that other limiters have for them."""

    spec: type[Spec]
    later: frozenset[str] = frozenset()
    habits: Mapping[str, str] = {}


_ANSWER = {
    "status": "status_code code",
    "detail": "message body error_message text",
    "responder": "handler on_breach",
}
_FILE = _Place(
    FileSpec,
    FILE_KEYS_NOT_YET,
    _habits(
        limits="rules routes paths endpoints limit rate_limit rate_limits ratelimit ratelimits",
        store="storage storage_uri storage_url backend redis redis_url",
        default="defaults default_limit default_limits",
        always="global global_limits application_limits",
    ),
)
_RULE = _Place(
    RuleSpec,
    RULE_KEYS_NOT_YET,
    _habits(
        limit="rate rates limits ratelimit rate_limit requests quota window period interval duration",
        key="by key_func scope identifier group_by",
        methods="method verbs",
        hosts="host domain",
        routes="route path paths url urls endpoint endpoints resource",
        bandwidth="limit_rate throttle speed",
        cost="weight tokens permits",
        response="error_message message",
        behavior="control_behavior controlbehavior",
    ),
)
_LONG = _Place(
    LongLimitSpec,
    LIMIT_KEYS_NOT_YET,
    _habits(
        count="rate limit requests max quota permits tokens amount",
        per="period window interval unit duration seconds time",
        timezone="tz",
    ),
)
_RESPONSE = _Place(ResponseSpec, habits=_habits(**_ANSWER, expose_cors="cors", headers="headers_enabled"))
_RULE_RESPONSE = _Place(RefusalSpec, habits=_habits(**_ANSWER))
_STORE = _Place(StoreSpec, STORE_KEYS_NOT_YET, _habits(url="uri type backend host"))
_LEASE = _Place(LeaseSpec, habits=_habits(size="count block permits", max_age="age ttl seconds"))
_CLIENT = _Place(ClientSpec, habits=_habits(trusted_proxies="proxies trusted trust"))
_LINT = _Place(LintSpec)
_LISTED = _habits(ips="ip addresses networks cidrs", headers="header", methods="method")
_DENY = _Place(DenySpec, habits=_LISTED)
_EXEMPT = _Place(ListSpec, habits=_LISTED)
_PENALTY = _Place(PenaltySpec, habits=_habits(after="refusals count", block="blocks duration ban"))
_TIERS = _Place(TiersSpec)
_ADAPTIVE = _Place(
    AdaptiveSpec,
    habits=_habits(
        max_in_flight="inflight max_inflight in_flight max_concurrency thread maxthread", loop_lag="lag"
    ),
)
_QUEUE = _Place(QueueSpec, habits=_habits(max_wait="wait timeout delay", max_waiting="size length"))
_WARM_UP = _Place(WarmUpSpec, habits=_habits(period="duration seconds time", cold_factor="factor"))
_BANDWIDTH = _Place(BandwidthSpec, habits=_habits(response="down download out", request="up upload in"))
_AT_THE_TOP = {
    "store": _STORE,
    "response": _RESPONSE,
    "client": _CLIENT,
    "lint": _LINT,
    "deny": _DENY,
    "exempt": _EXEMPT,
    "tiers": _TIERS,
}
_IN_A_RULE = {
    "response": _RULE_RESPONSE,
    "warm_up": _WARM_UP,
    "queue": _QUEUE,
    "long": _LONG,
    "exempt": _EXEMPT,
    "penalty": _PENALTY,
    "adaptive": _ADAPTIVE,
    "bandwidth": _BANDWIDTH,
    "lease": _LEASE,
}

_BLOCKS_OF_A_RULE: Mapping[str, Collection[str]] = {
    "queue": QueueSpec.model_fields,
    "warm_up": WarmUpSpec.model_fields,
    "penalty": PenaltySpec.model_fields,
    "adaptive": AdaptiveSpec.model_fields,
    "charge": ("on_status",),
    "cost": ("reserve", "actual", "min", "max"),
}

_ROUTE_FIRST = re.compile(r"(?:[A-Z,]+\s+)?/")
_SPACE_AFTER_KIND = re.compile(r".*\b(header|cookie|query|python)")


def unknown_key(path: Path, value: object) -> str:
    """The message for a key that is not one of its map.

    Args:
        path: of the key.
        value: what stands behind it.
    """
    *parents, word = path
    place, text = _place(parents), str(word)
    if text in place.later:
        return not_yet(f"the key `{text}`")
    return _elsewhere(place, text, value, str(path[-2]) if parents else "") or unknown(
        "key", text, place.spec.model_fields, place.later, place.habits
    )


def _place(parents: list[str | int]) -> _Place:
    if not parents:
        return _FILE
    places = _AT_THE_TOP if len(parents) == 1 else _IN_A_RULE
    return places.get(str(parents[-1]), _RULE)


def _elsewhere(place: _Place, word: str, value: object, above: str) -> str:
    """Where the key would be right; empty when nowhere.

    Args:
        place: the map that it stands in.
        word: the key.
        value: what stands behind it.
        above: the key of the map, or the item in a list.
    """
    if place is _FILE:
        return in_the_file(word, value) or _not_at_the_top(word)
    if place is _LONG and _SPACE_AFTER_KIND.fullmatch(word):
        return f"a space too many after the colon: write {shown(f'{word}:{value}')}"
    if place is _LONG and word == "limit":
        return f"an item of this list is a limit itself: write {shown(value)} without `limit:`"
    if place is _RULE and (word in REGISTERED_METHODS or above in REGISTERED_METHODS):
        method, route = (word, above) if word in REGISTERED_METHODS else (above, word)
        return f"method and path are one key: write {shown(f'{method} {route}')}"
    if "/" in word and not above.startswith("/"):
        return f"routes stand below `limits:`: write {shown(word)} there"
    if "/" in word:
        return f"a route inside a rule: let {shown(word)} begin in the column of the other routes"
    if place is _RULE_RESPONSE and word in ResponseSpec.model_fields:
        return f"the key `{word}` is for the whole file: write it under `response` at the top"
    return in_a_rule(word, value) or _not_in_a_rule(word) if place is _RULE else ""


def _not_at_the_top(word: str) -> str:
    if "/" in word:
        return f"routes stand below `limits:`: write that line above and indent {shown(word)}"
    for name, other in (("response", _RESPONSE), ("store", _STORE), ("client", _CLIENT)):
        if word in other.spec.model_fields or word in other.later:
            return _under(name, word)
    if word in RuleSpec.model_fields and word not in _FILE.habits:
        return f"the key `{word}` is for a rule: write it beside the `limit` of a route or of `default`"
    return ""


def _not_in_a_rule(word: str) -> str:
    if word == "burst":
        return "the key `burst` is for the long form of a limit: write `limit: 10/second burst 20`"
    if word in LongLimitSpec.model_fields:
        more = "" if word in ("count", "per") else f", {word}: …"
        return f"the key `{word}` is for the long form of a limit: write `limit: {{count: …, per: …{more}}}`"
    if word in RefusalSpec.model_fields:
        return _under("response", word)
    block = next((name for name, keys in _BLOCKS_OF_A_RULE.items() if word in keys), "")
    if block and word not in _RULE.habits:
        return _under(block, word)
    if word in FileSpec.model_fields and word not in _RULE.habits:
        return f"the key `{word}` is for the whole file: let it begin in the first column"
    return ""


def _under(block: str, word: str) -> str:
    return f"the key `{word}` stands under `{block}`: write `{block}: {{{word}: …}}`"


def no_map(path: Path, value: Any) -> str:
    """The message for something else in the place of a map."""
    if path == ("limits",):
        return _no_limits(value)
    hint = instead_of(str(path[-1]) if path else "", value)
    if not hint and isinstance(value, list):
        hint = "write its keys without `-` before them"
    return f"{shown(value)} is not a map of keys and values{hint and f': {hint}'}"


def _no_limits(value: Any) -> str:
    first = value[0] if isinstance(value, list) and value else value
    key, below = next(iter(first.items())) if isinstance(first, dict) and first else ("", None)
    if "/" in key:
        return f"`limits` is a map, not a list: remove the dash before {shown(key)}"
    if isinstance(below, str):
        head = shown(f"{below}:")
        return f"`limits` is a map of routes, not a list: write {head} and indent the other keys below it"
    colon = missing_colon(first) if isinstance(first, str) and _ROUTE_FIRST.match(first) else ""
    if colon:
        return colon
    example = "write `/items: 100/minute` below `limits:`, or `default: 100/minute`"
    return f"{shown(value)} tells no route: {example}"
