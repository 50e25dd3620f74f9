"""Which limits count for which request."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratelimit_middleware.errors import RuleFileError
from ratelimit_middleware.request import Kind, Target
from ratelimit_middleware.request_texts import Doubtful, readings
from ratelimit_middleware.rules.load import load_rules
from ratelimit_middleware.rules.match import Matcher
from ratelimit_middleware.rules.model import RuleSet

pytestmark = pytest.mark.arithmetic


@dataclass
class View:
    """A request of a test."""

    path: str
    method: str = "GET"
    kind: Kind = "http"
    peer: str | None = None
    host: str = ""
    user: str | None = None
    raw: dict[str, Any] = field(default_factory=dict)
    memo: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=lambda: {"x-test": "1"})
    is_head: bool = False

    @property
    def target(self) -> Target:
        return (self.kind, self.method, *readings(self.path))

    def header(self, name: str) -> str | None:
        return self.headers.get(name)

    def query(self, name: str) -> str | None:
        return None

    def cookie(self, name: str) -> str | None:
        return None


def matcher(limits: dict[str, Any] | None = None, **more: Any) -> Matcher:
    return Matcher(load_rules({"limits": limits or {}, **more}, env={}))


def counted(matched: Matcher, path: str, method: str = "GET", kind: Kind = "http") -> list[str]:
    """Names of the policies that count."""
    return [limit.policy.name for limit, _ in matched.match(View(path, method, kind))]


def test_every_rule_that_matches_counts_in_the_order_of_the_file() -> None:
    rules = matcher({"/**": "9/s", "/items/{id}": "5/s", "/items/1": "3/s"}, always="1/s", default="2/s")
    assert counted(rules, "/items/1") == ["always-1", "root", "items-id", "items-1"]


def test_default_counts_where_nothing_else_does() -> None:
    rules = matcher({"/items": "5/s"}, default="2/s")
    assert counted(rules, "/items") == ["items"]
    assert counted(rules, "/other") == ["default"]


def test_a_shadow_rule_does_not_switch_default_off() -> None:
    rules = matcher({"/items": {"limit": "5/s", "mode": "shadow"}}, default="2/s")
    assert counted(rules, "/items") == ["items", "default"]


def test_unlimited_takes_a_route_out_of_limits_and_default_but_not_out_of_always() -> None:
    rules = matcher({"/health": "unlimited", "/**": "9/s"}, always="1/s", default="2/s")
    assert counted(rules, "/health") == ["always-1"]
    assert counted(rules, "/healthy") == ["always-1", "root"]


def test_unlimited_for_one_method_leaves_the_others() -> None:
    rules = matcher({"GET /x": "unlimited", "/x": "9/s"})
    assert counted(rules, "/x") == []
    assert counted(rules, "/x", "POST") == ["x"]


def test_a_default_of_unlimited_counts_nothing() -> None:
    assert counted(matcher({}, default="unlimited"), "/x") == []


@pytest.mark.parametrize(
    "path",
    ["/static/../api/login", "/static//../api/login", "/static/./../api/login/", "//static/x", "/static/x/"],
)
def test_unlimited_holds_only_if_both_spellings_are(path: str) -> None:
    rules = matcher({"/static/{file}": "unlimited", "/static/{a}/{b}/{c}": "unlimited"}, default="2/s")
    assert counted(rules, path) == ["default"]


def test_a_path_that_climbs_out_of_an_unlimited_tree_is_limited() -> None:
    rules = matcher({"/static/**": "unlimited", "POST /login": "5/m"}, default="2/s")
    assert counted(rules, "/static/css/site.css") == []
    assert counted(rules, "/static/../login", "POST") == ["post-login"]
    assert counted(rules, "/login/../static/x", "POST") == ["default"]


@pytest.mark.parametrize(
    "path",
    [
        "/items/1",
        "//items//1",
        "/items/1/",
        "/items/../items/1",
        "/./items/1",
        "/items/./1",
        "/x/../items/1",
        "/items/1\n",
        "items/1",
    ],
)
@pytest.mark.parametrize(
    "template", ["/items/{id}", "/items/{id}/", "/items/{id:int}", "//items/{id}", "/items/1"]
)
def test_no_spelling_of_a_path_escapes_its_rule(template: str, path: str) -> None:
    assert len(counted(matcher({template: "5/s"}), path)) == 1


def test_a_limit_found_under_either_spelling_counts_once() -> None:
    rules = matcher({"/a/**": "5/s", "/b": "3/s"})
    assert counted(rules, "/a/../b") == ["a", "b"]
    assert counted(rules, "/a//") == ["a"]


def test_the_final_stars_take_the_rest_and_the_place_itself() -> None:
    rules = matcher({"/api/**": "5/s"})
    for path in ("/api", "/api/", "/api/x", "/api/x/y/z"):
        assert counted(rules, path) == ["api"]
    for path in ("/ap", "/apix", "/x/api", "/"):
        assert counted(rules, path) == []


def test_stars_at_the_root_match_every_path() -> None:
    rules = matcher({"/**": "5/s"})
    for path in ("/", "/a", "//", "/a/b", "*"):
        assert counted(rules, path) == ["root"]


def test_a_parameter_is_one_segment_that_is_not_empty() -> None:
    rules = matcher({"/items/{id}": "5/s"})
    assert counted(rules, "/items/") == []
    assert counted(rules, "/items/a/b") == []
    assert counted(rules, "/items/a b") == ["items-id"]


@pytest.mark.parametrize(
    ("template", "path", "fits"),
    [
        ("/{x:int}", "/12", True),
        ("/{x:int}", "/١٢", True),  # Werkzeug converts these digits as well
        ("/{x:int}", "/a12", False),
        ("/{x:int}", "/" + "1" * 5000, True),
        *(("/{x:int}", path, True) for path in ("/-12", "/+1", "/1_0", "/ 1")),  # and Litestar these
        ("/{x:int}", "/1.5", False),
        ("/{x:float}", "/1.5", True),
        ("/{x:float}", "/15", True),
        *(("/{x:float}", path, True) for path in ("/1.", "/.5", "/1e5", "/nan", "/-1")),
        ("/{x:float}", "/1.5.2", False),
        ("/{x:uuid}", "/{123e4567e89b12d3a456426614174000}", True),
        ("/{x:uuid}", "/123e4567-e89b-12d3-a456-426614174000", True),
        ("/{x:uuid}", "/123e4567e89b12d3a456426614174000", True),
        ("/{x:uuid}", "/123e4567", False),
        ("/f/{x:path}", "/f/a/b", True),
        ("/f/{x:path}", "/f/", True),
        ("/f/{x:path}", "/g/a", False),
    ],
)
def test_a_converter_takes_what_the_frameworks_take(template: str, path: str, fits: bool) -> None:
    assert bool(counted(matcher({template: "5/s"}), path)) is fits


def test_paths_are_case_sensitive() -> None:
    assert counted(matcher({"/Items": "5/s"}), "/items") == []


def test_a_rule_without_method_counts_all_methods_and_handshakes() -> None:
    rules = matcher({"/x": "5/s"})
    assert counted(rules, "/x", "BREW") == ["x"]
    assert counted(rules, "/x", "GET", "websocket") == ["x"]


def test_head_counts_as_get() -> None:
    rules = matcher({"GET /x": "5/s", "HEAD /x": "3/s"})
    assert counted(rules, "/x", "HEAD") == ["get-x", "head-x"]
    assert counted(rules, "/x", "GET") == ["get-x"]


def test_ws_stands_for_handshakes_alone() -> None:
    rules = matcher({"WS /live/{room}": "5/s", "GET /live/{room}": "3/s"})
    assert counted(rules, "/live/1", "GET", "websocket") == ["ws-live-room"]
    assert counted(rules, "/live/1") == ["get-live-room"]
    assert counted(rules, "/live/1", "WS") == []


def test_each_limit_comes_with_the_pattern_that_matched() -> None:
    rules = matcher({"GET /items/<int:id>": "5/s"}, always="9/s", default="1/s")
    assert [route for _, route in rules.match(View("/items/1"))] == ["", "GET /items/{id:int}"]
    assert [route for _, route in rules.match(View("/other"))] == ["", ""]


def test_a_rule_that_is_switched_off_leaves_default_on() -> None:
    rules = matcher({"/x": {"limit": "5/s", "mode": "none"}}, default="1/s")
    assert counted(rules, "/x") == ["default"]


def test_an_empty_rule_set_counts_nothing() -> None:
    assert Matcher(RuleSet()).match(View("/x")) == ()


def test_random_paths_do_not_grow_the_cache_without_end() -> None:
    rules = matcher({"/{x}/**": "5/s"})
    for number in range(50_000):
        for _ in range(2):  # from the second time on it is worth remembering
            rules.match(View(f"/{number}/{'x' * (number % 600)}", method=f"M{number % 7}"))
    assert 2048 <= len(rules.plans) <= 4096
    assert cached_text(rules) <= 4096 * 512
    before = len(rules.plans)
    for _ in range(2):
        assert counted(rules, "/" + "x" * 600) == ["x"]
        assert counted(rules, "/x", "M" * 600) == ["x"]
    assert len(rules.plans) == before


def test_a_preflight_and_another_request_with_the_method_of_one_are_matched_apart() -> None:
    rules = matcher({"/x": "5/s"})
    preflight = {"origin": "https://shop.example", "access-control-request-method": "POST"}
    for _ in range(2):
        assert counted(rules, "/x", "OPTIONS") == ["x"]
        assert not rules.match(View("/x", "OPTIONS", headers=preflight))


def cached_text(rules: Matcher) -> int:
    """Characters of paths, methods and hosts that the cache holds."""
    keys = [*rules.plans.young, *rules.plans._old]
    return sum(len(str(text)) for _, *texts in keys for text in texts)


def test_a_path_that_is_asked_for_often_outlives_a_flood_of_others() -> None:
    rules = matcher({"/{x}": "5/s"})
    often = View("/a")
    for number in range(20_000):
        for _ in range(2):
            rules.match(View(f"/{number}"))
        if number % 1000 == 0:
            for _ in range(2):
                rules.match(often)
            assert often.target in rules.plans.young


def test_a_flood_of_paths_that_are_asked_for_once_pushes_none_out() -> None:
    rules = matcher({"/{x}": "5/s"})
    for _ in range(2):
        rules.match(View("/a"))
    for number in range(20_000):
        rules.match(View(f"/{number}"))
    assert [target for target in rules.plans.young if "/a" in target]
    assert len(rules.plans) < 20


def test_an_answer_is_the_same_from_the_cache() -> None:
    rules = matcher({"/{x}": "5/s"}, default="1/s")
    assert rules.match(View("/a")) is rules.match(View("/a"))


def test_threads_may_ask_at_once() -> None:
    rules = matcher({"/{x}": "5/s"})
    wrong: list[int] = []

    def ask(first: int) -> None:
        wrong.extend(n for n in range(first, first + 5000) if counted(rules, f"/{n}") != ["x"])

    threads = [threading.Thread(target=ask, args=(start,)) for start in (0, 2500, 5000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_ten_thousand_rules_cost_a_path_about_what_one_costs() -> None:
    """Counted in lines run, so the machine's speed does not matter."""

    def lines_of(rules: Matcher) -> int:
        lines = 0

        def count(frame: Any, event: str, arg: Any) -> Any:
            nonlocal lines
            lines += event == "line"
            return count

        before = sys.gettrace()
        sys.settrace(count)
        try:
            rules.match(View("/things7/12/x"))
        finally:
            sys.settrace(before)
        return lines

    one = matcher({"/things7/{id}/x": "5/s"})
    many = matcher({f"/things{number}/{{id}}/x": "5/s" for number in range(10_000)})
    assert lines_of(many) <= 1.5 * lines_of(one)


