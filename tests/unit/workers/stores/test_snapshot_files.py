"""A snapshot that alone cannot be read: tried again for a while, then its conversation is held."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from eunoe.schemas.errors import FileUnreadable, SnapshotLost, Unavailable
from eunoe.workers.stores.cold import snapshot_files
from eunoe.workers.stores.cold.snapshot_files import APART_S, MAX_UNREADABLE, UNREADABLE_S, SnapshotFiles
from tests.support.memory.cold_store import MemoryColdStore


@dataclass(slots=True)
class Failing(MemoryColdStore):
    """A cold store in which some files give a fault."""

    unreadable: set[str] = field(default_factory=set)

    async def get(self, name: str, most: int) -> bytes | None:
        if name in self.unreadable:
            raise FileUnreadable(f"{name}: Input/output error")
        return await MemoryColdStore.get(self, name, most)


@dataclass
class Mark:
    """The mark of a cold store."""

    store: Failing
    away: bool = False

    async def check(self) -> None:
        if self.away:
            raise Unavailable("the cold store is away")


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    clock = [100.0]
    monkeypatch.setattr(snapshot_files, "monotonic", lambda: clock[0])
    return clock


async def test_it_is_lost_where_it_stays_so(now: list[float]):
    mark: Any = Mark(Failing({"a": b"one", "b": b"two"}, {"a"}))
    files = SnapshotFiles()
    with pytest.raises(FileUnreadable):
        await files.read(mark, "a", 3)
    assert await files.read(mark, "b", 3) == b"two"
    now[0] += UNREADABLE_S
    with pytest.raises(SnapshotLost, match="cannot be read: a: Input/output error"):
        await files.read(mark, "a", 3)


async def test_one_that_can_be_read_again_begins_anew(now: list[float]):
    mark: Any = Mark(Failing({"a": b"one"}, {"a"}))
    files = SnapshotFiles()
    for _ in range(2):
        mark.store.unreadable.add("a")
        with pytest.raises(FileUnreadable):
            await files.read(mark, "a", 3)
        now[0] += UNREADABLE_S
        mark.store.unreadable.clear()
        assert await files.read(mark, "a", 3) == b"one"


async def test_a_store_that_is_away_is_waited_for(now: list[float]):
    mark: Any = Mark(Failing({}, {"a"}), away=True)
    files = SnapshotFiles()
    for _ in range(2):
        with pytest.raises(Unavailable, match="the cold store is away"):
            await files.read(mark, "a", 3)
        now[0] += UNREADABLE_S


async def test_a_store_that_is_away_in_between_begins_anew(now: list[float]):
    mark: Any = Mark(Failing({}, {"a"}))
    files = SnapshotFiles()
    for away in (False, True, False):
        mark.away = away
        with pytest.raises(Unavailable) as met:
            await files.read(mark, "a", 3)
        assert not isinstance(met.value, SnapshotLost)
        now[0] += UNREADABLE_S


async def test_faults_that_lie_apart_are_not_one(now: list[float]):
    mark: Any = Mark(Failing({}, {"a"}))
    files = SnapshotFiles()
    for _ in range(2):
        with pytest.raises(FileUnreadable):
            await files.read(mark, "a", 3)
        now[0] += APART_S


async def test_one_byte_more_is_read_than_was_written():
    mark: Any = Mark(Failing({"a": b"one and more"}))
    assert await SnapshotFiles().read(mark, "a", 3) == b"one "


async def test_what_is_remembered_is_bounded():
    mark: Any = Mark(Failing({}, {str(number) for number in range(MAX_UNREADABLE + 1)}))
    files = SnapshotFiles()
    for name in mark.store.unreadable:
        with pytest.raises(FileUnreadable):
            await files.read(mark, name, 3)
    assert len(files._faults) <= MAX_UNREADABLE
