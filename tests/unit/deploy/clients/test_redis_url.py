"""Addresses of Redis: what they mean, and what is said about wrong ones."""

import pytest

from eunoe.deploy.clients.redis_url import RedisKind, parse_redis_url
from eunoe.schemas.errors import Refused


@pytest.mark.parametrize(
    ("text", "kind", "nodes", "database", "master", "tls"),
    [
        ("redis://one:7000/2", RedisKind.ONE, (("one", 7000),), 2, "", False),
        ("redis://one", RedisKind.ONE, (("one", 6379),), 0, "", False),
        ("rediss://[::1]:7000/", RedisKind.ONE, (("::1", 7000),), 0, "", True),
        ("redis+cluster://a:1,b:2,c/", RedisKind.CLUSTER, (("a", 1), ("b", 2), ("c", 6379)), 0, "", False),
        ("rediss+cluster://a:1", RedisKind.CLUSTER, (("a", 1),), 0, "", True),
        ("redis+sentinel://a,b:5/my%20m/3", RedisKind.SENTINEL, (("a", 26379), ("b", 5)), 3, "my m", False),
        ("rediss+sentinel://[fe80::1]:5/m", RedisKind.SENTINEL, (("fe80::1", 5),), 0, "m", True),
    ],
)
def test_addresses_are_taken_apart(text, kind, nodes, database, master, tls):
    url = parse_redis_url(text)
    assert (url.kind, url.nodes, url.database, url.master, url.tls) == (kind, nodes, database, master, tls)


def test_a_socket_has_a_path():
    url = parse_redis_url("unix:///run/redis.sock?password=x")
    assert (url.kind, url.path, dict(url.options)) == (RedisKind.SOCKET, "/run/redis.sock", {"password": "x"})


def test_user_password_and_tls_are_kept_and_never_shown():
    url = parse_redis_url(
        "rediss+sentinel://eu:p%40ss@a:1,b:2/m?ssl_ca_certs=/ca.pem&sentinel_password=hush&ssl_check_hostname=false"
    )
    tls = {"ssl_ca_certs": "/ca.pem", "ssl_check_hostname": False}
    assert dict(url.options) == {"username": "eu", "password": "p@ss", **tls}
    assert dict(url.sentinel_options) == {"password": "hush", **tls}
    assert "p@ss" not in repr(url)
    assert "hush" not in repr(url)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("http://a:1", "unknown scheme 'http'"),
        ("localhost:6379", "unknown scheme 'localhost'"),
        ("", "unknown scheme ''"),
        ("redis://a:1,b:2/0", "several hosts need redis\\+cluster"),
        ("redis://:seCret/x@host:1", "number of a database; .* percent-encode"),
        ("redis://a:seCret", "port must be a number between 1 and 65535"),
        ("redis+cluster://a:1,:2/", "a host or its port is missing"),
        ("redis+cluster://a:1,,b/", "a host or its port is missing"),
        ("redis+cluster://a:1/3", "database 0 only"),
        ("redis://a/x", "number of a database"),
        ("redis+sentinel://a:1/", "name of the master"),
        ("redis+sentinel://a:1/m/x", "number of a database"),
        ("redis://[::1", "invalid address"),
        ("redis://a?seCret=1&passwort=seCret", "option"),
        ("redis://a?sentinel_password=seCret", "unknown option 'sentinel_password'"),
        ("unix://", "a socket needs a path"),
    ],
)
def test_a_wrong_address_is_refused_and_no_secret_is_quoted(text, why):
    with pytest.raises(Refused, match=why) as caught:
        parse_redis_url(text)
    assert str(caught.value).startswith("EUNOE_REDIS_URL: ")
    assert "seCret" not in str(caught.value).replace("option 'seCret'", "")
