"""Packs documents of the state store into fewer bytes: ids and base64 as bytes, then zstd with a shared dictionary.

A packed document begins with a mark that no JSON text begins with, so that plain ones are read as they are. The
dictionary was trained on documents of the bundled conversation; it never changes: a better one gets a mark of its own.
"""

import threading
from importlib import resources
from typing import Final

import zstandard

from eunoe.workers.stores.documents.shortening import lengthened, shortened

MARK: Final = b"\x02"
"""First byte of a packed document."""
PACKED_FROM: Final = 24
"""Bytes of a text from which on it is packed; no shorter one shrinks."""
MAX_BYTES: Final = 2**22
"""Bytes of the longest text that is packed, and of what is unpacked: a forged document may claim more than there is
memory."""
LEVEL: Final = 6
"""Level of zstd: 3 takes 0.5 microseconds less and 3 % more bytes, higher ones gain nothing."""


class Packer:
    """Packs and unpacks with one dictionary; each thread has its own contexts of zstd."""

    def __init__(self, dictionary: bytes) -> None:
        self.dictionary = zstandard.ZstdCompressionDict(dictionary)
        self._form = zstandard.ZstdCompressionParameters.from_level(
            LEVEL,
            format=zstandard.FORMAT_ZSTD1_MAGICLESS,
            write_content_size=True,
            write_checksum=False,
            write_dict_id=False,
        )
        self._contexts = threading.local()

    def pack(self, text: str, id_: str = "") -> bytes | str:
        """The packed text, or the text itself where that is shorter; ``id_``: the id that it is stored under."""
        plain = text.encode()
        if not PACKED_FROM <= len(plain) <= MAX_BYTES:
            return text
        compressor = self._contexts.__dict__.get("compressor")
        if compressor is None:
            compressor = zstandard.ZstdCompressor(compression_params=self._form, dict_data=self.dictionary)
            self._contexts.compressor = compressor
        packed: bytes = MARK + compressor.compress(shortened(plain, id_.encode()))
        return packed if len(packed) < len(plain) else text

    def unpack(self, packed: bytes, id_: str = "") -> str:
        """The text of a packed document; raises ``ValueError`` for bytes that are none."""
        decompressor = self._contexts.__dict__.get("decompressor")
        if decompressor is None:
            decompressor = zstandard.ZstdDecompressor(
                dict_data=self.dictionary, format=zstandard.FORMAT_ZSTD1_MAGICLESS
            )
            self._contexts.decompressor = decompressor
        body = packed[len(MARK) :]
        try:
            size = zstandard.get_frame_parameters(body, format=zstandard.FORMAT_ZSTD1_MAGICLESS).content_size
            if size > MAX_BYTES:
                raise ValueError(f"no packed document: it would have {size} bytes")
            return lengthened(decompressor.decompress(body), id_.encode()).decode()
        except (zstandard.ZstdError, MemoryError) as fault:
            raise ValueError(f"no packed document: {fault}") from fault


def is_packed(value: bytes) -> bool:
    """Whether a stored document is packed."""
    return value.startswith(MARK)


def _load() -> Packer:
    return Packer(resources.files("eunoe.workers.stores.documents").joinpath("documents-1.zdict").read_bytes())


PACKER: Final = _load()
"""The packer of all documents."""