# Hosts, methods, lists of routes


def at(matched: Matcher, host: str, path: str = "/x", method: str = "GET") -> list[str]:
    return [limit.policy.name for limit, _ in matched.match(View(path, method, host=host))]


def test_a_rule_may_be_for_some_hosts_only() -> None:
    hosts = ["API.Example.com.", "*.shop.example", "[2001:db8::1]"]
    rules = matcher({"/x": {"limit": "5/s", "hosts": hosts, "name": "hosted"}}, default="2/s")
    for host in ("api.example.com", "a.shop.example", "a.b.shop.example", "[2001:db8::1]"):
        assert at(rules, host) == ["hosted"]
    for host in ("example.com", "shop.example", "xshop.example", "evil.example", ""):
        assert at(rules, host) == ["default"]


def test_a_host_that_may_mean_two_counts_for_both() -> None:
    rules = matcher({"/x": {"limit": "5/s", "hosts": "a.example"}, "/**": "unlimited"}, default="2/s")
    assert at(rules, "a.example") == []
    rules = matcher({"/x": {"limit": "5/s", "hosts": "a.example", "name": "hosted"}}, default="2/s")
    assert at(rules, "a.example") == ["hosted"]  # and is remembered
    assert at(rules, Doubtful("a.example", "")) == ["hosted", "default"]
    assert at(rules, Doubtful("b.example", "a.example")) == ["hosted", "default"]
    free = matcher({"/x": {"limit": "unlimited", "hosts": "a.example"}}, default="2/s")
    assert at(free, Doubtful("a.example", "")) == ["default"]


