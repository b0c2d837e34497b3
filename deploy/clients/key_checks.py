"""Checks the key store against the ledger of erasures: one from a backup has keys that were destroyed since."""

from collections.abc import Iterable
from dataclasses import dataclass

import orjson

from eunoe.deploy.clients.data_keys import open_data_keys, open_key_store
from eunoe.deploy.clients.erasures import open_erasures
from eunoe.deploy.settings import Settings
from eunoe.schemas.erasure import ErasureDone
from eunoe.schemas.errors import Refused, Unavailable
from eunoe.schemas.keys import Destroyed, Destruction, KeyStore, KeyStoreStatus

LOOKED_AT = 50
"""The latest destroyed keys that are looked for: a store that went back lacks the latest tombstones."""


async def check_key_store_has_destroyed(settings: Settings) -> None:
    """Raise `Refused` where the key store has a key that a finished erasure has destroyed. Raises `Unavailable`.

    Nothing is checked without a key store or a ledger of erasures.
    """
    async with open_data_keys(settings) as keys:
        if keys is None or settings.erasures is None:
            return
        alive = await keys_not_destroyed(keys, list(await destroyed_by_erasures(settings))[-LOOKED_AT:])
    if alive:
        raise Refused(
            f"the key store has keys that erasures have destroyed ({len(alive)}): it was restored from a backup;"
            " run `eunoe keys replay` before any worker"
        )


async def destroyed_by_erasures(settings: Settings) -> dict[str, Destruction]:
    """Key id → reason, of all keys that finished erasures have destroyed, in their order.

    Raises `Refused` where no ledger is set, `Unavailable`.
    """
    async with open_erasures(settings) as ledger:
        return dict(key for done in await ledger.done() for key in _keys_in(done))


def _keys_in(done: ErasureDone) -> Iterable[tuple[str, Destruction]]:
    for key in orjson.loads(done.receipt).get("keys", ()):
        yield key["id"], Destruction(key["why"])


async def keys_not_destroyed(keys: KeyStore, ids: Iterable[str]) -> list[str]:
    """Those that are not destroyed; a key that the store never had is one."""
    found = []
    for id_ in ids:
        try:
            alive = not isinstance(await keys.get(id_), Destroyed)
        except Unavailable:
            await keys.status()  # raises where the store is away
            alive = True
        if alive:
            found.append(id_)
    return found


@dataclass(frozen=True, slots=True)
class KeyStoreReport:
    """The state of a key store."""

    status: KeyStoreStatus
    alive: int | None
    """Keys that finished erasures have destroyed, and the store has; `None` without a ledger of erasures."""


async def report_key_store(settings: Settings) -> KeyStoreReport:
    """The state of the key store. Raises `Refused` where none is set, another operator's key, `Unavailable`."""
    async with open_key_store(settings) as store:
        status = await store.status()
        if settings.erasures is None:
            return KeyStoreReport(status, None)
        return KeyStoreReport(status, len(await keys_not_destroyed(store, await destroyed_by_erasures(settings))))


async def destroy_again(settings: Settings) -> int:
    """Destroy the keys that finished erasures have destroyed and the store has again; returns their number.

    Raises `Refused` where no key store or no ledger is set, `Unavailable`.
    """
    async with open_key_store(settings) as store:
        wanted = await destroyed_by_erasures(settings)
        alive = await keys_not_destroyed(store, wanted)
        for id_ in (*alive, *list(wanted)[-1:]):  # one more: an interrupted run may have left keys in a file
            await store.destroy(id_, wanted[id_])
    return len(alive)
