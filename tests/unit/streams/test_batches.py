"""Batches as brokers return them: every codec, and batches that no consumer can read."""

import struct
import zlib
from typing import Any

import cramjam
import pytest
from aiokafka.consumer.fetcher import READ_COMMITTED, PartitionRecords
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c
from aiokafka.structs import TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from eunoe.streams.batches import MAX_UNPACKED_BYTES, ReadableRecords, install_reader
from eunoe.streams.record import UNREADABLE_HEADER
from tests.support.contracts import calm

PLACE = TopicPartition("conversations", 0)
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
CRC_AT, AFTER_CRC, ATTRIBUTES_AT, RECORDS_AT = 17, 21, 22, 61

install_reader()


def batch(first: int, values: list[bytes], codec: int = 0, headers: tuple[tuple[str, bytes], ...] = ()) -> bytearray:
    """The bytes of a batch whose records begin at the offset ``first``."""
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=codec, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=-1,
        batch_size=1 << 26,
    )  # fmt: skip
    for number, value in enumerate(values):
        assert builder.append(number, timestamp=1, key=b"k", value=value, headers=list(headers)) is not None
    made = bytearray(builder.build())
    struct.pack_into(">q", made, 0, first)
    return made


def signed(made: bytearray) -> bytearray:
    """The batch with the checksum that fits."""
    struct.pack_into(">I", made, CRC_AT, calc_crc32c(memoryview(made)[AFTER_CRC:]))
    return made


def read(*made: bytes, begin: int = 0) -> tuple[list[Any], int]:
    """The records that a fetch of these batches from ``begin`` gives, and where the next fetch begins."""
    records = ReadableRecords(b"".join(bytes(one) for one in made))
    fetched = PartitionRecords(PLACE, records, [], begin, None, None, True, READ_COMMITTED)
    return list(fetched), fetched.next_fetch_offset


def places(found: list) -> list[int]:
    return [record.offset for record in found]


def reason(record) -> str:
    return dict(record.headers)[UNREADABLE_HEADER].decode()


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_every_codec_is_read(codec: int):
    found, end = read(batch(0, [b"a", b"b" * 100_000], codec), batch(2, [b"c"], codec))
    assert [record.value for record in found] == [b"a", b"b" * 100_000, b"c"]
    assert end == 3


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_a_damaged_block_is_one_unreadable_record_and_the_next_batch_is_read(codec: int):
    broken = batch(3, [b"x" * 500, b"y" * 500], codec)
    broken[61:90] = b"\xff" * 29
    found, end = read(batch(0, [b"a"] * 3), signed(broken), batch(5, [b"z"]))
    assert (places(found), end) == ([0, 1, 2, 3, 5], 6)
    assert found[3].value == bytes(broken)
    assert reason(found[3]).startswith("offsets 3 to 4: ")


def test_a_checksum_that_does_not_fit():
    broken = batch(0, [b"a", b"b"])
    broken[-3] ^= 1
    found, end = read(broken, batch(2, [b"c"]))
    assert (places(found), end) == ([0, 2], 3)
    assert "checksum" in reason(found[0])


@pytest.mark.parametrize("place", [1, 126, 127, 255])
@pytest.mark.parametrize("header", [(), (("tr\udcffce", b"1"),)], ids=["plain", "header that is no UTF-8"])
def test_a_record_that_says_another_place_than_its_own(place: int, header: tuple[tuple[str, bytes], ...]):
    """A later place would hide the records of others, an earlier one the record itself."""
    broken = batch(1, [b"a"], 0, header and (("trXce", b"1"),))
    broken = bytearray(broken.replace(b"trXce", b"tr\xffce"))
    broken[RECORDS_AT + 3] = place
    found, end = read(batch(0, [b"first"]), signed(broken), batch(2, [b"last"]))
    assert (places(found), end) == ([0, 1, 2], 3)
    assert reason(found[1]).startswith("offsets 1 to 1: ")


def test_a_batch_that_says_that_it_holds_nothing():
    broken = batch(0, [b"a"])
    struct.pack_into(">i", broken, RECORDS_AT - 4, 0)
    found, end = read(signed(broken), batch(1, [b"c"]))
    assert (places(found), end) == ([0, 1], 2)


def test_a_codec_that_does_not_exist():
    broken = batch(0, [b"a"])
    broken[ATTRIBUTES_AT] = 7
    found, end = read(signed(broken), batch(1, [b"c"]))
    assert (places(found), end) == ([0, 1], 2)
    assert "UnsupportedCodecError" in reason(found[0])


@pytest.mark.parametrize("codec", [0, 1, 4])
def test_header_names_that_are_no_utf_8_are_kept_with_escapes(codec: int):
    plain = batch(0, [b"a", b"b"], 0, (("trXce", b"1"),))
    odd = signed(bytearray(plain.replace(b"trXce", b"tr\xffce")))
    if codec:
        packed = {1: lambda data: zlib.compress(data, wbits=31), 4: lambda data: bytes(cramjam.zstd.compress(data))}
        odd = odd[:61] + packed[codec](bytes(odd[61:]))
        odd[ATTRIBUTES_AT] = codec
        struct.pack_into(">i", odd, 8, len(odd) - 12)
        odd = signed(odd)
    found, end = read(odd, batch(2, [b"c"]))
    assert [record.value for record in found] == [b"a", b"b", b"c"]
    assert [name for name, _ in found[0].headers] == ["tr\\xffce"]
    assert end == 3


@pytest.mark.parametrize("codec", [1, 3, 4])
def test_a_small_batch_that_unpacks_to_more_than_memory_bears(codec: int):
    bomb = batch(0, [b"\0" * (MAX_UNPACKED_BYTES + 1)], codec)
    assert len(bomb) < 1 << 20
    found, end = read(bomb, batch(1, [b"c"]))
    assert (places(found), end) == ([0, 1], 2)
    assert "more than" in reason(found[0])


def test_a_restart_within_an_unreadable_batch_passes_over_its_rest():
    broken = batch(0, [b"a", b"b", b"c"])
    broken[-3] ^= 1
    found, end = read(broken, batch(3, [b"d"]), begin=1)
    assert (places(found), end) == ([3], 4)


@calm
@given(st.binary(max_size=400))
def test_any_bytes_end_without_a_fault(raw: bytes):
    records = ReadableRecords(raw)
    assert records.size_in_bytes() == len(raw)
    assert isinstance(records.has_next(), bool)


@calm
@given(st.data())
def test_any_damage_of_a_batch_leaves_the_batches_around_it(data: st.DataObject):
    broken = batch(1, [b"abc" * 9, b"d"], data.draw(st.sampled_from(list(CODECS.values()))))
    for at in data.draw(st.lists(st.integers(61, len(broken) - 1), min_size=1, max_size=5)):
        broken[at] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        signed(broken)
    found, end = read(batch(0, [b"first"]), broken, batch(3, [b"last"]))
    assert found[0].value == b"first"
    assert found[-1].value == b"last"
    assert end == 4
