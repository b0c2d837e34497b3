"""BM25: the terms of a text, and sparse vectors whose dot product is the score."""

import math
import re
import threading
import unicodedata
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from itertools import chain

import Stemmer

from eunoe.schemas.decisions import SparseVector
from eunoe.workers.text.caches import cached_by_length, cached_by_word, total_chars

K1 = 1.2
B = 0.75

# vowel signs and accents that follow their letter (Devanagari, Arabic, Hebrew …) are part of the word
_MARKS = "".join(chr(code) for code in range(0x300, 0x1100) if unicodedata.category(chr(code)).startswith("M"))
_LETTERS = f"(?:[^\\W_]|[{_MARKS}])+"
_WORD = re.compile(f"{_LETTERS}(?:'{_LETTERS})*")
_ASCII_WORD = re.compile(r"[a-z0-9]+(?:'[a-z0-9]+)*")
"""The same of ASCII in lower case, found in less than half the time."""
# scripts that are written without spaces, Hangul too: its words carry their particles
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005\u3040-\u30ff\u3130-\u318f"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_RUN = re.compile(f"[{UNSPACED}]+|[^{UNSPACED}]+")
_IS_UNSPACED = re.compile(f"[{UNSPACED}]")
_IDEOGRAPH = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")

_STOPWORDS = (
    # articles, conjunctions, prepositions
    "a an the and or but if so as of at by for with about into to from in on up out off over under than then "
    # pronouns and determiners
    "i me my mine we us our ours you your yours he him his she her hers it its they them their theirs "
    "this that these those who whom whose which what when where why how there here some any each "
    # forms of be, have, do, and modals
    "am is are was were be been being have has had having do does did doing done will would shall should can could may "
    "might must not no nor "
    # contractions, whole
    "i'm i've i'd i'll you're you've you'd you'll he's she's it's we're we've we'd we'll they're they've they'd "
    "they'll that's there's here's what's who's how's where's let's isn't aren't wasn't weren't don't doesn't didn't "
    "haven't "
    "hasn't hadn't won't wouldn't can't couldn't shouldn't "
    # words of dialogue that carry nothing
    "oh ah um uh hey hi hello yes yeah yep ok okay well just really very too also"
)
STOPWORDS = frozenset(_STOPWORDS.split())

_MAYBE_STACKED = re.compile(r"[^\x00-\u02ff\w]{31,}")


def terms(text: str, drop: Collection[str] = ()) -> list[str]:
    """The terms of ``text`` with repetitions: NFKC, lower case, English words stemmed, stop words left out.

    Scripts without spaces (Chinese, Japanese, Thai …) and Korean give overlapping pairs of characters, and each
    ideograph by itself: so a word is found inside a longer run. The words of the names in ``drop`` are left out.
    """
    words = _words(text)
    dropped = _words_of(tuple(drop))
    if not dropped.isdisjoint(map(_bare, words) if "'" in text or not text.isascii() else words):
        words = [word for word in words if _bare(word) not in dropped]
    is_usual = text.isascii() and max(map(len, words), default=0) <= _MAX_CACHED_CHARS
    return list(chain.from_iterable(map(_terms_of_word if is_usual else _terms_of, words)))


def _words(text: str) -> list[str]:
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    folded = unicodedata.normalize("NFKC", _unstacked(text)).lower().replace("’", "'")
    return (_ASCII_WORD if folded.isascii() else _WORD).findall(folded)


def composed(text: str) -> str:
    """The text with letters and their accents as one character each where there is one (NFC), as most clients send it.

    In time that grows with its length, whatever it is.
    """
    return text if text.isascii() else unicodedata.normalize("NFC", _unstacked(text))


def _unstacked(text: str) -> str:
    """The text with at most 30 combining marks on a letter, the bound of stream-safe text (UAX #15, section 13).

    Normalization sorts the marks of a letter, in time that grows with the square of their number.
    """
    return text if text.isascii() else _MAYBE_STACKED.sub(lambda run: _stacked().sub(r"\1", run.group()), text)


@lru_cache(maxsize=1)  # built for the first text that needs it: it takes as long as a hundred texts, and few do
def _stacked() -> re.Pattern[str]:
    marks = "".join(char for char in map(chr, range(0x300, 0x1F000)) if unicodedata.combining(char))
    return re.compile(f"([{marks}]{{30}})[{marks}]+")


