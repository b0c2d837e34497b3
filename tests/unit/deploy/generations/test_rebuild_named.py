"""A rebuild of conversations that the log does not hold is refused, before anything is made."""

from collections.abc import AsyncIterator

import pytest

from eunoe.deploy.generations.rebuild.named import without_seen
from eunoe.streams.record import Record


async def log(*keys: bytes | None) -> AsyncIterator[Record]:
    """A log with a record of each key."""
    for offset, key in enumerate(keys):
        yield Record("conversations", 0, offset, key, b"", 0)


@pytest.mark.parametrize(
    ("named", "there", "lacking"),
    [
        ({"default/ann"}, [b"default/ann"], set()),
        ({"default/ann"}, [], {"default/ann"}),
        ({"default/ann"}, [None, b"default/anna", b"other/ann", b"\xff"], {"default/ann"}),
        ({"default/ann", "default/bo"}, [b"default/bo", b"default/bo"], {"default/ann"}),
    ],
)
async def test_names_of_which_the_log_has_no_record_are_told(
    named: set[str], there: list[bytes | None], lacking: set[str]
) -> None:
    assert await without_seen(named, log(*there)) == lacking


async def test_the_log_is_read_no_further_than_it_must() -> None:
    records = log(b"default/bo", b"default/ann", b"default/cy")
    assert await without_seen({"default/ann"}, records) == set()
    assert [record.key async for record in records] == [b"default/cy"]