def test_a_path_that_may_mean_two_counts_for_both() -> None:
    rules = matcher({"/items": "5/s", "/shopitems": "9/s", "/free": "unlimited"}, default="2/s")
    assert counted(rules, "/shopitems") == ["shopitems"]
    assert counted(rules, Doubtful("/shopitems", "/items")) == ["items", "shopitems"]
    assert counted(rules, Doubtful("/shopx", "/items")) == ["items", "default"]
    assert counted(rules, Doubtful("/free", "/items")) == ["items"]
    assert counted(rules, Doubtful("/free", "/shopfree")) == ["default"]


def test_dot_segments_do_not_lead_from_default_to_a_wider_rule() -> None:
    """A router that does not resolve them serves `/files/../static/x` by what `default` covers."""
    rules = matcher({"/static/**": "9/s", "/free/**": "unlimited", "/page": "5/s"}, default="2/s")
    assert counted(rules, "/files/../static/x") == ["static", "default"]
    assert counted(rules, "/static/../files") == ["static", "default"]
    assert counted(rules, "/static/./x") == ["static"]
    assert counted(rules, "//page/.") == ["page", "default"]
    assert counted(rules, "/files/../free/x") == ["default"]
    assert counted(rules, "//page/") == ["page"]
    assert counted(rules, "/static/...") == ["static"]


