"""Addresses of Redis in the settings: one server, a cluster, or a master behind sentinels.

    redis://[user:password@]host[:port][/database]
    redis+cluster://[user:password@]host[:port],host[:port][/]
    redis+sentinel://[user:password@]host[:port],host[:port]/master[/database]

``rediss`` instead of ``redis`` means TLS, ``unix://`` a socket. The query may have ``username`` and ``password``,
``ssl_ca_certs``, ``ssl_certfile``, ``ssl_keyfile`` and ``ssl_check_hostname=false``; and ``sentinel_username`` and
``sentinel_password`` for sentinels with a login of their own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from eunoe.schemas.errors import Refused

SETTING = "EUNOE_REDIS_URL"
PORT = 6379
SENTINEL_PORT = 26379
Option = str | bool

_FORMS = (
    "redis://host:6379/0, rediss:// (TLS), unix:///path, redis+cluster://host:6379,host:6379/ or"
    " redis+sentinel://host:26379,host:26379/master/0"
)
_TEXTS = frozenset({"username", "password", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs"})
_SENTINEL_TEXTS = frozenset({"sentinel_username", "sentinel_password"})


class RedisKind(StrEnum):
    """The kind of server at an address."""

    ONE = "one"
    CLUSTER = "cluster"
    SENTINEL = "sentinel"
    SOCKET = "socket"


Node = tuple[str, int]
"""Host and port."""


@dataclass(frozen=True, slots=True)
class RedisUrl:
    """A parsed address; its ``repr`` has no secrets."""

    kind: RedisKind
    nodes: tuple[Node, ...]
    """The server, the first nodes of a cluster, or the sentinels; empty for a socket."""
    database: int = 0
    master: str = ""
    """Name of the master at its sentinels."""
    path: str = ""
    """Path of the socket."""
    tls: bool = False
    options: Mapping[str, Option] = field(default_factory=dict, repr=False)
    """Login and TLS, by the names of redis-py."""
    sentinel_options: Mapping[str, Option] = field(default_factory=dict, repr=False)
    """The same for the sentinels themselves."""


def parse_redis_url(text: str) -> RedisUrl:
    """Parse an address; raises `Refused` for an invalid one, without quoting parts that may be a password."""
    parts = _split(text)
    kinds = {
        "redis": RedisKind.ONE,
        "redis+cluster": RedisKind.CLUSTER,
        "redis+sentinel": RedisKind.SENTINEL,
        "unix": RedisKind.SOCKET,
    }
    tls = parts.scheme.startswith("rediss")
    kind = kinds.get("redis" + parts.scheme.removeprefix("rediss") if tls else parts.scheme)
    if kind is None:
        raise _refused(f"unknown scheme {parts.scheme!r:.40}")
    master, database = _path(kind, parts.path)
    query = _query(parts.query, kind)
    return RedisUrl(
        kind=kind,
        nodes=() if kind is RedisKind.SOCKET else _nodes(kind, parts.netloc),
        database=database,
        master=master,
        path=unquote(parts.path) if kind is RedisKind.SOCKET else "",
        tls=tls,
        options=MappingProxyType({**_login(parts.netloc), **_without(query, _SENTINEL_TEXTS)}),
        sentinel_options=MappingProxyType(_sentinel_options(query)),
    )


def _split(text: str) -> SplitResult:
    try:
        return urlsplit(text.strip())
    except ValueError:
        raise _refused("invalid address") from None


def _refused(why: str) -> Refused:
    return Refused(f"{SETTING}: {why}; use {_FORMS} (in user and password, percent-encode : / @ ? and #)")


def _login(netloc: str) -> dict[str, Option]:
    login, _, _ = netloc.rpartition("@")
    user, _, password = login.partition(":")
    return {name: unquote(value) for name, value in (("username", user), ("password", password)) if value}


def _nodes(kind: RedisKind, netloc: str) -> tuple[Node, ...]:
    hosts = netloc.rpartition("@")[2].split(",")
    if kind is RedisKind.ONE and len(hosts) > 1:
        raise _refused("several hosts need redis+cluster:// or redis+sentinel://")
    return tuple(_node(host, SENTINEL_PORT if kind is RedisKind.SENTINEL else PORT) for host in hosts)


def _node(text: str, port: int) -> Node:
    try:
        parts = urlsplit(f"//{text}")
        host, named = parts.hostname, parts.port
    except ValueError:
        raise _refused("each port must be a number between 1 and 65535") from None
    if not host or named == 0:
        raise _refused("a host or its port is missing")
    return host, port if named is None else named


def _path(kind: RedisKind, path: str) -> tuple[str, int]:
    """(the master's name, the database)."""
    words = [unquote(word) for word in path.strip("/").split("/") if word]
    if kind is RedisKind.SOCKET:
        if not words:
            raise _refused("a socket needs a path")
        return "", 0
    if kind is not RedisKind.SENTINEL:
        return "", _database(kind, words)
    if not words:
        raise _refused("sentinels need the name of the master")
    return words[0], _database(kind, words[1:])


def _database(kind: RedisKind, words: list[str]) -> int:
    if len(words) > 1 or not all(word.isdecimal() and word.isascii() for word in words):
        raise _refused("the hosts may be followed only by the number of a database")
    number = int(words[0]) if words else 0
    if kind is RedisKind.CLUSTER and number:
        raise _refused("a cluster has database 0 only")
    return number


def _query(text: str, kind: RedisKind) -> dict[str, Option]:
    known = _TEXTS | (_SENTINEL_TEXTS if kind is RedisKind.SENTINEL else frozenset())
    options: dict[str, Option] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        if name == "ssl_check_hostname":
            options[name] = value.lower() not in ("false", "no", "0")
        elif name in known:
            options[name] = value
        else:
            raise _refused(f"unknown option {name!r:.40}")
    return options


def _sentinel_options(query: Mapping[str, Option]) -> dict[str, Option]:
    own = {name.removeprefix("sentinel_"): value for name, value in query.items() if name in _SENTINEL_TEXTS}
    return {**own, **{name: value for name, value in query.items() if name.startswith("ssl_")}}


def _without(options: Mapping[str, Option], names: frozenset[str]) -> dict[str, Option]:
    return {name: value for name, value in options.items() if name not in names}
