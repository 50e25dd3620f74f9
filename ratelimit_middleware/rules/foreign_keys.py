"""Keys of other limiters for which one word of this format is no answer: what to write in their place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ratelimit_middleware.rules.key_grammar import parse_key
from ratelimit_middleware.rules.limit_fields import read_per
from ratelimit_middleware.rules.words import reads, shown

__all__ = ["in_a_rule", "in_the_file", "instead_of"]

_SHADOWS = ("shadow", "shadow_mode", "dry_run")
_PROXIES = ("num_proxies", "proxy_count", "trust_proxy")
_COUNTS = ("times", "seconds", "minutes", "hours", "milliseconds", "max_requests", "window_seconds")
_HOPS = "`client: {hops: 1}`, or better `client: {trusted_proxies: [10.0.0.0/8]}`, at the top of the file"
_EXEMPT_FUNCTION = (
    "`exempt: {ips: …, headers: …, methods: …}`; where a function must decide, let it tell the limit, `limit:"
    " python:MODULE:FUNCTION`, and give `unlimited`"
)
_RULE: Mapping[str, str] = {
    **dict.fromkeys(_SHADOWS, "`mode: shadow`, by which it is counted and reported and never refused"),
    **dict.fromkeys(_PROXIES, _HOPS),
    **dict.fromkeys(_COUNTS, "a text with number and period, `limit: 5/minute` or `limit: 5/15m`"),
    **dict.fromkeys(("exempt_when", "skip", "skip_when"), _EXEMPT_FUNCTION),
    **dict.fromkeys(("disabled", "disable"), "`mode: none`, or leave the rule out"),
    "limit_conn": "`concurrency: 5`, the requests in progress at one time",
    "limit_req": "a limit, such as `limit: 10/second burst 21`",
    "unlimited": "`limit: unlimited`, or `/health: unlimited` in one line",
}
_FILE: Mapping[str, str] = {
    **dict.fromkeys(_SHADOWS, "`mode: shadow`, by which no rule of the file refuses"),
    **dict.fromkeys(_PROXIES, _HOPS),
    **dict.fromkeys(("whitelist", "allowlist"), "`exempt: {ips: […]}`"),
    **dict.fromkeys(("blacklist", "blocklist"), "`deny: {ips: […]}`"),
    "unlimited": "each route below `limits`, `/health: unlimited`",
    "limit_conn": "`always: {concurrency: 5 per ip}`, the requests in progress at one time",
}
_BLOCKS: Mapping[str, str] = {
    "client": "client: {trusted_proxies: [10.0.0.0/8]}",
    "response": "response: {status: 429, detail: TEXT}",
    "tiers": "tiers: {by: python:MODULE:FUNCTION, pro: {scale: 10}}",
    "exempt": "exempt: {ips: [10.0.0.0/8]}",
    "deny": "deny: {ips: [203.0.113.0/24]}",
    "lint": "lint: {ignore: [RL101]}",
    "penalty": "penalty: {after: 10, block: [1m, 5m]}",
    "overrides": "overrides: {VALUE: 10/minute}",
    "lease": "lease: {size: 50, max_age: 200ms}",
    "adaptive": "adaptive: {max_in_flight: bbr, cpu: 0.9}",
}
_ALGORITHMS = {
    "fixed-window": "fixed_window",
    "sliding-window-counter": "sliding_counter",
    "token-bucket": "token_bucket",
}


def in_the_file(word: str, value: Any) -> str:
    """The message for such a key at the top of the file; empty when it is none."""
    return _strategy(value) if word in ("strategy", "algorithm") else _said(word, _FILE)


def in_a_rule(word: str, value: Any) -> str:
    """The message for such a key in a rule; empty when it is none."""
    if word == "strategy":
        return _strategy(value)
    if word == "enabled" and isinstance(value, bool):
        return f"there is no key `enabled`: {'leave it out' if value else 'write `mode: none`'}"
    if word == "per" and isinstance(value, str) and not reads(read_per, value):
        key = value if reads(parse_key, value) else "ip"
        limit = shown(f"limit: 5/minute per {key}")
        return f"`per` stands in the limit: write {limit}, or {shown(f'key: {key}')}"
    return _said(word, _RULE)


def instead_of(block: str, value: Any) -> str:
    """What to write for a block of the file in the place of a list or a word; empty where that is plain."""
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return ""
    if block == "exempt" and value is True:
        return "to take its routes out of all limits write `limit: unlimited`"
    example = _BLOCKS.get(block)
    return f"write {shown(example)}" if example else ""


def _said(word: str, table: Mapping[str, str]) -> str:
    return f"there is no key `{word}`: write {table[word]}" if word in table else ""


def _strategy(value: Any) -> str:
    """The strategies of `limits`, which flask-limiter and slowapi have."""
    name = value.lower().replace("_", "-") if isinstance(value, str) else ""
    if name in ("moving-window", "sliding-window"):
        return f"there is no key `strategy`: leave it out, `100/minute` is what {shown(value)} is elsewhere"
    algorithm = _ALGORITHMS.get(name.removesuffix("-elastic-expiry"), "…")
    example = f"limit: {{count: 100, per: minute, algorithm: {algorithm}}}"
    return f"there is no key `strategy`: write the long form of a limit, `{example}`"
