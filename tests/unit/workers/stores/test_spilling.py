"""A store whose documents lie in a temporary file is a `MemoryStore`; no text lies there in plain."""

import gc
import sqlite3
import weakref
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.schemas.decisions import Clear, Commit, Drop, Ledger, Put, Scope, Write
from eunoe.schemas.errors import Unavailable
from eunoe.workers.derive.pipeline import TABLES
from eunoe.workers.stores.state.memory_store import MemoryStore
from eunoe.workers.stores.state.spill_tables import SpillFile
from eunoe.workers.stores.state.spilling import SpillingStore

KEY = "default/c"
SCOPE = Scope("update", KEY)
TABLE, OTHER = TABLES["update"][:2]
FEW_BYTES = 400
"""Two documents or so."""

texts = st.sampled_from(["", "a", "Größe", "\ud800", "a" * 300])
ids = st.sampled_from(["1", "2", "é", "a\0b", "id"])
tables = st.sampled_from([TABLE, OTHER])
writes = st.one_of(
    st.builds(Put, table=tables, id=ids, text=texts),
    st.builds(Drop, table=tables, id=ids),
    st.builds(Clear, table=tables),
)
commits = st.lists(st.lists(writes, max_size=6), max_size=8)


async def write(store: MemoryStore, number: int, *of_commit: Write) -> None:
    commit = Commit(expect=number - 1, applied=number, writes=of_commit)
    assert await store.commit(SCOPE, commit)


async def seen(store: MemoryStore) -> list[Any]:
    known = ["1", "2", "é", "a\0b", "id", "never"]
    return [
        [await store.fetch("update", KEY, table, known), await store.scan("update", KEY, table)]
        for table in (TABLE, OTHER)
    ]


@given(commits)
async def test_a_store_that_spills_holds_what_the_other_one_holds(some: list[list[Write]]) -> None:
    plain, spilling = MemoryStore(), SpillingStore(FEW_BYTES)
    for number, of_commit in enumerate(some, 1):
        await write(plain, number, *of_commit)
        await write(spilling, number, *of_commit)
        assert await seen(spilling) == await seen(plain)
    exported = await spilling.export(KEY, TABLES)
    assert exported.tables == (await plain.export(KEY, TABLES)).tables
    for place, rows in exported.tables.items():
        assert (len(rows), sorted(rows), sorted(rows.values())) == (
            len(dict(rows.items())),
            sorted(dict(rows.items())),
            sorted(dict(rows.items()).values()),
        ), place
    copy = SpillingStore(FEW_BYTES)
    assert await copy.swap(KEY, TABLES, exported, Ledger())
    assert await seen(copy) == await seen(plain)


async def full(texts: int = 60) -> SpillingStore:
    store = SpillingStore(20_000)
    for number in range(1, texts + 1):
        await write(store, number, Put(table=TABLE, id=f"id-{number}", text=f"secret {number} " * 100))
    return store


async def test_few_documents_stay_in_memory_and_many_are_bounded_there() -> None:
    assert not (await full(5)).has_spilled
    store = await full(200)
    assert store.has_spilled
    assert sum(len(text) for table in store._tables.values() for text in table._rows.values()) < 25_000
    assert len(await store.scan("update", KEY, TABLE)) == 200


async def test_a_file_has_neither_text_nor_id_in_plain() -> None:
    store = await full()
    assert store._spill.file is not None
    dump = b"".join(store._spill.file._rows.serialize().split(b"\0"))
    assert len(dump) > 20_000
    assert b"secret" not in dump
    assert b"id-1" not in dump


async def test_a_file_that_cannot_be_written_is_waited_for_and_changes_nothing() -> None:
    store = await full()
    assert store._spill.file is not None
    before = await seen(store), await store.scan("update", KEY, TABLE)
    rows = store._spill.file._rows
    rows.execute("PRAGMA query_only = ON")
    await write(store, 61, Put(table=TABLE, id="other", text="long" * 10_000))
    with pytest.raises(Unavailable, match=r"temporary file of documents cannot be written: .*; make room"):
        await write(store, 62, Put(table=TABLE, id="another", text="late"))
    failed = await store.applied(SCOPE)
    rows.execute("PRAGMA query_only = OFF")
    await write(store, failed + 1, Drop(table=TABLE, id="other"))
    assert (await seen(store), await store.scan("update", KEY, TABLE)) == before


async def test_a_store_and_its_file_go_without_the_garbage_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        store = await full()
        assert store._spill.file is not None
        connection, gone = store._spill.file._rows, weakref.ref(store)
        del store
        assert gone() is None
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1")
    finally:
        gc.enable()


def test_documents_of_two_tables_or_ids_are_not_mixed() -> None:
    file = SpillFile()
    file.write(0, {"a": "1"})
    assert (file.read(0, ["a", "b"]), file.read(1, ["a"])) == ({"a": "1"}, {})


async def test_blocks_leave_the_memory_with_the_documents_and_keep_their_order() -> None:
    store = SpillingStore(FEW_BYTES)
    some, others = store.blocks(), store.blocks()
    blocks = [bytes([number]) * 1_000 + bytes(range(256)) for number in range(30)]
    for number, block in enumerate(blocks, 1):
        some.append(block)
        others.append(block[::-1])
        await write(store, number, Put(table=TABLE, id="1", text=str(number)))
    await write(store, len(blocks) + 1, Put(table=TABLE, id="1", text="last"))
    assert list(some) == blocks
    assert list(others) == [block[::-1] for block in blocks]
    assert await store.fetch("update", KEY, TABLE, ["1"]) == ["last"]
    assert await store.conversations() == [KEY]
    assert store._spill.held < 4 * len(blocks[0])
