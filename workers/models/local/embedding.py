"""Offline embedders: static vectors (WordLlama) and ONNX models (fastembed)."""

import importlib
import importlib.util
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from tokenizers import Tokenizer

from eunoe.schemas.errors import Refused
from eunoe.schemas.model_ports import Vectors
from eunoe.streams.tracing import step
from eunoe.workers.models.local.batching import Batcher
from eunoe.workers.models.local.offload import is_inline
from eunoe.workers.models.local.vectors import stack, unit_rows, widened
from eunoe.workers.models.local.word_tokens import WordTokens
from eunoe.workers.text.caches import CacheBySize

_TOKENS_AT_ONCE = 16_384
"""Token rows gathered at once: 16 MB, however long a text is."""
_TEXTS_AT_ONCE = 256
_TABLE = "embedding.weight"
_LITTLE_CHARS = 2_000
"""Up to so many characters run on the event loop: they take 0.5 ms, and a thread would double that."""
_KEPT_BYTES = 6 * 2**20
"""Vectors of the last 5,000 texts or so: two of three come again, as each stage embeds what it was given."""
_ENTRY_BYTES = 250
"""Bytes of a cache entry without its vector."""
_DIGEST_BYTES = 16
"""Bytes of the digest of a text, by which its vector is cached: the texts themselves are not kept."""


