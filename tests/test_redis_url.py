"""URLs of Redis stores: what makes no sense is refused when the rules are loaded, and no secret is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratelimit_middleware.errors import RuleFileError, StoreError
from ratelimit_middleware.redis_url import read_redis_url
from ratelimit_middleware.rules.load import load_rules

pytestmark = pytest.mark.arithmetic


@pytest.mark.parametrize(
    ("url", "place", "at"),
    [
        ("redis://", "redis://localhost:6379", "redis://localhost:6379?db=0"),
        ("redis://cache/3", "redis://cache:6379", "redis://cache:6379?db=3"),
        ("valkey://me:pw@cache:7000/", "redis://cache:7000", "redis://me:pw@cache:7000?db=0"),
        ("valkeys://[::1]:7000?db=2", "rediss://[::1]:7000", "rediss://[::1]:7000?db=2"),
        ("redis://:p%40w@[::1]", "redis://[::1]:6379", "redis://:p%40w@[::1]:6379?db=0"),
        (
            "rediss://cache?ssl_ca_certs=/a.pem&ssl_check_hostname=false&prefix=x&timeout=0.5",
            "rediss://cache:6379",
            "rediss://cache:6379?db=0&ssl_ca_certs=%2Fa.pem&ssl_check_hostname=false",
        ),
        ("unix:///run/r.sock?db=1", "unix:///run/r.sock", "unix:///run/r.sock?db=1"),
        ("unix://me:pw@/run/r.sock", "unix:///run/r.sock", "unix://me:pw@/run/r.sock?db=0"),
    ],
)
def test_a_url_names_a_server_and_its_place_is_told_without_secrets(url: str, place: str, at: str) -> None:
    read = read_redis_url(url)
    assert (read.place, read.at()) == (place, at)


def test_the_query_holds_what_is_for_this_package() -> None:
    assert read_redis_url("redis://h?prefix=shop:&timeout=0.5").options == {
        "prefix": "shop:",
        "timeout": "0.5",
    }


def test_a_cluster_and_sentinels_are_several_hosts() -> None:
    cluster = read_redis_url("rediss+cluster://me:pw@a,[::1]:7000/0?ssl_ca_certs=/a.pem")
    assert cluster.nodes == (("a", 6379), ("::1", 7000))
    assert cluster.only(("b", 1)).at() == "rediss://me:pw@b:1?db=0&ssl_ca_certs=%2Fa.pem"
    sentinels = read_redis_url("valkey+sentinel://me:pw@a,b:7000/limits%2F1/3?sentinel_password=x%3Ay")
    assert (sentinels.nodes, sentinels.service) == ((("a", 26379), ("b", 7000)), "limits/1")
    assert sentinels.only(("c", 6379)).at() == "redis://me:pw@c:6379?db=3"
    assert sentinels.only(("a", 26379)).at() == "redis://:x%3Ay@a:26379?db=0"
    assert sentinels.place == "redis://a:26379,b:7000/limits/1"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://h", "'http' is no scheme of a Redis URL: expected redis, rediss"),
        (
            "redis://h:7000/x?foo",
            "'foo' is not known in the URL of a Redis store: expected prefix, timeout, db",
        ),
        ("redis://h/x", "the database 'x' is no number: expected one such as redis://HOST/0"),
        ("redis://h/0/1", "the database '0/1' is no number"),
        ("redis://h?db=-1", "the database '-1' is no number"),
        ("redis://h/1?db=1", "the database stands in the URL twice"),
        ("redis://h?db=1&db=2", "says something twice"),
        ("redis://h?timeout=soon", "timeout=soon is not understood: expected a number of seconds above 0"),
        ("redis://h?timeout=inf", "timeout=inf is not understood"),
        ("redis://h?timeout=0", "timeout=0 is not understood"),
        ("redis://h?prefix=", "'prefix' in the URL of a Redis store has no value"),
        ("redis://h?ssl_ca_certs=/a.pem", "'ssl_ca_certs' is for TLS: write rediss:// or leave it out"),
        ("rediss://h?ssl_cert_reqs=maybe", "ssl_cert_reqs=maybe is not understood: expected none, optional"),
        ("rediss://h?ssl_check_hostname=2", "ssl_check_hostname=2 is not understood"),
        ("redis://a:1,b:2", "redis:// leads to one server: name one host, not 2"),
        ("redis+cluster://a,b/1", "a cluster has the database 0 alone"),
        ("redis+cluster://a,,b", "expected redis+cluster://HOST:PORT"),
        ("redis+cluster://a,b,a:6379", "redis+cluster:// names a host twice"),
        ("redis+cluster://a/x", "the database 'x' is no number"),
        ("redis+sentinel://a,b", "expected redis+sentinel://HOST:PORT/SERVICE"),
        ("redis+sentinel://a,b//1", "expected redis+sentinel://HOST:PORT/SERVICE"),
        ("redis+sentinel://a/limits/x", "the database 'x' is no number"),
        ("redis+sentinel://a/limits/1?db=1", "the database stands in the URL twice"),
        ("redis://a?sentinel_password=secret", "'sentinel_password' is not known"),
        ("redis://h:", "expected redis://HOST:PORT with a port from 1 to 65535"),
        ("redis://h:0", "with a port from 1 to 65535"),
        ("redis://h:65536", "with a port from 1 to 65535"),
        ("redis://h:secret", "with a port from 1 to 65535"),
        ("redis://:6379", "expected redis://HOST:PORT: no host stands before the `:`; here is `localhost`"),
        ("redis+cluster://a,:6379", "expected redis+cluster://HOST:PORT: no host stands before"),
        ("redis://::1", "with a port from 1 to 65535"),
        ("redis://[::1", "with a port from 1 to 65535"),
        ("redis://h /0", "a Redis URL has no spaces and no `#`"),
        ("redis://:sec#ret@h", "in a password `#` is written %23"),
        ("redis://:sec/ret@h", "in a password `/` is %2F"),
        ("redis://:sec?ret@h", "in a password `/` is %2F"),
        ("redis://:secret\u2100@h", "the login in the URL of a Redis store is not understood"),
        ("redis://:sec[ret@h", "the login in the URL of a Redis store is not understood"),
        ("unix://run/r.sock", "three slashes: unix:///run/redis.sock"),
        ("unix://", "three slashes"),
        ("unix:///run/r.sock?ssl_keyfile=x", "'ssl_keyfile' is for TLS"),
    ],
)
def test_what_makes_no_sense_is_refused_when_the_rules_are_loaded(url: str, said: str) -> None:
    with pytest.raises(StoreError) as caught:
        read_redis_url(url)
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)
    with pytest.raises(RuleFileError) as refused:
        load_rules({"store": url, "default": "5/minute"}, env={})
    assert said in str(refused.value) or url.startswith("http:")


def said_of(url: str) -> str:
    """The server, or why there is none."""
    try:
        return read_redis_url(url).place
    except StoreError as error:
        return str(error)


@given(
    st.sampled_from(["redis", "unix", "valkeys", "redis+cluster", "rediss+sentinel"]), st.text(max_size=30)
)
def test_any_text_is_read_or_refused_on_one_line(scheme: str, text: str) -> None:
    assert "\n" not in said_of(f"{scheme}://{text}")


@given(st.text("abc/?#@:,[]%&=", min_size=1, max_size=12))
def test_a_password_that_is_not_escaped_is_never_told(noise: str) -> None:
    assert "SECRET" not in said_of(f"redis://:{noise}SECRET{noise}@host")
