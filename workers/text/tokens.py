"""Tokens, the unit of every budget: a fixed count, whatever model is asked, close to that of current tokenizers.

Measured against o200k_base (GPT-4o): English prose 0 %, code -2 %, German -8 %, Spanish 0 %, Russian +9 %, Arabic -7 %,
Chinese 0 %, Japanese +4 %, Korean -5 %, Hindi +8 %, Tamil +19 %, Thai -4 %, Burmese +5 %, Amharic -12 %.

A token never ends inside a character as people see it: between a letter and its accent or vowel sign, the parts of an
emoji, the halves of a flag.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import chain, takewhile

from eunoe.workers.text.caches import cached_by_length


def _marks(codes: Iterable[int]) -> str:
    return "".join(char for char in map(chr, codes) if unicodedata.category(char).startswith("M"))


_CJK_CLASS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af"
_CJK = re.compile(f"[{_CJK_CLASS}]")
"""Ideographs, kana and Hangul syllables."""
_TOKEN = re.compile(rf"[{_CJK_CLASS}]|[^\W{_CJK_CLASS}]+|[^\w\s]")
VOWEL_SIGNS = _marks(chain(range(0x900, 0x1AB0), range(0x1B00, 0x1D00), range(0xA800, 0xAC00)))
"""Vowel signs of India and the south-east of Asia: letters of their words to a tokenizer."""
ACCENTS = _marks(chain(range(0x300, 0x900), range(0x1AB0, 0x1B00), range(0x1DC0, 0x2100))) + "\u3099\u309a"
"""Marks behind a letter in all other scripts, for a class of a regular expression."""
_ATTACHED = f"{ACCENTS}\u200c\u200d\ufe00-\ufe0f\ufe20-\ufe2f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f"
"""Other parts of the character before, each a token: accents, joiners, selectors, tones of skin, tags."""
_UNSPACED_CLASS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
"""Thai, Lao, Burmese, Khmer: no spaces between words, so that a text of them is cut between characters."""
_RARE_CLASS = "\u0e80-\u0fff\u1100-\u139f"
"""Lao, Tibetan, single jamo, Ethiopic, Cherokee: scripts of which tokenizers know few words."""
_FLAG_CLASS = "\U0001f1e6-\U0001f1ff"
_COMPOSED = re.compile(f"[\u0900-\u0dff{VOWEL_SIGNS}{_ATTACHED}{_UNSPACED_CLASS}{_RARE_CLASS}{_FLAG_CLASS}]")
"""Most texts have none of these, and `_TOKEN` reads them in less time."""
_MORE = f"[{VOWEL_SIGNS}{_ATTACHED}\u0e33\u0eb3]{{0,30}}"
"""The rest of a character: 30 marks are the bound of stream-safe text (UAX #15, section 13)."""
_JOINED = f"(?:(?<=[\u200d\u094d\u09cd\u0acd\u0b4d\u0c4d\u0d4d\u1039\u17d2])\\S{_MORE}){{0,8}}"
"""Parts that a joiner or a virama binds to the character before it: of an emoji, consonants."""
_COMPOSED_TOKEN = re.compile(
    rf"[{_CJK_CLASS}{_UNSPACED_CLASS}]{_MORE}{_JOINED}"
    rf"|(?:[^\W{_CJK_CLASS}{_UNSPACED_CLASS}]{_MORE})+"
    rf"|[{_FLAG_CLASS}]{{2}}"
    rf"|[^\w\s]{_MORE}{_JOINED}"
)
_CHARACTER = re.compile(rf"[{_FLAG_CLASS}]{{2}}|.{_MORE}{_JOINED}", re.DOTALL)
_ATTACHMENT = re.compile(f"[{_ATTACHED}]")
_WORD = re.compile(r"\w+|[^\w\s]")
_ASCII_WORD = re.compile(r"\w+|[^\w\s\x1c-\x1f]", re.ASCII)  # with the separators that Unicode counts as spaces

_USUAL_CHARS, _REST_CHARS = 13, 6
"""Characters of an ASCII word that is one token, and of each further token of a longer one."""
_OTHER_CHARS = 4
"""Characters of a token in a word with other letters."""
_WHOLE, _CJK_PART = 5, 4
"""Five characters of `_CJK` are four tokens: weights are fifths of a token."""
_LETTERS = (
    (re.compile(f"[{_RARE_CLASS}]"), 10),
    (re.compile("[\u0e00-\u0e7f]"), 2),
    (re.compile("[\u0d80-\u0dff\u1000-\u109f\u1780-\u17ff]"), 3),
    (re.compile("[\u0900-\u0dff]"), 2),
)
"""Weights of a letter, by the script of the first letter."""


# cached: what is said is counted for each question, extract and budget that it may go into
@cached_by_length("sentences", len, 4, (300, 1_024))
def count_tokens(text: str) -> int:
    """The number of tokens in ``text``: words, parts of long words, punctuation marks, four for five CJK characters."""
    if text.isascii():
        sizes = list(map(len, _ASCII_WORD.findall(text)))
        return len(sizes) + sum([_extra(size) for size in sizes if size > _USUAL_CHARS])
    if _COMPOSED.search(text) is None:
        return -(-sum(map(_weight, _TOKEN.findall(text))) // _WHOLE)
    return -(-sum(map(_weight_of_composed, _COMPOSED_TOKEN.findall(text))) // _WHOLE)


def count_words(text: str) -> int:
    """The number of words and punctuation marks in ``text``: the unit of compression, which drops whole words."""
    return len(_WORD.findall(text))


def clip_tokens(text: str, limit: int) -> str:
    """The longest beginning of ``text`` with at most ``limit`` tokens; unchanged where it has no more."""
    if limit <= 0:
        return ""
    if count_tokens(text) <= limit:
        return text
    ends = [end for end, _ in takewhile(lambda part: part[1] <= limit * _WHOLE, _sums(text))]
    return text[: ends[-1]] if ends else ""


def clip_chars(text: str, limit: int) -> str:
    """The longest beginning of ``text`` of at most ``limit`` code points that ends no character half way."""
    if len(text) <= limit:
        return text
    ends = takewhile(lambda end: end <= limit, (found.end() for found in _CHARACTER.finditer(text)))
    return text[: max(ends, default=0)]


def token_cuts(text: str, limit: int) -> Iterator[tuple[int, int]]:
    """(start, end) of consecutive parts of ``text``, each of at most ``limit`` tokens where single words allow it."""
    start = end = held = 0
    for after, weight in _weighed(text):
        if held and held + weight > limit * _WHOLE:
            yield start, end
            start, held = end, 0
        end, held = after, held + weight
    if start < len(text):
        yield start, len(text)


def _sums(text: str) -> Iterator[tuple[int, int]]:
    """The end of each token and the weight of all up to it."""
    total = 0
    for end, weight in _weighed(text):
        total += weight
        yield end, total


def _weighed(text: str) -> Iterator[tuple[int, int]]:
    """The end and the weight of each token."""
    if text.isascii():
        spans = (found.span() for found in _ASCII_WORD.finditer(text))
        return ((end, _WHOLE if end - start <= _USUAL_CHARS else _weight_of_ascii(end - start)) for start, end in spans)
    pattern, weight = (_COMPOSED_TOKEN, _weight_of_composed) if _COMPOSED.search(text) else (_TOKEN, _weight)
    return ((found.end(), weight(found.group())) for found in pattern.finditer(text))


def _weight(token: str) -> int:
    """Fifths of a token."""
    if token.isascii():
        return _weight_of_ascii(len(token))
    if len(token) == 1 and _CJK.match(token):
        return _CJK_PART
    return _WHOLE * -(-len(token) // _OTHER_CHARS)


def _weight_of_ascii(chars: int) -> int:
    return _WHOLE * (1 + _extra(chars))


def _weight_of_composed(token: str) -> int:
    """Fifths of a token, of a text with composed characters."""
    if _COMPOSED.search(token) is None:
        return _weight(token)
    attached = len(_ATTACHMENT.findall(token))
    letters = len(token) - attached
    for script, weight in _LETTERS:
        if script.match(token):
            return letters * weight + attached * _WHOLE
    is_word = token[0].isalnum() or token[0] == "_"
    return _WHOLE * (attached + (-(-letters // _OTHER_CHARS) if is_word else letters))


def _extra(chars: int) -> int:
    """Further tokens of an ASCII word."""
    return -(-max(0, chars - _USUAL_CHARS) // _REST_CHARS)
