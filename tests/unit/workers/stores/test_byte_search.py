"""The search for erased texts sees them in every encoding that a file may have; otherwise it would prove nothing."""

import gzip
import json
import zlib
from base64 import b64encode
from pathlib import Path

import numpy as np
import pytest

from eunoe.workers.models.local.vectors import quantized
from eunoe.workers.stores.documents.packing import PACKER
from eunoe.workers.tree.loading import encode_vector
from tests.support.byte_search import Found, needles, search_bytes, search_files, unpack_lzf

WORD = "Zanzibarqx"
VECTOR = np.linspace(-1, 1, 64).astype("<f4")
WANTED = needles({"word": WORD}, {"vector": VECTOR.tobytes()})
NOISE = bytes(range(256)) * 3


@pytest.mark.parametrize(
    ("data", "how"),
    [
        (WORD.encode(), "UTF-8"),
        ("".join(f"\\u{ord(char):04x}" for char in WORD).encode(), "escaped"),
        *((b64encode(b"." * n + WORD.encode() + b"..."), "base64") for n in range(6)),
        (zlib.compress(b"said: " + WORD.encode() + b" and more"), "UTF-8"),
        (gzip.compress(json.dumps({"text": WORD}).encode(), mtime=0), "UTF-8"),
        # a literal run, a reference to it, another literal run
        (b"\xc3\x11\x21\x0d" + b"a" * 13 + b"\xff", None),
    ],
)
def test_a_word_is_found(data: bytes, how: str | None) -> None:
    found = search_bytes(NOISE + data + NOISE, WANTED)
    assert found == (set() if how is None else {Found("word", how)})


@pytest.mark.parametrize("before", range(3))
def test_a_vector_is_found(before: int) -> None:
    plain = b"x" * before + VECTOR.tobytes()
    assert search_bytes(NOISE + plain, WANTED) == {Found("vector", "float32")}
    assert search_bytes(b64encode(plain), WANTED) == {Found("vector", "float32 in base64")}
    assert search_bytes(VECTOR.astype("<f2").tobytes(), WANTED) == {Found("vector", "float16")}


def test_packed_documents_are_found() -> None:
    row = quantized(VECTOR[None])[0]
    text = json.dumps({"text": f"we went to {WORD}", "speaker": "Ann", "session": 1, "index": 0, "made_by": None})
    vector = encode_vector(row).model_dump_json()
    for document, found in ((text, Found("word", "UTF-8")), (vector, Found("vector", "signed bytes"))):
        stored = PACKER.pack(document, "m1")
        assert isinstance(stored, bytes)
        assert search_bytes(NOISE + b"\r\n" + stored + b"\r\n" + NOISE, WANTED) == {found}


def test_strings_that_redis_compresses_are_found() -> None:
    text = b"go " + WORD.encode() + b" " + WORD.encode()
    packed = bytes([len(text[:14]) - 1]) + text[:14] + bytes([0xE0, 1, 10])
    assert unpack_lzf(packed, len(text)) == text[:14] + text[3:13]
    data = NOISE + b"\xc3" + bytes([len(packed), 24]) + packed + NOISE
    assert search_bytes(data, WANTED) == {Found("word", "UTF-8")}


def test_files_and_their_names_are_searched(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "log").write_bytes(b"nothing")
    assert search_files([tmp_path], WANTED) == {}
    (tmp_path / "a" / "log").write_bytes(WORD.encode())
    (tmp_path / f"of-{WORD}").touch()
    word = {Found("word", "UTF-8")}
    assert search_files([tmp_path], WANTED) == {"a/log": word, f"of-{WORD}": word}
