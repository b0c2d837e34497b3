"""Choice of the servers for a command, and their settings for child processes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr, ValidationError

from eunoe.deploy.clients.redis_url import RedisKind, parse_redis_url
from eunoe.deploy.local.notice import StackUrls, find_stack
from eunoe.deploy.settings import Settings, read_settings, reveal
from eunoe.deploy.settings.deciding import deciding_variables
from eunoe.deploy.settings.sections import KeySettings
from eunoe.schemas.errors import Refused
from eunoe.schemas.versions import describe

DATA = Path(".eunoe")
"""Default data directory of `eunoe up`."""


def connected_settings(data: Path = DATA) -> Settings:
    """The settings of the environment; without a broker, or with an empty one, pointed at the servers of `eunoe up`.

    Its notice is looked for in ``data``. Raises `Refused` for invalid settings, and where some name servers of your own
    but no broker while `eunoe up` runs: which servers are meant is not clear.
    """
    settings = read_settings()
    if settings.kafka:
        return settings
    found = find_stack(data)
    if found is None:
        return settings
    if named := ", ".join(servers_named(settings)):
        raise Refused(
            f"{named} set, but not EUNOE_KAFKA, and `eunoe up` runs in {data}: set EUNOE_KAFKA for servers of your own,"
            " or unset the others for those of `eunoe up`"
        )
    return on_stack(as_set_for_stack(settings, found.settings), found)


def as_set_for_stack(settings: Settings, decided: Mapping[str, Any]) -> Settings:
    """The settings of the environment, and for what it leaves unset those that a stack was started with.

    A command that derives memory again must decide as the workers did. ``decided``: `StackUrls.settings`. Raises
    `Refused` for values that this version does not take.
    """
    if not decided:
        return settings
    try:
        return Settings.model_validate(_merged(decided, settings.model_dump(exclude_unset=True)))
    except ValidationError as error:
        raise Refused(f"settings of the running `eunoe up`: {describe(error)}; start it again") from None


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """``above`` over ``below``, field by field also within sections."""
    both = {
        name for name in below.keys() & above.keys() if isinstance(below[name], dict) and isinstance(above[name], dict)
    }
    return {**below, **above, **{name: _merged(below[name], above[name]) for name in both}}


def servers_named(settings: Settings) -> tuple[str, ...]:
    """The variables that name servers of the user's own in these settings; an empty one names none."""
    values = {
        "EUNOE_KAFKA": settings.kafka,
        "EUNOE_REDIS_URL": settings.redis_url,
        "EUNOE_QDRANT_URL": settings.qdrant_url,
        "EUNOE_QDRANT_API_KEY": settings.qdrant_api_key,
        "EUNOE_ERASURES": settings.erasures,
    }
    return tuple(name for name, value in values.items() if value)


def unused_operator_key(settings: Settings) -> str | None:
    """The note that `eunoe up` uses another key than the operator's of these settings; `None` where it uses that.

    Whoever sets one expects it to lie apart from what it opens, and that of `eunoe up` lies beside it.
    """
    given = {"EUNOE_KEYS__KEK": settings.keys.kek, "EUNOE_KEYS__KEK_FILE": settings.keys.kek_file}
    names = ", ".join(name for name, value in given.items() if value)
    if not names or settings.keys.store is not None:
        return None
    return (
        f"{names} set without EUNOE_KEYS__STORE: it is not used. `eunoe up` has a key store of its own, with its key in"
        " the same directory; set EUNOE_KEYS__STORE too to have another one, or unset it"
    )


def kept_stack(settings: Settings, data: Path = DATA) -> Path | None:
    """``data``, where its `eunoe up` runs the servers of these settings; `None` for any other servers."""
    found = find_stack(data)
    return data if found is not None and found.kafka == settings.kafka else None


def check_not_of_stack(settings: Settings, generation: str, data: Path = DATA) -> None:
    """Raise `Refused` where the workers of a running `eunoe up` are those of this generation."""
    found = find_stack(data)
    if found is not None and (found.kafka, found.generation) == (settings.kafka, generation):
        raise Refused(
            f"the workers of `eunoe up` in {data} are those of {generation}: stop it and start it again first, then"
            " they are those of the live generation"
        )


def left_behind(settings: Settings, generation: str, data: Path = DATA) -> str | None:
    """The advice where a running `eunoe up` has workers, and they are not those of ``generation``; else `None`."""
    found = find_stack(data)
    if found is None or found.kafka != settings.kafka or found.generation in (None, generation):
        return None
    return (
        f"`eunoe up` in {data} runs workers of {found.generation}, not of {generation}: stop it and start it again"
        f" after a promotion, else asks stay unanswered where no `EUNOE_GENERATION={generation} eunoe worker all` runs"
    )