def test_unlimited_holds_only_for_what_all_frameworks_convert() -> None:
    rules = matcher({"/{x:int}": "unlimited", "/{name}": "5/s"})
    assert counted(rules, "/12") == []
    for path in ("/-1", "/1_0", "/\u0661"):
        assert counted(rules, path) == ["name"]


def test_a_single_host_needs_no_list() -> None:
    rules = matcher({"/x": {"limit": "5/s", "hosts": "a.example"}}, default="2/s")
    assert at(rules, "a.example") == ["x"]


def test_an_unlimited_route_of_one_host_is_limited_on_the_others() -> None:
    free = {"limit": "unlimited", "hosts": "static.example"}
    rules = matcher({"/x": free, "/**": "5/s"}, default="2/s")
    assert at(rules, "static.example") == []
    assert at(rules, "evil.example") == ["root"]


def test_random_hosts_do_not_grow_the_cache_without_end() -> None:
    rules = matcher({"/x": {"limit": "5/s", "hosts": "a.example"}}, default="2/s")
    for number in range(50_000):
        for _ in range(2):
            at(rules, f"{number}.{'x' * (number % 600)}.example")
    assert 2048 <= len(rules.plans) <= 4096
    assert cached_text(rules) <= 4096 * 512


def test_made_up_hosts_and_methods_do_not_grow_what_is_known_of_routes_without_end() -> None:
    rules = matcher({"/a": {"limit": "5/s", "hosts": "*.example.com"}}, default="9/s")
    for number in range(3000):
        rules.match(View("/a", f"M{number}", host=f"h{number}.example.com"))
    rules.match(View("/a", "M" * 1000, host="h.example.com"))
    assert len(rules._by_fitting) <= 1024
    assert not any(len(str(key)) > 1000 and "MMMM" in str(key) for key in rules._by_fitting.young)


def test_new_paths_of_the_same_routes_have_one_answer() -> None:
    rules = matcher({"/items/{id}": "5/s", "GET /items/{id}/parts": "2/s"}, default="9/s")
    assert rules.match(View("/items/1")) == rules.match(View("/items/2"))
    assert counted(rules, "/items/3/parts") == ["get-items-id-parts"]
    assert counted(rules, "/items/4/parts", "POST") == ["default"]
    assert len(rules._by_fitting) == 3


def test_hosts_are_not_looked_at_where_no_rule_names_one() -> None:
    rules = matcher({"/x": "5/s"})
    at(rules, "a.example")
    at(rules, "b.example")
    assert len(rules.plans) == 1