@cached_by_length("names", total_chars, 20, (500, 64))
def _words_of(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(_bare(word) for name in names for word in _words(name))


def _bare(word: str) -> str:
    return word.removesuffix("'s").replace("'", "") if "'" in word else word


def _terms_of(word: str) -> tuple[str, ...]:
    is_usual = len(word) <= _MAX_CACHED_CHARS and word.isascii()
    return (_terms_of_word if is_usual else _terms_of_word.__wrapped__)(word)


@cached_by_word(300, 12_288)
def _terms_of_word(word: str) -> tuple[str, ...]:
    """The terms of a word: none of a stop word, one of most, several where a script without spaces is in it."""
    if word in STOPWORDS:
        return ()
    if word.isascii() or not _IS_UNSPACED.search(word):
        return (_stem(_bare(word)),)
    return tuple(term for run in _RUN.findall(word) for term in _terms_of_run(run))


def _terms_of_run(run: str) -> list[str]:
    if not _IS_UNSPACED.match(run):
        return [_stem(_bare(run))]
    if len(run) == 1:
        return [run]
    pairs = [run[i : i + 2] for i in range(len(run) - 1)]
    return pairs + _IDEOGRAPH.findall(run)


class _Stemmers(threading.local):
    """One stemmer per thread: it is not thread-safe."""

    def __init__(self) -> None:
        self.english = Stemmer.Stemmer("english")


_STEMMERS = _Stemmers()
_WHOLE_CHARS = 2
"""Length up to which English words are their own stems."""
_MAX_CACHED_CHARS = 40
"""Length up to which the terms of an ASCII word are cached."""


def _stem(word: str) -> str:
    if len(word) <= _WHOLE_CHARS or not word.isascii():
        return word
    return str(_STEMMERS.english.stemWord(word))


def term_index(term: str) -> int:
    """The index of a term in a sparse vector: its CRC-32, the same in every process."""
    return zlib.crc32(term.encode())


def document_vector(found: Iterable[str], average_length: float) -> SparseVector:
    """The term weights of a document: BM25's saturated frequencies against a fixed average length (in terms).

    The dot product with a `query_vector` is the document's BM25 score. Raises ``ValueError`` unless the average
    length is positive.
    """
    if average_length <= 0:
        raise ValueError(f"average_length must be positive, got {average_length}")
    counts = Counter(found)
    norm = K1 * (1 - B + B * counts.total() / average_length)
    return _vector((term, n * (K1 + 1) / (n + norm)) for term, n in counts.items())


def query_vector(
    found: Iterable[str] | Mapping[str, float], document_frequency: Mapping[str, int], documents: int
) -> SparseVector:
    """The term weights of a query: inverse document frequencies over the conversation's ``documents``.

    ``found``: terms with repetitions, or terms with weights.

    ``document_frequency`` maps a term to the documents it occurs in; a term repeated in the query counts each time.
    A session may be applied between reading the two: the largest frequency then stands for the number of documents.
    """
    counts: Mapping[str, float] = found if isinstance(found, Mapping) else Counter(found)
    known = max(documents, *document_frequency.values(), 0)
    return _vector((term, n * idf(document_frequency.get(term, 0), known)) for term, n in counts.items())


def idf(frequency: int, documents: int) -> float:
    """The inverse document frequency of a term that occurs in ``frequency`` of ``documents``; never negative.

    Raises ``ValueError`` for a frequency outside 0 to ``documents``.
    """
    if not 0 <= frequency <= documents:
        raise ValueError(f"a term cannot occur in {frequency} of {documents} documents")
    return math.log1p((documents - frequency + 0.5) / (frequency + 0.5))


def _vector(weights: Iterable[tuple[str, float]]) -> SparseVector:
    """Weights by index, ascending; terms of the same index add up."""
    summed: dict[int, float] = {}
    for term, weight in sorted(weights):
        index = term_index(term)
        summed[index] = summed.get(index, 0.0) + weight
    indices = tuple(sorted(summed))
    return SparseVector(indices=indices, values=tuple(summed[index] for index in indices))