EMBEDDED_BROKER: Final[Mapping[str, object]] = {
    "idempotent": False,
    "embedded": True,
    "fetch_wait_ms": 1,
    "session_timeout_ms": 6_000,
    "heartbeat_interval_ms": 2_000,
}
"""Options of the Kafka clients that suit the embedded broker."""


def on_stack(settings: Settings, urls: StackUrls) -> Settings:
    """The settings pointed at an embedded stack: its addresses, its epoch, the options for its broker, its key store.

    A key store or cold store that is set stays; an empty ``EUNOE_KEYS__STORE`` or ``EUNOE_COLD__STORE`` means none.
    """
    broker = settings.broker.model_copy(update=EMBEDDED_BROKER)
    keys = settings.keys
    if keys.store is None and urls.keys is not None:
        kek_file = None if urls.kek_file is None else Path(urls.kek_file)
        keys = keys.model_copy(update={"store": SecretStr(urls.keys), "kek": None, "kek_file": kek_file})
    cold = settings.cold
    if cold.store is None and urls.cold is not None:
        cold = cold.model_copy(update={"store": urls.cold})
    return settings.model_copy(
        update={
            "cold": cold,
            "kafka": urls.kafka,
            "redis_url": SecretStr(urls.redis_url),
            "qdrant_url": urls.qdrant_url,
            "qdrant_api_key": None if urls.qdrant_api_key is None else SecretStr(urls.qdrant_api_key),
            "epoch": urls.epoch,
            "erasures": None if urls.erasures is None else SecretStr(urls.erasures),
            "broker": broker,
            "keys": keys,
        }
    )


def announced_stores(settings: Settings, own: StackUrls) -> dict[str, str | None]:
    """The fields of the notice about the stores that are in use, where they are others than those of the directory.

    A cold store is named, for commands read snapshots; a key store is not, for its key is not in the directory.
    """
    cold = settings.cold.store or None
    if cold is not None and "://" not in cold:
        cold = str(Path(cold).absolute())
    keys = {} if reveal(settings.keys.store) == own.keys else {"keys": None, "kek_file": None}
    return {"cold": cold, **keys}


def wakeups_url(settings: Settings) -> str | None:
    """The Redis URL over which the embedded broker's new records are reported; `None` for any other broker."""
    url = reveal(settings.redis_url)
    if not settings.broker.embedded or url is None:
        return None
    return url if parse_redis_url(url).kind is RedisKind.ONE else None


def environment(settings: Settings) -> dict[str, str]:
    """Environment variables that give a child process the same servers, generation, log and deciding settings."""
    broker = settings.broker
    generation = {} if settings.generation is None else {"EUNOE_GENERATION": settings.generation}
    log = {} if settings.log is None else {"EUNOE_LOG": str(settings.log)}
    api_key = reveal(settings.qdrant_api_key)
    key = {} if api_key is None else {"EUNOE_QDRANT_API_KEY": api_key}
    ledger = reveal(settings.erasures)
    erasures = {} if ledger is None else {"EUNOE_ERASURES": ledger}
    return {
        **deciding_variables(settings),
        **generation,
        **log,
        **erasures,
        **_keys(settings.keys),
        **({} if settings.cold.store is None else {"EUNOE_COLD__STORE": settings.cold.store}),
        "EUNOE_KAFKA": settings.kafka or "",
        "EUNOE_REDIS_URL": reveal(settings.redis_url) or "",
        "EUNOE_QDRANT_URL": settings.qdrant_url or "",
        **key,
        "EUNOE_EPOCH": str(settings.epoch),
        "EUNOE_BROKER__IDEMPOTENT": str(broker.idempotent).lower(),
        "EUNOE_BROKER__EMBEDDED": str(broker.embedded).lower(),
        "EUNOE_BROKER__FETCH_WAIT_MS": str(broker.fetch_wait_ms),
        "EUNOE_BROKER__SESSION_TIMEOUT_MS": str(broker.session_timeout_ms),
        "EUNOE_BROKER__HEARTBEAT_INTERVAL_MS": str(broker.heartbeat_interval_ms),
    }


def _keys(keys: KeySettings) -> dict[str, str]:
    store, kek = reveal(keys.store), reveal(keys.kek)
    return {
        **({} if store is None else {"EUNOE_KEYS__STORE": store}),
        "EUNOE_KEYS__KEK": kek or "",  # an own one of the parent's environment would go before the file
        **({} if keys.kek_file is None else {"EUNOE_KEYS__KEK_FILE": str(keys.kek_file)}),
    }