def test_methods_may_stand_in_a_list_of_their_own() -> None:
    rules = matcher({"/x": {"limit": "5/s", "methods": ["POST", "WS"], "name": "x"}}, default="2/s")
    assert counted(rules, "/x", "POST") == ["x"]
    assert counted(rules, "/x", "GET", "websocket") == ["x"]
    assert counted(rules, "/x", "GET") == ["default"]


def test_methods_in_the_route_and_in_a_list_mean_the_same() -> None:
    one = load_rules({"limits": {"GET,POST /x": "5/s"}}, env={})
    assert load_rules({"limits": {"/x": {"limit": "5/s", "methods": ["POST", "GET"]}}}, env={}) == one


def test_a_rule_may_be_for_several_routes_with_one_bucket() -> None:
    rules = matcher({"shop": {"limit": "5/s", "routes": ["GET /a", "/b/<int:id>", "/b/{id:int}"]}})
    assert counted(rules, "/a") == counted(rules, "/b/7") == ["shop"]
    assert counted(rules, "/a", "POST") == counted(rules, "/b/x") == []
    ((one, _),) = rules.match(View("/a"))
    ((other, _),) = rules.match(View("/b/7"))
    assert one is other


def test_a_route_may_have_others_beside_it() -> None:
    rules = matcher({"/a": {"limit": "5/s", "routes": "/b"}})
    assert counted(rules, "/a") == counted(rules, "/b") == ["a"]


def test_a_request_under_two_routes_of_a_rule_counts_once() -> None:
    rules = matcher({"shop": {"limit": "5/s", "routes": ["/a", "/{x}", "/**"]}})
    assert counted(rules, "/a") == ["shop"]


# Preflights


def preflight(method: str = "OPTIONS", **headers: str) -> View:
    asked = {"origin": "https://a.example", "access-control-request-method": "POST"}
    return View("/x", method, headers=headers or asked)


def names_of(matched: Matcher, view: View) -> list[str]:
    return [limit.policy.name for limit, _ in matched.match(view)]


def test_a_preflight_counts_under_always_only() -> None:
    rules = matcher({"/x": "5/s"}, default="2/s", always="9/s")
    assert names_of(rules, preflight()) == ["always-1"]


def test_what_only_looks_like_a_preflight_counts_as_any_request() -> None:
    rules = matcher({"/x": "5/s"}, always="9/s")
    for view in (
        preflight(origin="https://a.example"),
        preflight(**{"access-control-request-method": "POST"}),
        preflight("GET"),
        preflight(host="x"),
    ):
        assert names_of(rules, view) == ["always-1", "x"]


def test_preflights_count_as_any_request_if_the_file_says_so() -> None:
    assert names_of(matcher({"/x": "5/s"}, preflight="count"), preflight()) == ["x"]
    assert names_of(matcher({"/x": "5/s"}, preflight="skip"), preflight()) == []


def test_a_rule_may_count_preflights_where_the_file_skips_them() -> None:
    rules = matcher({"/x": {"limit": "5/s", "preflight": "count"}, "/**": "9/s"}, default="2/s")
    assert names_of(rules, preflight()) == ["x"]


def test_a_rule_may_skip_preflights_where_the_file_counts_them() -> None:
    skipping = {"limit": "5/s", "preflight": "skip"}
    rules = matcher({"/x": skipping, "/**": "9/s"}, default="2/s", preflight="count")
    assert names_of(rules, preflight()) == ["root"]
    assert names_of(matcher({"/x": skipping}, default="2/s", preflight="count"), preflight()) == ["default"]


def test_default_and_always_may_have_their_own_word_on_preflights() -> None:
    counting, skipping = ({"limit": "2/s", "preflight": word} for word in ("count", "skip"))
    assert names_of(matcher({"/x": "5/s"}, default=counting), preflight()) == ["default"]
    assert names_of(matcher({}, default=skipping, preflight="count"), preflight()) == []
    assert names_of(matcher({}, always=skipping), preflight()) == []
    assert names_of(matcher({}, always=[counting, "9/s"], preflight="skip"), preflight()) == [
        "always-1",
        "always-2",
    ]


def test_the_word_of_a_rule_is_for_preflights_only() -> None:
    rules = matcher({"/x": {"limit": "5/s", "preflight": "skip"}}, preflight="count")
    assert names_of(rules, preflight(host="x")) == ["x"]
    assert names_of(rules, preflight()) == []
    assert names_of(rules, preflight(host="x")) == ["x"]


