"""What a process holds of a file of SQLite, while another connection to it is opened in the same process."""

import sqlite3
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest

from eunoe.schemas.errors import Unavailable
from eunoe.workers.stores.data_keys import sqlite_keys as data_keys_sqlite
from eunoe.workers.stores.data_keys.sqlite_keys import SqliteKeyStore
from eunoe.workers.stores.data_keys.wrapping import OperatorKeys
from eunoe.workers.stores.erasures.sqlite_ledger import SqliteErasures

WRITE = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"


async def open_keys(path: Path) -> None:
    store = await SqliteKeyStore.open(path, OperatorKeys({1: bytes(32)}))
    await store.close()


async def read_erasures(path: Path) -> None:
    if not path.exists():
        await SqliteErasures(path).secret()
    assert await SqliteErasures(path).erasures() == []


def another_process_may_write(path: Path) -> bool:
    done = subprocess.run([sys.executable, "-c", WRITE, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0 or "database is locked" in done.stderr, done.stderr
    return done.returncode == 0


@pytest.mark.parametrize("opened", [open_keys, read_erasures])
async def test_a_connection_that_opens_leaves_the_locks_of_the_others(
    tmp_path: Path, opened: Callable[[Path], Awaitable[None]]
) -> None:
    path = tmp_path / "own" / "file.sqlite"
    await opened(path)
    assert another_process_may_write(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        await opened(path)
        assert not another_process_may_write(path)


@pytest.mark.parametrize("opened", [open_keys, read_erasures])
async def test_a_file_that_others_could_read_is_closed_to_them(
    tmp_path: Path, opened: Callable[[Path], Awaitable[None]]
) -> None:
    path = tmp_path / "file.sqlite"
    await opened(path)
    path.chmod(0o644)
    await opened(path)
    assert path.stat().st_mode & 0o777 == 0o600


async def test_the_ledger_is_on_disk_when_a_change_is_said_to_be_made_and_overwrites_what_goes(tmp_path: Path) -> None:
    with SqliteErasures(tmp_path / "ledger.sqlite")._opened() as file:
        found = [file.execute(f"PRAGMA {name}").fetchone() for name in ("synchronous", "secure_delete", "journal_mode")]
    assert found == [(3,), (1,), ("delete",)], "3: also that the journal is gone"


async def test_a_ledger_that_cannot_be_looked_for_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"the ledger of erasures .*File name too long"):
        await SqliteErasures(tmp_path / ("x" * 300)).erasures()


async def test_others_may_write_while_all_keys_are_wrapped_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, moments = tmp_path / "keys.sqlite", list[bool]()
    old = await SqliteKeyStore.open(path, OperatorKeys({1: bytes(32)}))
    made = [await old.current(f"t/{number}") for number in range(5)]
    await old.close()
    store = await SqliteKeyStore.open(path, OperatorKeys({1: bytes(32), 2: b"2" * 32}))
    monkeypatch.setattr(data_keys_sqlite, "_AT_ONCE", 2)
    monkeypatch.setattr(time, "sleep", lambda _: moments.append(another_process_may_write(path)))
    assert (await store.rewrap(), moments) == (5, [True] * 3)
    await store.close()
    new = await SqliteKeyStore.open(path, OperatorKeys({2: b"2" * 32}))
    assert [await new.current(f"t/{number}") for number in range(5)] == made
    await new.close()
