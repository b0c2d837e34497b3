"""Opens the store of data keys that the settings name."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from eunoe.deploy.clients.redis import open_redis_url
from eunoe.deploy.clients.redis_url import SETTING, parse_redis_url
from eunoe.deploy.settings import Settings, reveal
from eunoe.schemas.errors import Misconfigured, Refused, Unavailable
from eunoe.workers.stores.data_keys.cached import CachedKeys
from eunoe.workers.stores.data_keys.redis_keys import RedisKeyStore
from eunoe.workers.stores.data_keys.sqlite_keys import SqliteKeyStore
from eunoe.workers.stores.data_keys.wrapping import OperatorKeys

STORE = "EUNOE_KEYS__STORE"


@asynccontextmanager
async def open_data_keys(settings: Settings) -> AsyncIterator[CachedKeys | None]:
    """The keys that stored text is sealed with, closed at the end; `None` where no store is set: it stays plain.

    Raises `Refused` for unusable settings, another operator's key and a store that could lose keys, `Unavailable`.
    """
    if not reveal(settings.keys.store):
        yield None
        return
    async with open_key_store(settings) as store:
        yield CachedKeys(store)


@asynccontextmanager
async def open_key_store(settings: Settings) -> AsyncIterator[SqliteKeyStore | RedisKeyStore]:
    """The key store itself, without a cache, closed at the end.

    Raises as `open_data_keys` does, and `Refused` where none is set.
    """
    place = reveal(settings.keys.store)
    if not place:
        raise Refused(f"no key store: set {STORE}, or start `eunoe up`, which has one in its data directory")
    keks = operator_keys(settings)
    async with AsyncExitStack() as closing:
        if "://" in place:
            yield await _on_redis(settings, place, keks, closing)
        else:
            store = await SqliteKeyStore.open(Path(place), keks)
            closing.push_async_callback(store.close)
            yield store


def operator_keys(settings: Settings) -> OperatorKeys:
    """The operator's keys, from the setting or the file; raises `Refused` where there is none, or a malformed one."""
    text, file = reveal(settings.keys.kek), settings.keys.kek_file
    if text:
        return OperatorKeys.parse(text, "EUNOE_KEYS__KEK")
    if file is None:
        raise Refused(f"{STORE} is set without EUNOE_KEYS__KEK or EUNOE_KEYS__KEK_FILE: make a key with `openssl rand"
                      " -base64 32` and keep it apart from the store")  # fmt: skip
    try:
        return OperatorKeys.parse(file.read_text("ascii"), f"EUNOE_KEYS__KEK_FILE {file}")
    except (OSError, UnicodeDecodeError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else "is not text"
        raise Refused(f"EUNOE_KEYS__KEK_FILE {file}: {reason}") from None


async def _on_redis(settings: Settings, place: str, keks: OperatorKeys, closing: AsyncExitStack) -> RedisKeyStore:
    state = reveal(settings.redis_url)
    try:
        if state is not None and set(parse_redis_url(place).nodes) & set(parse_redis_url(state).nodes):
            raise Refused(f"{STORE} is the Redis of the derived state, which may be thrown away: use one of its own")
        client = await closing.enter_async_context(open_redis_url(place))
        return await RedisKeyStore.open(client, settings.prefix, keks)
    except Misconfigured as fault:
        raise Misconfigured(str(fault).replace(SETTING, STORE), fault.server) from fault
    except Unavailable:
        raise
    except Refused as fault:
        raise Refused(str(fault).replace(SETTING, STORE)) from fault
