"""The hosts that a rule is for: `api.example.com`, or `*.example.com` for all below it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ratelimit_middleware.rules.words import GrammarError, shown

__all__ = ["is_exact", "matches", "read_host"]

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST = re.compile(rf"(?:\*\.)?{_LABEL}(?:\.{_LABEL})*|\[[0-9a-f:.]+\]")


def read_host(value: Any) -> str:
    """A host in lower case, without the final dot.

    Raises:
        GrammarError: it is not the name or address of a host.
    """
    if not isinstance(value, str):
        raise GrammarError(f"{shown(value)} is not a host: write `api.example.com` or `*.example.com`")
    host = value.strip().lower().removesuffix(".")
    if "," in host:
        raise GrammarError(
            f"{shown(value)} are several hosts: write `[{', '.join(re.split('[, ]+', host))}]`"
        )
    if not host.isascii():
        raise GrammarError(f"the host {shown(value)} is not ASCII: write it as it is sent, `xn--…`")
    if re.fullmatch(r"[^:]*:[0-9]*|\[.*\]:[0-9]*", host):
        raise GrammarError(f"the host {shown(value)} has a port: hosts are told apart without it")
    if not _HOST.fullmatch(host):
        raise GrammarError(
            f"{shown(value)} is not a host: write `api.example.com`, or `*.example.com` for all below it"
        )
    return host


def is_exact(hosts: Sequence[str]) -> bool:
    """Whether a client can choose among these hosts only."""
    return bool(hosts) and not any(host.startswith("*") for host in hosts)


def matches(hosts: Sequence[str], host: str) -> bool:
    """Whether a request's host is one of a rule's; all are, where the rule names none."""
    return not hosts or any(
        host == wanted or (wanted[0] == "*" and host.endswith(wanted[1:])) for wanted in hosts
    )
