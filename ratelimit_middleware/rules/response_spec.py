"""What the rule file says about answers."""

from __future__ import annotations

from typing import Annotated

from ratelimit_middleware.rules.fields import (
    read_detail,
    read_flag,
    read_headers,
    read_headers_on,
    read_responder,
    read_status,
)
from ratelimit_middleware.rules.model import HeadersOn, HeaderStyle, Responder
from ratelimit_middleware.rules.spec import Spec
from ratelimit_middleware.rules.values import DETAIL, FLAG, HEADERS, RESPONDER, STATUS, choice, plain

__all__ = ["RefusalSpec", "ResponseSpec"]


class RefusalSpec(Spec):
    """What a refused client hears: of one rule, or of the file."""

    status: Annotated[int, plain(read_status, STATUS)] = 429
    detail: Annotated[str, plain(read_detail, DETAIL)] = ""
    problem: Annotated[bool, plain(read_flag("problem"), FLAG)] = True
    responder: Annotated[Responder, plain(read_responder, RESPONDER)] | None = None


class ResponseSpec(RefusalSpec):
    """What is said to clients."""

    headers: Annotated[tuple[HeaderStyle, ...], plain(read_headers, HEADERS)] = ("draft-11",)
    headers_on: Annotated[
        HeadersOn, plain(read_headers_on, choice(("all", "refused"), "On which responses."))
    ] = "all"
    expose_cors: Annotated[bool, plain(read_flag("expose_cors"), FLAG)] = False
    shadow_header: Annotated[bool, plain(read_flag("shadow_header"), FLAG)] = False