class WordLlamaEmbedder:
    """Static embeddings with the weights inside the ``wordllama`` wheel: mean of token rows, 256 dimensions.

    The files are read from the wheel directly. Its own loader does not find the tokenizer in the wheel and goes to
    the network, and its import configures the root logger.
    """

    def __init__(self) -> None:
        # waiting for its threads would block the event loop; work is divided among processes instead
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        folder = _wheel_folder()
        tokenizer = Tokenizer.from_file(str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json"))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        # its words may be whole texts, which seldom come again: 10,000 of them would take 33 MB
        tokenizer.model._resize_cache(0)  # noqa: SLF001 - there is no other way
        self._tokens = WordTokens(tokenizer)
        self._table = _map_table(folder / "weights" / "l2_supercat_256.safetensors")
        self._name = f"wordllama-{version('wordllama')}-l2_supercat"
        self._kept: CacheBySize[bytes, NDArray[np.float32]] = CacheBySize(_KEPT_BYTES, "vectors of texts")
        self._batcher: Batcher[NDArray[np.float32]] = Batcher(lambda texts: list(self.embed_now(texts)), "wordllama")

    @property
    def name(self) -> str:
        """The wheel's name and version, and the model inside."""
        return self._name

    @property
    def dimensions(self) -> int:
        """The length of a vector: 256."""
        return int(self._table.shape[1])

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of shape (n, 256); a text without a known token gets the first axis."""
        keys = [blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).digest() for text in texts]
        rows = [self._kept.get(key) for key in keys]
        missing = [place for place, row in enumerate(rows) if row is None]
        if missing:
            made = await self._embed([texts[place] for place in missing])
            for place, row in zip(missing, made, strict=True):
                own = rows[place] = row.copy()  # not a part of the batch, which it would keep
                self._kept.put(keys[place], own, own.nbytes + _ENTRY_BYTES)
        return stack([row for row in rows if row is not None], self.dimensions)

    async def _embed(self, texts: list[str]) -> Vectors:
        if is_inline() or sum(map(len, texts)) <= _LITTLE_CHARS:
            return self.embed_now(texts)
        with step("embeddings wordllama", {"gen_ai.operation.name": "embeddings", "eunoe.texts": len(texts)}):
            return stack(await self._batcher.submit(texts), self.dimensions)

    async def aclose(self) -> None:
        """End the thread."""
        await self._batcher.aclose()

    def embed_now(self, texts: list[str]) -> Vectors:
        """The result of `embed`, on the caller's own thread. A row depends on its text alone, bit for bit."""
        rows = np.zeros((len(texts), self.dimensions), np.float32)
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            ids = self._tokens.of([_clean(text) for text in texts[start : start + _TEXTS_AT_ONCE]])
            for first, end in _runs([len(tokens) for tokens in ids]):
                self._sum_into(rows[start + first : start + end], ids[first:end])
        return unit_rows(rows)

    def _sum_into(self, rows: NDArray[np.float32], ids: Sequence[list[int]]) -> None:
        """Add up the token rows of each text; the sum has the direction of the mean."""
        filled = [index for index, tokens in enumerate(ids) if tokens]
        if not filled:
            return
        if len(ids) == 1 and len(ids[0]) > _TOKENS_AT_ONCE:
            for start in range(0, len(ids[0]), _TOKENS_AT_ONCE):
                rows[0] += self._rows(ids[0][start : start + _TOKENS_AT_ONCE]).sum(axis=0)
            return
        lengths = [len(ids[index]) for index in filled]
        flat = np.fromiter(chain.from_iterable(ids), np.int64, count=sum(lengths))
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        rows[filled] = np.add.reduceat(self._rows(flat), starts, axis=0)

    def _rows(self, tokens: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float32]:
        return widened(self._table[tokens])


def _wheel_folder() -> Path:
    found = importlib.util.find_spec("wordllama")
    if found is None or not found.submodule_search_locations:
        raise Refused("the package wordllama is not installed: pip install wordllama, or choose another embedder")
    return Path(found.submodule_search_locations[0])


def _map_table(path: Path) -> NDArray[np.float16]:
    """The rows as they are in the file, mapped: processes share its pages, and read those that they use."""
    with safe_open(str(path), framework="np") as file:
        if list(file.keys()) != [_TABLE] or file.get_slice(_TABLE).get_dtype() != "F16":
            raise Refused(f"{path}: is not one table of F16: install the wordllama of requirements.lock")
        rows, columns = file.get_slice(_TABLE).get_shape()
    begin = path.stat().st_size - rows * columns * np.dtype(np.float16).itemsize
    return np.asarray(np.memmap(path, "<f2", "r", begin, (rows, columns)))


def _clean(text: str) -> str:
    """``text`` without lone surrogates, which tokenizers refuse."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _runs(lengths: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Ranges of texts with at most `_TOKENS_AT_ONCE` tokens together, or with one longer text alone."""
    start = held = 0
    for index, length in enumerate(lengths):
        if held and held + length > _TOKENS_AT_ONCE:
            yield start, index
            start, held = index, 0
        held += length
    if start < len(lengths):
        yield start, len(lengths)


_BATCH: Final = 64
"""Texts that ONNX runs at once."""


@dataclass(frozen=True, slots=True)
class FastembedSettings:
    """An ONNX model of fastembed and the place of its files."""

    model: str = "BAAI/bge-small-en-v1.5"
    path: str | None = None
    """A folder with the model's files; `None` means fastembed's cache, or a download at first use."""
    threads: int | None = None


class FastembedEmbedder:
    """Any model of the ``fastembed`` package (an extra), run by ONNX in its own thread."""

    def __init__(self, settings: FastembedSettings | None = None) -> None:
        self._settings = settings or FastembedSettings()
        self._model = _load_fastembed(self._settings)
        self._dimensions = int(next(iter(self._model.embed(["dimensions"]))).shape[0])
        self._batcher: Batcher[NDArray[np.float32]] = Batcher(self._embed_now, "fastembed", max_texts=256)

    @property
    def name(self) -> str:
        """The model's name in fastembed, with a prefix."""
        return f"fastembed-{self._settings.model}"

    @property
    def dimensions(self) -> int:
        """The length of a vector, measured on the loaded model."""
        return self._dimensions

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of shape (n, dimensions)."""
        return stack(await self._batcher.submit(texts), self._dimensions)

    async def aclose(self) -> None:
        """End the thread."""
        await self._batcher.aclose()

    def _embed_now(self, texts: list[str]) -> list[NDArray[np.float32]]:
        rows = list(self._model.embed([_clean(text) for text in texts], batch_size=_BATCH))
        return list(unit_rows(np.stack(rows)))


_NO_FASTEMBED = "the embedder fastembed is not installed: pip install 'eunoe[fastembed]', or choose wordllama"


def check_fastembed() -> None:
    """Raise `Refused` where the package fastembed is not installed."""
    if importlib.util.find_spec("fastembed") is None:
        raise Refused(_NO_FASTEMBED)


def _load_fastembed(settings: FastembedSettings) -> Any:  # noqa: ANN401 - the package is an extra
    try:
        fastembed = importlib.import_module("fastembed")
    except ImportError:
        raise Refused(_NO_FASTEMBED) from None
    options = {} if settings.path is None else {"specific_model_path": settings.path}
    try:
        return fastembed.TextEmbedding(model_name=settings.model, threads=settings.threads, **options)
    except Exception as error:
        raise Refused(
            f"fastembed could not load {settings.model} ({type(error).__name__}): it downloads the model at first use;"
            " allow network access once, set a folder that holds the model's files, or choose wordllama"
        ) from error
