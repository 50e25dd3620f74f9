"""RL301 to RL502: what a rule file trusts, forgets, and needs around it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date
from ipaddress import IPv4Network, IPv6Network, ip_network

from ratelimit_middleware.rules.client_written import holds, is_written_by_client
from ratelimit_middleware.rules.key_grammar import key_text
from ratelimit_middleware.rules.lint.warning import LintWarning, about
from ratelimit_middleware.rules.model import RuleSet
from ratelimit_middleware.store_settings import StoreSettings

__all__ = [
    "client_written_keys",
    "idle_store_keys",
    "memory_under_workers",
    "old_shadows",
    "too_wide",
    "wide_proxies",
]

_OLD_DAYS = 90
_SHORTEST_PREFIX = 8
_IDLE = {"memory": ("timeout", "prefix", "expected_workers"), "shared": ("prefix", "workers")}
_IDLE_REMOTE = ("workers",)
_PRIVATE_IPV6 = "fc00::/7"  # RFC 4193, the one wide block that is private as a whole


def client_written_keys(ruleset: RuleSet) -> Iterator[LintWarning]:
    """RL301: rules that clients leave by writing another value, unless a proxy really sets it."""
    for rule in ruleset.rules:
        written = [
            limit for limit in rule.limits if any(is_written_by_client(x, rule.hosts) for x in limit.key)
        ]
        if written and not any(holds(limit.key, limit.missing, rule.hosts) for limit in rule.limits):
            yield about(
                ruleset,
                rule,
                "RL301",
                f"the key `{key_text(written[0].key)}` of the rule `{rule.name}` has a part that clients"
                " write, and nothing else holds them: add a limit `per ip` beside it, or see to it that your"
                " proxy sets that part on every request",
            )


def wide_proxies(ruleset: RuleSet) -> Iterator[LintWarning]:
    """RL302: trusted proxies that hold nearly everybody."""
    for network in too_wide(ruleset.client.trusted_proxies):
        yield about(
            ruleset,
            None,
            "RL302",
            f"`trusted_proxies` holds {network}, so nearly everybody may claim to be another client: name the"
            " networks of your own proxies",
        )


def too_wide(networks: Iterable[IPv4Network | IPv6Network]) -> list[IPv4Network | IPv6Network]:
    """Networks too wide to be a site's own proxies: shorter prefixes than /8, but all of private IPv6."""
    private = ip_network(_PRIVATE_IPV6)
    return [network for network in networks if network.prefixlen < _SHORTEST_PREFIX and network != private]


def old_shadows(ruleset: RuleSet, today: date) -> Iterator[LintWarning]:
    """RL401: shadow rules that have watched for long."""
    for rule in ruleset.rules:
        if rule.since and (today - rule.since).days > _OLD_DAYS:
            yield about(
                ruleset,
                rule,
                "RL401",
                f"the rule `{rule.name}` has only watched since {rule.since}, more than {_OLD_DAYS} days:"
                " enforce it (leave `mode: shadow` and `since` out), drop it, or write a later date",
            )


def memory_under_workers(ruleset: RuleSet, workers: int) -> Iterator[LintWarning]:
    """RL501: counts that each of several workers keeps for itself."""
    if workers > ruleset.store.workers and ruleset.store.scheme == "memory":
        yield about(
            ruleset,
            None,
            "RL501",
            f"the memory store counts in each of {workers} workers for itself, so a client may get {workers}"
            f" times the limit: write `store: shared://`, `workers: {workers}` below `store`, or start one"
            " worker",
        )


def idle_store_keys(ruleset: RuleSet) -> Iterator[LintWarning]:
    """RL502: settings that the store of the file does not have."""
    said, usual = ruleset.store, StoreSettings()
    fields = {"timeout": "timeout_ns"}
    for key in _IDLE.get(said.scheme, _IDLE_REMOTE):
        field = fields.get(key, key)
        if getattr(said, field) != getattr(usual, field):
            yield about(
                ruleset,
                None,
                "RL502",
                f"`{key}` has no effect on `{said.scheme}://`: leave it out of `store`, or name the store"
                " that it is for",
            )
