"""A snapshot is packed and unpacked without a copy of the whole state beside it."""

import random
import tracemalloc
from collections.abc import Callable

import orjson
import pytest
import zstandard

from eunoe.workers.stores.cold.snapshot import Snapshot

ROWS = 20_000


def snapshot(rows: int) -> Snapshot:
    chance = random.Random(rows)
    table = {f"{row:036d}".encode(): chance.randbytes(200) for row in range(rows)}
    return Snapshot("default/c", {"update": {b"applied": b"7"}, "update/memories": {**table, b"empty": b""}}, 3, "{}")


def raw_bytes(of: Snapshot) -> int:
    return sum(len(part) for rows in of.hashes.values() for row in rows.items() for part in row)


def most_held(work: Callable[[], object]) -> int:
    """The most that is allocated beside what was there before."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("rows", [0, 1, 500, ROWS])
def test_a_snapshot_comes_back_as_it_was(rows: int) -> None:
    assert Snapshot.unpack(snapshot(rows).pack()) == snapshot(rows)


def test_a_snapshot_that_was_packed_at_once_is_read() -> None:
    made = snapshot(50)
    head = {
        "format": 1,
        "key": made.key,
        "partition": 3,
        "timer": "{}",
        "hashes": [["update", 1], ["update/memories", 51]],
    }
    pieces = [orjson.dumps(head), *(part for rows in made.hashes.values() for row in rows.items() for part in row)]
    sized = b"".join(len(piece).to_bytes(4, "big") + piece for piece in pieces)
    assert Snapshot.unpack(zstandard.ZstdCompressor(level=3).compress(sized)) == made


@pytest.mark.parametrize("bytes_", [b"", b"none", snapshot(500).pack()[:-200], snapshot(500).pack()[:10]])
def test_bytes_that_are_no_snapshot_are_refused(bytes_: bytes) -> None:
    with pytest.raises(ValueError, match="no snapshot"):
        Snapshot.unpack(bytes_)


def test_packing_holds_less_than_the_state_twice() -> None:
    made = snapshot(ROWS)
    packed = made.pack()
    assert most_held(made.pack) < 2 * len(packed) + raw_bytes(made) / 5


def test_unpacking_holds_little_beside_the_snapshot_itself() -> None:
    packed = snapshot(ROWS).pack()
    kept: list[Snapshot] = []
    most = most_held(lambda: kept.append(Snapshot.unpack(packed)))
    (made,) = kept
    assert most < 1.6 * raw_bytes(made)
