"""What an attacker tries: six requests each, of which the limit of three an hour lets three through."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tests.attacks.wire import Request

HANDSHAKE = (
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)
ITEM = Request("/items/1")
KINDS = {
    "direct": "/items/1",
    "included": "/api/v1/things/1",
    "mounted": "/mounted/inner/1",
    "late": "/late/1",
    "class": "/class/1",
    "rest": "/files/a/b",
}


@dataclass(frozen=True)
class Case:
    """An attack.

    Attributes:
        group: what it plays with.
        name: what it does.
        requests: six, in order.
        missing: pages that do not exist are what it is after, so a 404 is a success too.
    """

    group: str
    name: str
    requests: tuple[Request, ...]
    missing: bool = False


def in_turn(group: str, name: str, plain: Request, other: Request) -> Case:
    """The plain request and another spelling of it in turn."""
    return Case(group, name, (plain, other) * 3)


def each(group: str, name: str, make: Callable[[int], Request], *, missing: bool = False) -> Case:
    """Six requests that differ."""
    return Case(group, name, tuple(make(number) for number in range(6)), missing)


def varying(request: Request) -> Callable[[int], Request]:
    """The request with its number in the place of `#`."""

    def make(number: int) -> Request:
        digit = str(number)
        return replace(
            request,
            target=request.target.replace("#", digit),
            headers=tuple(line.replace("#", digit) for line in request.headers),
            forged=request.forged.replace("#", digit),
            client=request.client.replace("#", digit),
            host=request.host and request.host.replace("#", digit),
        )

    return make


SPELLINGS = {
    "as it is": "/items/1",
    "trailing slash": "/items/1/",
    "two trailing slashes": "/items/1//",
    "doubled slash at the start": "//items/1",
    "doubled slash inside": "/items//1",
    "many slashes": "////items////1",
    "dot segment": "/./items/1",
    "dot segment inside": "/items/./1",
    "dot segment at the end": "/items/1/.",
    "parent segment": "/items/x/../1",
    "parent of the root": "/../items/1",
    "through another route": "/page/../items/1",
    "through what is unlimited": "/health/../items/1",
    "into what is unlimited": "/items/1/../../health/../items/1",
    "encoded dots": "/%2e/items/1",
    "encoded parent": "/health/%2e%2e/items/1",
    "encoded parent with slash": "/health%2f..%2fitems/1",
    "encoded slash": "/items%2f1",
    "encoded slash in capitals": "/items%2F1",
    "encoded letter": "/%69tems/1",
    "encoded letters in capitals": "/%69%74%65%6D%73/1",
    "encoded digit": "/items/%31",
    "encoded twice": "/%2569tems/1",
    "encoded percent sign": "/items/%251",
    "upper case": "/ITEMS/1",
    "capital": "/Items/1",
    "semicolon parameter": "/items;x=1/1",
    "semicolon parameter at the end": "/items/1;jsessionid=x",
    "matrix parameter": "/items/1;a=b;c=d",
    "query": "/items/1?x=1",
    "empty query": "/items/1?",
    "query with a path": "/items/1?/health",
    "query with a scheme": "/items/1?http://test/health",
    "fragment": "/items/1#/health",
    "encoded question mark": "/items/1%3fx",
    "encoded hash": "/items/1%23",
    "encoded space": "/items/1%20",
    "encoded space in front": "/items/%201",
    "plus": "/items/+1",
    "encoded newline": "/items/1%0a",
    "encoded newline before the path": "/%0aitems/1",
    "encoded carriage return": "/items/1%0d",
    "encoded tab": "/items/1%09",
    "encoded NUL": "/items/1%00",
    "encoded NUL before the path": "/%00items/1",
    "encoded delete": "/items/1%7f",
    "backslash": "/items\\1",
    "backslash as parent": "/health\\..\\items/1",
    "encoded backslash": "/items%5c1",
    "overlong slash": "/items%c0%af1",
    "bytes that are no UTF-8": "/items/%ff",
    "half of a character": "/items/%c3",
    "a surrogate": "/items/%ed%a0%80",
    "composed letter": "/items/%c3%a9",
    "decomposed letter": "/items/e%cc%81",
    "full-width letters": "/%ef%bd%89tems/1",
    "dotless letter": "/%c4%b1tems/1",
    "long s": "/item%c5%bf/1",
    "Kelvin sign": "/items/%e2%84%aa",
    "zero width space": "/items/1%e2%80%8b",
    "byte order mark": "/%ef%bb%bfitems/1",
    "division slash": "/items%e2%88%951",
    "wide digits": "/items/%d9%a1",
    "raw byte": "/items/\xff",
    "raw UTF-8": "/items/\xc3\xa9",
    "bad encoding": "/items/%zz",
    "half an encoding": "/items/%2",
    "unicode escape": "/%u0069tems/1",
    "absolute form": "http://test/items/1",
    "absolute form with another host": "http://other/items/1",
    "absolute form with a port": "http://test:80/items/1",
    "absolute form with a user": "http://user@test/items/1",
    "absolute form in capitals": "HTTP://test/items/1",
    "without a slash": "items/1",
    "brackets": "/items/{id}",
    "encoded brackets": "/items/%7bid%7d",
    "angles": "/items/<id>",
    "star": "/items/*",
    "two stars": "/items/**",
    "tilde": "/items/~1",
    "a long value": "/items/" + "1" * 2000,
    "a long way round": "/items/" + "x/../" * 200 + "1",
    "a host in the path": "//test/items/1",
    "extension": "/items/1.json",
    "trailing dot": "/items/1.",
    "dots": "/items/...",
}


def spellings() -> Iterator[Case]:
    """One route, spelled in many ways."""
    for name, target in SPELLINGS.items():
        yield in_turn("path", name, ITEM, Request(target))


def numbers() -> Iterator[Case]:
    """A number, as some frameworks read it and others do not."""
    for number in (
        "-1",
        "+1",
        "1_0",
        "%201",
        "1%20",
        "%09" + "1",
        "%d9%a1",
        "%ef%bc%91",
        "01",
        "-0",
        "1.0",
        "1e0",
    ):
        yield in_turn("number", number, Request("/numbers/1"), Request(f"/numbers/{number}"))


def wide() -> Iterator[Case]:
    """From what `default` limits to a rule that lets more through."""
    for target in (
        "/nowhere/#/../../wide/x", "/nowhere/../wide/#", "/wide/../nowhere/#", "/nowhere/./../wide/#",
        "/nowhere/%2e%2e/wide/#", "/nowhere%2f..%2f..%2fwide/#", "//nowhere/../wide/#", "/nowhere/#;/wide",
        "/nowhere/#?/wide/x", "/nowhere/#%3f/wide/x", "/nowhere/#\\..\\wide",
    ):  # fmt: skip
        yield each("wide", target, varying(Request(target)), missing=True)


def kinds() -> Iterator[Case]:
    """Every kind of route, plainly and in a few spellings."""
    for kind, path in KINDS.items():
        yield each("route", kind, varying(Request(f"{path}#")))
        yield in_turn("route", f"{kind}, doubled slash", Request(path), Request(f"/{path}"))
        yield in_turn("route", f"{kind}, trailing slash", Request(path), Request(f"{path}/"))
        yield in_turn("route", f"{kind}, encoded", Request(path), Request(f"/%{ord(path[1]):x}{path[2:]}"))
        yield in_turn("route", f"{kind}, parent", Request(path), Request(f"/x/..{path}"))
        yield in_turn("route", f"{kind}, HEAD", Request(path), Request(path, "HEAD"))
    yield each("route", "by route", varying(Request("/by-route/#")))
    yield in_turn("route", "by route, slash", Request("/by-route/1"), Request("//by-route/1"))
    for name, other in {"slash": "//by-path/1", "encoded": "/by-path/%31", "dots": "/by-path/./1"}.items():
        yield in_turn("route", f"by path, {name}", Request("/by-path/1"), Request(other))
    for target in ("/nowhere/#", "/items/#/more", "/.env#", "/%00#", "/nowhere/#%0a"):
        yield each("missing", f"no such page {target}", varying(Request(target)), missing=True)


def methods() -> Iterator[Case]:
    """The method, and what may change it."""
    for method in (
        "HEAD",
        "POST",
        "PUT",
        "PATCH",
        "DELETE",
        "get",
        "Get",
        "QUERY",
        "FOO",
        "OPTIONS",
        "PROPFIND",
    ):
        yield in_turn("method", f"{method} in turn with GET", ITEM, Request("/items/1", method))
    yield in_turn("method", "HEAD counts as GET", Request("/page"), Request("/page", "HEAD"))
    for letter in "AMX":
        odd = [Request("/by-method/1", method=f"{letter}{number}A") for number in range(6)]
        yield Case("method", f"made up: {letter}…", tuple(odd))
    for name in ("X-HTTP-Method-Override", "X-Method-Override", "X-HTTP-Method"):
        yield in_turn("method", name, ITEM, Request("/items/1", headers=(f"{name}: OPTIONS",)))
    preflight = ("Origin: http://x.example", "Access-Control-Request-Method: GET")
    yield in_turn("method", "GET dressed as a preflight", ITEM, Request("/items/1", headers=preflight))
    yield in_turn("method", "POST dressed as one", ITEM, Request("/items/1", "POST", headers=preflight))
    yield in_turn("method", "HTTP/1.0", ITEM, Request("/items/1", version="HTTP/1.0"))
    yield in_turn("method", "HTTP/1.0 without host", ITEM, Request("/items/1", version="HTTP/1.0", host=None))


def headers() -> Iterator[Case]:
    """Headers that some believe."""
    for name in (
        "X-Real-IP", "X-Client-IP", "X-Cluster-Client-IP", "CF-Connecting-IP", "True-Client-IP",
        "Fastly-Client-IP", "Client-IP", "X-Originating-IP", "X-Remote-IP", "X-Remote-Addr", "X-Host",
        "X-ProxyUser-Ip", "Remote-Addr", "Remote_Addr", "X_Forwarded_For", "X-Forwarded", "Forwarded-For",
    ):  # fmt: skip
        yield each("header", name, varying(Request("/items/1", headers=(f"{name}: 203.0.113.#",))))
    for line in (
        "Forwarded: for=203.0.113.#", "Via: 1.1 proxy-#", "X-Forwarded-Host: host-#",
        "X-Original-URL: /health", "X-Rewrite-URL: /health", "X-Forwarded-Prefix: /p#", "X-Script-Name: /s#",
        "X-Forwarded-Path: /health",
        "Script-Name: /s#", "X-Forwarded-Proto: https", "Authorization: Basic dXNlcjo#", "Cookie: session=#",
        "User-Agent: agent-#", "Referer: http://test/#", "Accept-Language: #", "Remote-User: user#",
        "X-Remote-User: user#", "ratelimit_middleware.told: #", "RateLimit: #", "X-RateLimit-Remaining: 9#",
        "Upgrade: websocket", "Connection: keep-alive, X-Forwarded-For", "Max-Forwards: #", "X-Empty:",
        "Range: bytes=0-#", "Expect: 100-continue", "If-None-Match: *", "X-Long: " + "x" * 4000,
    ):  # fmt: skip
        yield each("header", line[:40], varying(Request("/items/1", headers=(line,))))
    for name in ("header:X-API-Key", "user"):
        path = "/search" if name.startswith("header") else "/user"
        lines = ("X-API-Key: key-#", "Remote-User: user#", "Authorization: Basic dXNlcjo#")
        yield each("header", f"another {name} each time", varying(Request(path, headers=lines)))
    yield in_turn("header", "no key", Request("/search", headers=("X-API-Key: a",)), Request("/search"))


def addresses() -> Iterator[Case]:
    """What is in front of the address that the proxy writes, and how it is written."""
    for forged in (
        "203.0.113.#", "203.0.113.#, 203.0.113.1#", "unknown", "_hidden#", "127.0.0.1", "127.0.0.#", "::1",
        "garbage#", ",", ", , ,", "203.0.113.#:80", "[2001:db8::#]", '"203.0.113.#"', "2001:db8:#::1",
        "\xff#", "203.0.113.#\x01", "203.0.113.#\t",
        "0x7f.1", "2130706433", "localhost", "::ffff:203.0.113.#", "%00#",
        "for=203.0.113.#", ", ".join(["203.0.113.7"] * 500), "x" * 2000,
    ):  # fmt: skip
        yield each("address", f"forged {forged[:30]!r}", varying(replace(ITEM, forged=forged)))
    for client in (
        "{v4}:#", "{v4}:1#", '"{v4}"', " {v4} ", "::ffff:{v4}", "[::ffff:{v4}]", "[::ffff:{v4}]:8#",
        ",{v4}",
    ):  # fmt: skip
        yield in_turn("address", f"written {client}", ITEM, varying(replace(ITEM, client=client))(1))
    for client in ("{v6}::#", "{v6}:#:#:#:#", "[{v6}::#]", "[{v6}::#]:443", "{v6}::#%eth#", "{v6}:ffff::#"):
        yield each("address", f"one network {client}", varying(replace(ITEM, client=client)))
    for prefix in ("64:ff9b::", "::ffff:0:", "2002:"):
        yield each("address", f"forged {prefix}", varying(replace(ITEM, forged=f"{prefix}203.0.113.#")))


def hosts() -> Iterator[Case]:
    """The host."""
    for host in (
        "host-#.example.com", "test.", "TEST", "test:#", "test:80", "[::#]", "[::1]:80", "127.0.0.#", "",
        "a b",
        "test/#", "user#@test", "xn--#", "t\xc3\xa9st", "test,other", "test:", "..", "#" * 5, "x" * 300,
    ):  # fmt: skip
        yield each("host", f"host {host[:20]!r}", varying(replace(ITEM, host=host)))
    yield in_turn("host", "none", ITEM, replace(ITEM, host=None))
    yield in_turn("host", "two", ITEM, replace(ITEM, headers=("Host: other",)))


def own_hosts() -> Iterator[Case]:
    """A rule that is for some hosts only."""
    for name, own in {"name": "api.test", "below": "x.sub.test", "address": "[::1]"}.items():
        page = Request("/hosted", host=own)
        for odd in (
            "{}:80", "{}:8080", "{}:", "{}:80a", "{}:+80", "{}:-1", "{}:80:80", "{}:99999", "{}: 80",
            "{} :80", "{}.", "{}.:80", "{}, other", "{},other", "{}/", "{}/x", "{}#", "{}?", "{}\\",
            "{}\t", "user@{}", "other@{}:80", "other:80@{}",
        ):  # fmt: skip
            yield in_turn("own host", f"{name} {odd!r}", page, replace(page, host=odd.format(own)))
        yield in_turn("own host", f"{name} in capitals", page, replace(page, host=own.upper()))
        for more in ("Host: other", "X-Forwarded-Host: other", "Forwarded: host=other", "X-Host: other"):
            yield in_turn("own host", f"{name}, {more}", page, replace(page, headers=(more,)))
        for target in ("http://other/hosted", f"http://{own}/hosted", "//other/hosted"):
            yield in_turn("own host", f"{name}, {target}", page, replace(page, target=target))
        yield in_turn("own host", f"{name}, HTTP/1.0", page, replace(page, version="HTTP/1.0"))
    page = Request("/hosted", host="other")
    for line in ("X-Forwarded-Host: api.test", "Host: api.test", "Forwarded: host=api.test"):
        yield each("own host", f"another, {line}", varying(replace(page, headers=(line,))))


def handshakes() -> Iterator[Case]:
    """WebSocket handshakes."""
    room = Request("/live/1", headers=HANDSHAKE)
    yield each("handshake", "another room each time", varying(replace(room, target="/live/#")))
    for name, target in {
        "trailing slash": "/live/1/",
        "doubled slash": "//live/1",
        "encoded": "/%6cive/1",
        "newline": "/live/1%0a",
        "query": "/live/1?x",
        "parent": "/health/../live/1",
        "capital": "/Live/1",
    }.items():
        yield in_turn("handshake", name, room, replace(room, target=target))
    for line in (
        "Origin: http://#.example",
        "Sec-WebSocket-Protocol: p#",
        "Access-Control-Request-Method: GET",
    ):
        yield each("handshake", line, varying(replace(room, headers=(*HANDSHAKE, line))))
    yield in_turn("handshake", "to a page", ITEM, replace(ITEM, headers=HANDSHAKE))
    yield each("handshake", "forged address", varying(replace(room, forged="203.0.113.#")))


CASES = (
    *spellings(),
    *kinds(),
    *methods(),
    *headers(),
    *addresses(),
    *hosts(),
    *own_hosts(),
    *numbers(),
    *wide(),
    *handshakes(),
)
GROUPS = tuple(dict.fromkeys(case.group for case in CASES))
