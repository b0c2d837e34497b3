"""Parses English sentences for the rules: content stems, negation, plan, subject."""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from itertools import pairwise
from typing import TypeVar

from eunoe.workers.text.bounds import MAX_SENTENCE_CHARS, without_middle
from eunoe.workers.text.caches import cached_by_length, cached_by_word
from eunoe.workers.text.foreign import is_foreign
from eunoe.workers.text.terms import terms
from eunoe.workers.text.words import NUMBER_WORDS
from eunoe.workers.update.english.lexicon import DATED, LIGHT, LOOKING_BACK, PAST, PLANNED, STANCE, WISHED
from eunoe.workers.update.english.negation import DENYING, may_negate, negates
from eunoe.workers.update.english.subjects import BREAK, WORD, Subject, bare, read_subject

T = TypeVar("T")

_BRACKETS = re.compile(r"[(\[][^)\]]*([)\]]|\Z)")
_DIGIT = re.compile(r"\d")
_JOINTS = frozenset(
    [
        "but",
        "because",
        "although",
        "though",
        "while",
        "and",
        "so",
        "then",
        "when",
        "since",
        "which",
        "who",
        "after",
        "before",
        "if",
    ]
)
_SAID = ' said: "'
_QUOTED = re.compile(rf'\A(?P<who>[^"]{{1,110}}?){_SAID}(?P<what>.*)"\Z', re.DOTALL)
_MAX_SHARED_CHARS = 40
"""Length up to which equal words of sentences are one object."""
_NUMBERS = NUMBER_WORDS - {"one", "second", "first", "once", "quarter", "couple", "both", "half"}


@dataclass(frozen=True, slots=True)
class SentenceWord:
    """A word of a sentence."""

    text: str
    stem: str
    """Empty if the word carries little meaning."""
    negated: bool
    """Whether it is in the scope of a negation, which reaches to the end of its clause."""


@dataclass(frozen=True, eq=False)
class ParsedSentence:
    """A sentence as the rules see it; parsed once and compared with many others. Most rules ask for a part of it."""

    text: str
    speaker: str
    body: str
    """The text without the quoted speaker."""
    plain: str
    """The same in lower case."""
    words: tuple[SentenceWord, ...]

    @cached_property
    def subject(self) -> Subject:
        """Of whom it tells."""
        return read_subject(WORD.findall(self.body), _names_of(self.speaker))

    @property
    def other(self) -> str:
        """The subject if it is not the speaker; else empty."""
        return self.subject.other

    def may_be_of(self, sentence: "ParsedSentence") -> bool:
        """Whether another sentence may speak of the same person; of two sisters with two names it does not.

        A sister Amy is the Amy whom the other sentence begins with.
        """
        names = {self.subject.name, sentence.subject.name} - {""}
        if self.other != sentence.other:
            return names in ({self.other}, {sentence.other})
        return len(names) <= 1

    @cached_property
    def named(self) -> frozenset[str]:
        """Lower case, the words with a capital that no sentence begins with: people, places, days."""
        return _named(WORD.findall(self.body)) - _names_of(self.speaker)

    @cached_property
    def planned(self) -> bool:
        """Whether it tells of what is to come."""
        return bool(PLANNED.search(self.plain))

    @cached_property
    def wished(self) -> bool:
        """Whether it tells of what somebody would like."""
        return bool(WISHED.search(self.plain))

    @cached_property
    def past(self) -> bool:
        """Whether it tells of what has happened."""
        return bool(PAST.search(self.plain))

    @cached_property
    def dated(self) -> bool:
        """Whether it names a time."""
        return bool(DATED.search(self.plain))

    @cached_property
    def stance(self) -> bool:
        """Whether it tells what somebody thinks or feels."""
        return bool(STANCE.search(self.plain))

    @cached_property
    def looks_back(self) -> bool:
        """Whether it tells of an earlier time."""
        return bool(LOOKING_BACK.search(self.plain))

    @cached_property
    def size(self) -> int:
        """Number of content stems, without those of days that a memory adds in brackets."""
        return _size(self.plain, self.words, _names_of(self.speaker))

    @cached_property
    def foreign(self) -> bool:
        """Whether it is not English: the rules do not know what denies it, nor where its words end."""
        return is_foreign(self.text, self.speaker)

    @cached_property
    def stems(self) -> frozenset[str]:
        """All content stems."""
        return frozenset(word.stem for word in self.words if word.stem)

    @cached_property
    def all_stems(self) -> frozenset[str]:
        """The stems of all words except stop words and negations."""
        return frozenset(stem for word in self.words for stem in terms(word.text))

    @cached_property
    def negated(self) -> frozenset[str]:
        """The content stems in the scope of a negation."""
        return frozenset(word.stem for word in self.words if word.stem and word.negated)

    @cached_property
    def may_deny(self) -> bool:
        """Whether a word of it may negate what follows, or it is so long that not all of it was read."""
        negating = any(may_negate(word) for word in WORD.findall(self.plain))
        return negating or len(self.text) > MAX_SENTENCE_CHARS

    @cached_property
    def denials(self) -> frozenset[str]:
        """The words that deny or end something, also what stands before them: "the meeting was cancelled"."""
        return DENYING.intersection(WORD.findall(self.plain))

    @cached_property
    def numbers(self) -> frozenset[str]:
        """Digits and number words."""
        return frozenset(word.text for word in self.words if word.text.isdecimal() or word.text in _NUMBERS)


