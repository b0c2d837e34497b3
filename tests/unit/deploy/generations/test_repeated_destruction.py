"""A key store that leaves a tombstone and then is away is asked again: a file of it may still hold the key."""

from types import SimpleNamespace
from typing import Any

import pytest

from eunoe.deploy.generations.erase.data_keys import KeyChange
from eunoe.deploy.local.journal_sealing import begin_new_key, destroy_old_keys, journal_key_name
from eunoe.schemas.errors import Unavailable
from eunoe.schemas.keys import Destruction
from eunoe.workers.stores.data_keys.cached import CachedKeys
from tests.support.memory.key_store import MemoryKeyStore

KEY = "acme/c1"


class Interrupted(MemoryKeyStore):
    """Each key that it destroys stays in a file, at the first attempt."""

    def __init__(self) -> None:
        super().__init__()
        self.in_files: set[str] = set()
        self.attempted: set[str] = set()

    async def destroy(self, key_id: str, why: Destruction) -> None:
        await super().destroy(key_id, why)
        if key_id not in self.attempted:
            self.attempted.add(key_id)
            self.in_files.add(key_id)
            raise Unavailable("the file could not be written anew")
        self.in_files.discard(key_id)


async def forgotten(*_: object, **__: object) -> None:
    """As answers are."""


async def test_an_erasure_destroys_again_what_has_a_tombstone(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Interrupted()
    old = await store.current(KEY)
    new = await store.replace(KEY)

    async def found(_: KeyChange) -> set[str]:
        return {old.id}

    monkeypatch.setattr(KeyChange, "_old", found)
    clients: Any = SimpleNamespace(data_keys=CachedKeys(store), answers=SimpleNamespace(forget=forgotten))
    part: Any = SimpleNamespace(key=KEY)
    erasure: Any = SimpleNamespace(keys=(old.id,), is_whole=False)
    settings: Any = None
    log: Any = None
    change = KeyChange(settings, clients, [erasure], part, log)
    with pytest.raises(Unavailable):
        await change.finish()
    assert store.in_files == {old.id}
    (destroyed,) = await change.finish()
    assert (destroyed.id, destroyed.why, store.in_files) == (old.id, Destruction.REPLACED, set())
    assert await store.current(KEY) == new


async def test_a_journal_destroys_again_what_has_a_tombstone() -> None:
    store = Interrupted()
    old = await store.current(journal_key_name(KEY.encode(), None))
    await begin_new_key(KEY, store)
    with pytest.raises(Unavailable):
        await destroy_old_keys([KEY], store, Destruction.REPLACED)
    assert store.in_files == {old.id}
    await destroy_old_keys([KEY], store, Destruction.REPLACED)
    assert store.in_files == set()
    assert await store.current(journal_key_name(KEY.encode(), None)) != old
