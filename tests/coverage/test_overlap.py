"""What is said of a route beforehand is what the matcher says of its requests."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ratelimit_middleware.coverage.overlap import Extent, extent_of
from ratelimit_middleware.frameworks.routes import AppRoute
from ratelimit_middleware.request import AsgiView
from ratelimit_middleware.rules.load import load_rules
from ratelimit_middleware.rules.match import Matcher

pytestmark = pytest.mark.arithmetic

TEXTS = ("a", "b", "7", "A")
VALUES = {
    "str": st.sampled_from([*TEXTS, "x.y", "1.5", "ü"]),
    "int": st.sampled_from(["7", "0", "12"]),
    "float": st.sampled_from(["7", "1.5"]),
    "uuid": st.just("0b5ca6b1-1111-4222-8333-123456789abc"),
}


@dataclass(frozen=True)
class Case:
    """A template of an app, and the path of a request that it serves."""

    template: str
    path: str


@st.composite
def templates(draw: st.DrawFn, *, rest: tuple[str, ...]) -> list[str]:
    kinds = st.sampled_from([*TEXTS, *(f"{{p:{name}}}" for name in VALUES)])
    segments = draw(st.lists(kinds, max_size=3))
    return [*segments, *draw(st.sampled_from([[], [], *([one] for one in rest)]))]


@st.composite
def served(draw: st.DrawFn) -> Case:
    segments = draw(templates(rest=("{p:path}", "p.{q}", "")))
    values = []
    for segment in segments:
        kind = segment.removeprefix("{p:").removesuffix("}")
        if segment == "{p:path}":
            values += draw(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=3))
        else:
            values.append(draw(VALUES[kind]) if kind in VALUES else segment.replace("{q}", "q"))
    named = [segment.replace("p:", f"p{number}:") for number, segment in enumerate(segments)]
    return Case("/" + "/".join(named), "/" + "/".join(values))


@given(
    rule=templates(rest=("**", "{p:path}")),
    case=served(),
    words=st.sampled_from(["", "GET ", "POST ", "WS "]),
    method=st.sampled_from(["GET", "HEAD", "POST", "WS"]),
    unlimited=st.booleans(),
    any_case=st.booleans(),
)
def test_whole_holds_for_every_request_and_none_for_no_request(
    rule: list[str], case: Case, words: str, method: str, unlimited: bool, any_case: bool
) -> None:
    named = [segment.replace("p:", f"p{number}:") for number, segment in enumerate(rule)]
    limit = "unlimited" if unlimited else "1/s"
    rules = load_rules(
        {"limits": {f"{words}/{'/'.join(named)}": limit}, "default": "9/s", "case_sensitive": not any_case}
    )
    kind = {"type": "websocket"} if method == "WS" else {"type": "http", "method": method}
    counted = Matcher(rules).match(AsgiView({**kind, "path": case.path, "headers": []}))
    counts = not counted if unlimited else any(route for _, route in counted)
    extent = extent_of(rules.limits[0], AppRoute(case.template), method, any_case=any_case)

    assert counts or extent is not Extent.WHOLE
    assert not counts or extent is not Extent.NONE


@given(case=served())
def test_a_template_is_wholly_under_itself(case: Case) -> None:
    assume("p.{" not in case.template and "ü" not in case.template)
    rules = load_rules({"limits": {case.template: "1/s"}})
    extent = extent_of(rules.limits[0], AppRoute(case.template), "GET", any_case=False)
    assert extent is Extent.WHOLE
