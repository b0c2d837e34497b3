"""The check of the cold store: whether what is written to it can be read, and deleted."""

import secrets
from pathlib import Path

from eunoe.deploy.clients.shared import open_cold_store, open_redis, store_keys
from eunoe.deploy.doctor.findings import Findings
from eunoe.deploy.inspect.counted import counted
from eunoe.deploy.settings import Settings
from eunoe.schemas.ports import ColdStore
from eunoe.workers.stores.cold.mark import ColdMark
from eunoe.workers.stores.redis.connection import RedisConnection

_SIZE = 64


async def check_cold(settings: Settings, findings: Findings) -> None:
    """Write, read and delete a small file in the store that conversations went to.

    Raises `Refused` for an unusable address, `Unavailable` also where this is another store than they went to.
    """
    store = open_cold_store(settings)
    if store is None or settings.cold.store is None:
        findings.note("no cold store is set: idle conversations stay in Redis (EUNOE_COLD__STORE)")
        return
    if settings.redis_url is not None:
        await _check_mark(settings, store)
    if _is_mount(settings.cold.store):
        findings.note(
            f"{settings.cold.store} is the place where a drive is mounted: name a folder in it, which is missing while"
            " the drive is; an empty place passes for an empty store where Redis was lost too"
        )
    name, data = f"doctor/{secrets.token_hex(8)}", secrets.token_bytes(_SIZE)
    await store.put(name, data)
    found = await store.get(name, len(data) + 1)
    listed = await store.names("doctor")
    await store.remove([name])
    if found != data or name not in listed or await store.get(name, 1) is not None:
        findings.fault("what is written to the cold store is not read, listed or deleted as it should be")
        return
    days = counted(settings.cold.after_days, "day")
    findings.ok(f"the cold store takes and gives files; conversations go there after {days} without an utterance")


async def _check_mark(settings: Settings, store: ColdStore) -> None:
    """Raise `Unavailable` where conversations went to another store; nothing is written, unlike by a first freezing."""
    keys = store_keys(settings)
    async with open_redis(settings) as redis:
        connection = RedisConnection(redis)
        if await connection.command("EXISTS", keys.cold_mark()):
            await ColdMark(connection, keys, store).check()


def _is_mount(address: str) -> bool:
    """Whether a folder is itself the place where a drive is mounted."""
    return "://" not in address and Path(address).is_mount()
