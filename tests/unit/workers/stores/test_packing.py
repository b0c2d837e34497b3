"""Packed documents give the text back, whatever it is, and are never longer."""

import json
from base64 import b64encode, urlsafe_b64encode
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from eunoe.workers.models.local.vectors import levels, quantized, unit_of_levels, unit_rows
from eunoe.workers.stores.documents.packing import MAX_BYTES, PACKER, is_packed
from eunoe.workers.stores.documents.shortening import lengthened, shortened
from eunoe.workers.tree.loading import decode_vectors, encode_sum, encode_vector
from tests.support.train_dictionary import documents

KEY = "default/c"

ENCODED = st.one_of(
    st.text(),
    st.uuids().map(lambda found: f'"{found}"'),
    st.binary(min_size=60, max_size=300).map(lambda raw: f'"{b64encode(raw).decode()}"'),
    st.binary(min_size=60, max_size=300).map(lambda raw: f'"{urlsafe_b64encode(raw).decode()}"'),
    st.uuids().map(lambda found: json.dumps(urlsafe_b64encode(f'"{found}" and more, \xfd"'.encode() * 2).decode())),
    st.uuids().map(lambda found: str(found).upper()),
    st.binary(min_size=40, max_size=300).map(lambda raw: b64encode(raw).decode()),
    st.binary(min_size=40, max_size=300).map(lambda raw: urlsafe_b64encode(raw).decode()),
    st.text("0123456789abcdef-", min_size=30, max_size=80),
    st.text("AZaz09-_+/=", min_size=60, max_size=200),
)
TEXTS = st.lists(ENCODED, max_size=8).map("".join)


def size(stored: bytes | str) -> int:
    return len(stored if isinstance(stored, bytes) else stored.encode())


@given(TEXTS, st.one_of(st.uuids().map(str), st.text(max_size=5)))
def test_every_text_comes_back(text: str, id_: str) -> None:
    plain = text.encode("utf-8", "replace")
    assert lengthened(shortened(plain, id_.encode()), id_.encode()) == plain
    packed = PACKER.pack(plain.decode(), id_)
    if isinstance(packed, bytes):
        assert is_packed(packed)
        assert PACKER.unpack(packed, id_).encode() == plain
    assert size(packed) <= len(plain)


@given(st.uuids(), st.uuids())
def test_ids_take_their_own_bytes(own: UUID, other: UUID) -> None:
    text = f'{{"memory_id":"{own}","by":"{other}"}}'.encode()
    assert len(shortened(text, str(own).encode())) == len(text) - 38 - 38 + 1 + (1 if own == other else 17)


def test_vectors_take_their_own_bytes() -> None:
    row = np.random.default_rng(1).integers(-127, 128, 256).astype(np.int8).tobytes()
    text = json.dumps({"levels": urlsafe_b64encode(row).decode()})
    assert size(PACKER.pack(text)) <= 256 + 40


async def test_the_documents_of_a_conversation_take_half() -> None:
    rows = await documents(None)
    before, after = sum(size(text) for _, text in rows), sum(size(PACKER.pack(text, id_)) for id_, text in rows)
    assert after < before / 2
    assert all(PACKER.unpack(packed, id_) == text for id_, text, packed in _packed(rows))


def _packed(rows: list[tuple[str, str]]) -> list[tuple[str, str, bytes]]:
    found = [(id_, text, PACKER.pack(text, id_)) for id_, text in rows]
    return [(id_, text, packed) for id_, text, packed in found if isinstance(packed, bytes)]


@pytest.mark.parametrize("damaged", [b"\x02", b"\x02nonsense", b"\x02" + bytes(40)])
def test_damaged_documents_are_told(damaged: bytes) -> None:
    with pytest.raises(ValueError, match="no packed document"):
        PACKER.unpack(damaged)


def test_a_document_that_would_fill_the_memory_is_not_unpacked() -> None:
    honest = PACKER.pack("so long " * 100)
    assert isinstance(honest, bytes)
    forged = b"\x02\xe0" + (1 << 40).to_bytes(8, "little") + honest[4:]
    packed = PACKER.pack("a" * MAX_BYTES)
    assert isinstance(packed, bytes)
    assert len(PACKER.unpack(packed)) == MAX_BYTES
    assert PACKER.pack("a" * (MAX_BYTES + 1)) == "a" * (MAX_BYTES + 1), "it is stored as it is"
    longer = zstandard.ZstdCompressor(
        compression_params=zstandard.ZstdCompressionParameters.from_level(
            3, format=zstandard.FORMAT_ZSTD1_MAGICLESS, write_content_size=True
        )
    ).compress(bytes(MAX_BYTES + 1))
    for bomb in (forged, b"\x02" + longer):
        with pytest.raises(ValueError, match="it would have"):
            PACKER.unpack(bomb)


def test_threads_do_not_share_contexts() -> None:
    texts = [json.dumps({"session": number, "speaker": "Ann", "text": "so long " * number}) for number in range(200)]
    with ThreadPoolExecutor(4) as threads:
        packed = list(threads.map(PACKER.pack, texts))
        assert list(threads.map(lambda one: PACKER.unpack(one) if isinstance(one, bytes) else one, packed)) == texts


def test_vectors_are_stored_as_they_are_used() -> None:
    rows = quantized(unit_rows(np.random.default_rng(2).standard_normal((20, 256))))
    stored = [encode_vector(row).model_dump_json() for row in rows]
    assert np.array_equal(decode_vectors(stored, KEY, 256), rows)
    assert np.array_equal(decode_vectors(stored[3:4], KEY, 256), rows[3:4])
    assert np.array_equal(quantized(rows), rows)
    assert np.array_equal(unit_of_levels(levels(rows)), rows)


def test_sums_keep_their_length() -> None:
    total = np.random.default_rng(3).standard_normal(256).astype(np.float32) * 17
    found = decode_vectors([encode_sum(total).model_dump_json()], KEY, 256)[0]
    assert np.abs(found - total).max() <= np.abs(total).max() / 254 + 1e-5
    assert not decode_vectors([encode_sum(np.zeros(256, np.float32)).model_dump_json()], KEY, 256)[0].any()