def test_an_unlimited_route_is_so_for_preflights_that_other_rules_count() -> None:
    rules = matcher({"/x": "unlimited", "/**": {"limit": "9/s", "preflight": "count"}})
    assert names_of(rules, preflight()) == []


# Case


def test_a_rule_may_hold_in_any_case_where_the_others_do_not() -> None:
    rules = matcher({"/Items": {"limit": "5/s", "case_sensitive": False}, "/Other": "5/s"}, default="2/s")
    assert counted(rules, "/ITEMS/") == counted(rules, "/Items") == ["items"]
    assert counted(rules, "/OTHER") == ["default"]
    assert counted(rules, "/Other") == ["other"]


def test_a_rule_may_tell_case_apart_where_the_others_do_not() -> None:
    rules = matcher(
        {"/Items": {"limit": "5/s", "case_sensitive": True}, "/Other": "5/s"},
        default="2/s",
        case_sensitive=False,
    )
    assert counted(rules, "/items") == ["default"]
    assert counted(rules, "/OTHER") == ["other"]


def test_rules_of_both_kinds_count_together_in_the_order_of_the_file() -> None:
    loose = {"limit": "5/s", "case_sensitive": False}
    rules = matcher({"/a/{x}": loose, "/a/**": "9/s", "/A/1": {**loose, "name": "third"}})
    assert counted(rules, "/a/1") == ["a-x", "a", "third"]
    assert counted(rules, "/A/1") == ["a-x", "third"]


def test_unlimited_in_any_case_needs_the_spelling_of_the_file_or_lower_case() -> None:
    rules = matcher({"/Health": {"limit": "unlimited", "case_sensitive": False}}, default="2/s")
    assert counted(rules, "/Health") == counted(rules, "/health") == []
    assert counted(rules, "/HEALTH") == ["default"]


def test_the_key_part_path_follows_the_case_of_its_rule() -> None:
    rule = {"limit": "5/s per ip+path", "case_sensitive": False}
    ((limit, route),) = matcher({"/a": rule}).match(View("/A"))
    assert limit.build_key(View("/A"), route) == limit.build_key(View("/a"), route)


def test_by_default_case_tells_paths_apart() -> None:
    assert counted(matcher({"/Items": "5/s"}), "/items") == []


@pytest.mark.parametrize("template", ["/items/{id}", "/Items/{Id}", "/ITEMS/<id>"])
@pytest.mark.parametrize("path", ["/items/7", "/Items/7", "/ITEMS//7/"])
def test_unless_the_file_says_otherwise(template: str, path: str) -> None:
    assert len(counted(matcher({template: "5/s"}, case_sensitive=False), path)) == 1


def test_unlimited_holds_for_the_exact_spelling_only() -> None:
    """A router that tells case apart would serve another route under the other spelling."""
    rules = matcher({"/Health": "unlimited"}, default="2/s", case_sensitive=False)
    assert counted(rules, "/Health") == []
    assert counted(rules, "/health") == []
    assert counted(rules, "/HEALTH") == ["default"]


SEGMENTS = st.sampled_from(["a", "b", "1", "", ".", ".."])


@given(st.lists(SEGMENTS, min_size=1, max_size=7).map(lambda parts: "/" + "/".join(parts)))
def test_every_path_is_matched_by_what_its_plain_spelling_is_matched_by(path: str) -> None:
    from ratelimit_middleware.rules.route import fold

    rules = matcher({"/a": "1/s", "/a/{x}": "2/s", "/{y:int}/b": "3/s", "/b/**": "4/s", "/": "5/s"})
    assert set(counted(rules, fold(path))) <= set(counted(rules, path))


@pytest.mark.parametrize("name", ["x", "col·lecció", "नि", "℘"])
def test_a_parameter_of_any_name_that_python_allows_takes_a_segment(name: str) -> None:
    assert counted(matcher({f"/items/{{{name}}}": {"name": "items", "limit": "1/s"}}), "/items/7") == [
        "items"
    ]


@pytest.mark.timeout(5)
def test_commas_and_blanks_in_front_of_a_path_are_read_in_linear_time() -> None:
    with pytest.raises(RuleFileError):
        matcher({"a" + ",   " * 100 + "~\n~": "1/s"})
