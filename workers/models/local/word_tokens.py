"""Tokens of texts for a vocabulary whose tokens end at spaces: each word is read once, and kept."""

import threading
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

from tokenizers import Tokenizer

from eunoe.workers.text.caches import CacheBySize

UNKNOWN: Final = 0
"""The token of what the vocabulary does not know; it is left out."""
SPACE: Final = "\u2581"
"""The sign that stands for a space in the vocabulary."""
_KEPT_BYTES: Final = 2 * 2**20
"""The tokens of the last 5,000 words or so: of every twenty words of a text one is new."""
_MOST_CHARS: Final = 40
"""Length up to which the tokens of a word are kept."""
_ENTRY_BYTES: Final = 350
"""Bytes of a cache entry without its tokens, for a word of `_MOST_CHARS`."""
_TOKEN_BYTES: Final = 40


class WordTokens:
    """Reads texts by a tokenizer of which each token has spaces at its begin only.

    No token reaches over the begin of a word then. So the tokens of a text are those of its words, one after another,
    and looking them up takes a fraction of the time. May be used by several threads.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._kept: CacheBySize[str, tuple[int, ...]] = CacheBySize(_KEPT_BYTES, "tokens of words")
        self._lock = threading.Lock()

    def of(self, texts: Sequence[str]) -> list[list[int]]:
        """The known tokens of each text."""
        parts = [_parts(text) for text in texts]
        known = self._known(chain.from_iterable(parts))
        return [list(chain.from_iterable([known[part] for part in one])) for one in parts]

    def _known(self, parts: Iterable[str]) -> Mapping[str, Sequence[int]]:
        """The tokens of each part."""
        with self._lock:
            found = {part: self._kept.get(part) for part in set(parts)}
        missing = [part for part, tokens in found.items() if tokens is None]
        read = dict(zip(missing, self._read(missing), strict=True))
        with self._lock:
            for part, tokens in read.items():
                if len(part) <= _MOST_CHARS:
                    self._kept.put(part, tokens, _ENTRY_BYTES + _TOKEN_BYTES * len(tokens))
        return {part: read[part] if tokens is None else tokens for part, tokens in found.items()}

    def _read(self, parts: Sequence[str]) -> list[tuple[int, ...]]:
        encodings = self._tokenizer.encode_batch_fast(parts, add_special_tokens=False) if parts else []
        return [tuple([token for token in encoding.ids if token != UNKNOWN]) for encoding in encodings]


def _parts(text: str) -> list[str]:
    """The words of a text; the whole text where spaces or special tokens such as ``<s>`` may be part of a word."""
    words = text.split(" ")
    return [text] if "" in words or "<" in text or SPACE in text else words