def cached_by_sentence(function: Callable[[ParsedSentence], T]) -> Callable[[ParsedSentence], T]:
    """Cache the results of a function in the sentences themselves: a result lives as long as its sentence."""
    name = f"_{function.__module__}.{function.__qualname__}"

    @wraps(function)
    def read(sentence: ParsedSentence) -> T:
        known = vars(sentence)
        if name not in known:
            known[name] = function(sentence)
        found: T = known[name]
        return found

    return read


@cached_by_length("sentences", lambda text, speaker: len(text) + len(speaker), 45, (200, 2_048), (2_000, 32))
def parse_sentence(text: str, speaker: str) -> ParsedSentence:
    """Parse ``text``, a sentence about ``speaker``."""
    body = without_middle(unquoted(text))
    plain = body.casefold().replace("’", "'")
    words = tuple(_words(WORD.findall(plain), _names_of(speaker)))
    return ParsedSentence(text, speaker, body, plain, words)


def _names_of(speaker: str) -> frozenset[str]:
    return frozenset(speaker.casefold().split())


def without_days(text: str) -> str:
    """The text without what stands in brackets and has a digit: the days that a memory adds to "last week"."""
    return _BRACKETS.sub(_without_day, text)


def _without_day(found: re.Match[str]) -> str:
    return " " if found[1] and _DIGIT.search(found.group()) else found.group()


def _size(plain: str, words: Sequence[SentenceWord], names: Collection[str]) -> int:
    told = words
    if (bare := without_days(plain)) != plain:
        told = _words(WORD.findall(bare), names)
    return len({word.stem for word in told if word.stem})


def _named(tokens: list[str]) -> frozenset[str]:
    within = (token for before, token in pairwise(tokens) if before not in BREAK and token[0].isupper())
    return frozenset(bare(token) for token in within) - {"i"}


def unquoted(text: str) -> str:
    """The quoted words if the text is a quotation, else the text."""
    found = _QUOTED.match(text) if _SAID in text else None
    return text if found is None else found["what"]


def _words(tokens: list[str], names: Collection[str]) -> list[SentenceWord]:
    found: list[SentenceWord] = []
    negated = False
    spelled = " ".join(names).replace("'", "")
    for place, token in enumerate(tokens):
        if token in BREAK:
            negated = False
            continue
        if token in _JOINTS:
            negated = False
        elif may_negate(token) and negates(tokens, place):
            negated = True
            continue
        found.append(_word(token, names, spelled, negated))
    return found


def _word(token: str, names: Collection[str], spelled: str, negated: bool) -> SentenceWord:
    """A word, which carries nothing where it is one of ``names``, which are ``spelled``."""
    if len(token) > _MAX_SHARED_CHARS:
        return SentenceWord(token, _content_stem(token, names), negated)
    if token.isascii() and token.isalnum() and token not in spelled and spelled.isascii():
        return _plain_word(token, negated)
    return _shared_word(token, _content_stem(token, names), negated)


# most words of a sentence stand in many others: one object for all of them is half of a parsed sentence
@cached_by_word(500, 8_192)
def _plain_word(token: str, negated: bool) -> SentenceWord:
    return SentenceWord(token, _content_stem(token, ()), negated)


@cached_by_word(500, 2_048)
def _shared_word(token: str, stem: str, negated: bool) -> SentenceWord:
    return SentenceWord(token, stem, negated)


def _content_stem(token: str, names: Collection[str]) -> str:
    """The content stem of a word; empty where it carries nothing or is one of ``names``."""
    found = terms(token, names)
    return found[0] if found and found[0] not in LIGHT else ""
