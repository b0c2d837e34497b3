"""Splits a line into statements: sentences joined with those that refer back to them, without interjections."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from eunoe.schemas.events import Line
from eunoe.workers.text.bounds import MAX_SENTENCES, without_middle
from eunoe.workers.text.brackets import without_brackets
from eunoe.workers.text.caches import cached_by_length, total_chars
from eunoe.workers.text.drafts import MAX_TEXT_CHARS
from eunoe.workers.text.language import is_english
from eunoe.workers.text.lasting import asks_to_remember, is_lasting
from eunoe.workers.text.salience import (
    FOREIGN_THRESHOLD,
    THRESHOLD,
    foreign_salience,
    is_change,
    is_question,
    refers_back,
    salience,
)
from eunoe.workers.text.terms import STOPWORDS
from eunoe.workers.text.vital import is_vital, leans_back, tells_treatment

_SENTENCE = re.compile(
    # a run of marks before a space or a quotation mark; a long run wherever it stands; a mark inside a word
    r"[^.!?…。！？]*(?:[.!?…]{1,64}(?=\s|[\"'”’)]|$)|[.!?…]{65,}|[.!?…](?=\S)|[。！？]+|$)[\"”)]*"
)
_ABBREVIATED = re.compile(r"(?:\b(?:Mr|Mrs|Ms|Dr|St|Prof|vs|etc|e\.g|i\.e|a\.m|p\.m|No)|\b[A-Z])\.$")
_ABBREVIATED_CHARS = 8
"""More characters than an abbreviation has."""
_INTERJECTION = re.compile(
    r"^(?:(?:oh|wow|yeah|yep|yes|yup|no|nope|well|hey|hi|hello|ha|haha|actually|anyway|ok|okay|sure|so|hmm|aw|man|"
    r"luckily|honestly|(?:it )?turn(?:s|ed) out(?: that)?|by the way|btw|thanks|thank you|good|true|right|and|"
    r"but|plus|also|because|definitely|absolutely|"
    r"speaking of which)\b[,:;!.\s–—-]+)+",
    re.IGNORECASE,
)
_IRONY = re.compile(
    r"^\W*(?:oh,? (?:sure|yeah,? sure|of course)|yeah,? (?:right|sure)|(?:sure|right),? because|as if)\b.{0,60}"
    r"\b(?:love|adore|enjoy|like|thrilled|delighted|happy|can['’]t wait|dream|favou?rite)\b",
    re.IGNORECASE,
)
"""An opening that is seldom meant, before praise: "Oh sure, I love being shouted at"."""
_MOST_SENTENCES = 3
_SHORT_WORDS = 6
_MOST_ADDRESSED = 32
_LEAST_COMMON = 0.15
_ORDINAL = re.compile(
    r"(?<!\S)\d{1,2}\. {1,2}"
    r"(?:Januar|Jänner|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember|(?:Jan|Feb|Apr|Aug|Sept?|Okt|Nov|Dez)\.)"
)
"""A day of a month in German, whose mark ends no sentence: "am 14. März"."""
_ORDINAL_CHARS = 3
_MONTH_CHARS = 12
_ASIDE = re.compile(r",? (?:but|so|and) (?:please )?(?:do not|don['’]t) (?:tell|ask|worry|laugh|judge)\b[^.!?]*")
_SPELLED = {
    "i": "I", "i'm": "I'm", "i've": "I've", "i'll": "I'll", "i'd": "I'd", "im": "I'm", "ive": "I've", "dont": "don't",
    "doesnt": "doesn't", "didnt": "didn't", "cant": "can't", "isnt": "isn't", "arent": "aren't", "wasnt": "wasn't",
    "havent": "haven't", "hasnt": "hasn't", "couldnt": "couldn't",
}  # fmt: skip
"""Words as people write them in haste → as they are spelled."""
_HASTY = re.compile(
    r"(?<![\w.'’*/-])(?:i['’](?:m|ve|ll|d)|i(?![.'’*/)-]|\w)|[Ii]m(?= [a-z0-9])|[Ii]ve(?= )|"
    r"(?:do|does|did|is|are|was|have|has|could|ca)nt(?=\W|\Z))"
)
_INTRODUCTION = re.compile(
    r"(?:I(?:['’]m| am)|my name(?:['’]s| is)|this is)(?: called)? (?P<name>[^\s,.;:!?]{1,40}(?: [^\s,.;:!?]{1,40})?)"
    r"(?:,| –| -|;| and)(?: and| but)? (?=(?:I|I['’]\w{1,2}|my|we|we['’]\w{1,2}|our)\b)",
    re.IGNORECASE,
)
_AND_I = re.compile(r",? and (?=I(?:['’]m|['’]ve)?\b)")
_MEANT = re.compile(r"I mean(?:t| (?!it\b|that\b|what\b|well\b|business\b)\S)", re.IGNORECASE)
"""The beginning of a sentence that takes back what the one before it says: "I mean Schmidt"."""
_BEFORE = re.compile(
    r"\b(?:there|it|its|they|them|their|this|that|these|those|then|he|him|his|she|her)\b", re.IGNORECASE
)
"""Words for what was said before: a clause with one cannot stand alone."""
_WORD = re.compile(r"\w+(?:['’]\w+)*")


@dataclass(frozen=True, slots=True)
class Statement:
    """One or a few sentences of a line that say one thing."""

    number: int
    """The index of the line in the session, from 0."""
    line: Line
    text: str
    salience: float
    """Salience above the threshold; 0 and more is worth remembering."""
    is_change: bool
    english: bool
    is_vital: bool = False
    """Whether it states a fact of somebody's health, diet, birth or death."""
    is_lasting: bool = False
    """Whether it states what holds of its speaker until another is told, or is to be remembered."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Sentences that belong together."""

    text: str
    salience: float
    is_change: bool
    is_vital: bool
    is_lasting: bool


def statements_in(lines: Sequence[Line]) -> list[Statement]:
    """The statements of the lines that are evidence, in order; replies from memory state nothing."""
    evidence = [(number, line) for number, line in enumerate(lines) if line.is_evidence]
    speakers = sorted({line.speaker for line in lines})
    english = is_english([line.text for _, line in evidence])
    return [statement for number, line in evidence for statement in statements_of(number, line, speakers, english)]


def statements_of(number: int, line: Line, speakers: Collection[str], english: bool) -> list[Statement]:
    """The statements of one line. ``english``: whether the session is English; a single line may differ."""
    groups, speaks_english = _groups_of(line.text, tuple(speakers), english)
    return [
        Statement(
            number,
            line,
            group.text,
            group.salience,
            is_change=group.is_change,
            english=speaks_english,
            is_vital=group.is_vital,
            is_lasting=group.is_lasting,
        )
        for group in groups
    ]


@cached_by_length(
    "statements", lambda text, speakers, english: len(text) + total_chars(speakers), 8, (400, 128), (70_000, 2)
)
def _groups_of(text: str, speakers: tuple[str, ...], english: bool) -> tuple[tuple[_Group, ...], bool]:
    """The statements of a text, and whether it is English. Cached: two stages read a text at about the same time."""
    bare = " ".join(without_brackets(text).split())
    words = _WORD.findall(bare)
    speaks_english = english and (len(words) < _SHORT_WORDS or _common(words) >= _LEAST_COMMON * len(words))
    groups = _groups(_sentences(bare, speakers, speaks_english))
    return tuple(_group(sentences, speakers, speaks_english) for sentences in groups), speaks_english


def _common(words: list[str]) -> int:
    return sum(word.lower().replace("’", "'") in STOPWORDS for word in words)


def _group(sentences: list[str], speakers: Collection[str], english: bool) -> _Group:
    clear = english and not refers_back(sentences[0])
    change = clear and any(is_change(sentence) for sentence in sentences)
    vital = (clear or (english and tells_treatment(sentences[0]))) and any(map(is_vital, sentences))
    lasting = clear and any(is_lasting(sentence) for sentence in sentences)
    return _Group(" ".join(sentences), _score(sentences, speakers, english), change, vital, lasting)


def _score(group: list[str], speakers: Collection[str], english: bool) -> float:
    if english:
        return max(salience(sentence, speakers) for sentence in group) - THRESHOLD
    return max(foreign_salience(sentence, speakers) for sentence in group) - FOREIGN_THRESHOLD


def _sentences(text: str, speakers: Collection[str], english: bool) -> list[str]:
    pieces = (without_middle(text[start:end]) for start, end in islice(sentence_spans(text), MAX_SENTENCES))
    if not english:
        return [piece for piece in pieces if piece]
    bare = (_bare(piece, speakers) for piece in pieces)
    return [clause for sentence in bare if sentence for clause in _facts_of(sentence)]


def _facts_of(sentence: str) -> list[str]:
    """The clauses of a sentence, each a sentence, where all state lasting facts: one may change without the others."""
    clauses = _AND_I.split(sentence)
    if len(clauses) == 1 or any(map(_BEFORE.search, clauses[1:])) or not all(map(is_lasting, clauses)):
        return [sentence]
    return [*(f"{clause}." for clause in clauses[:-1]), clauses[-1]]


def sentence_spans(text: str) -> Iterator[tuple[int, int]]:
    """(start, end) of each sentence of a text without line breaks."""
    start = end = 0
    for found in _SENTENCE.finditer(text):
        written = found.group()
        piece = written.strip()
        first = found.end() - len(written.lstrip())
        if piece and start < end and not _goes_on(text, start, end, first):
            yield start, end
            start = first
        if piece:
            end = first + len(piece)
    if start < end:
        yield start, end


def _goes_on(text: str, start: int, end: int, first: int) -> bool:
    """Whether the sentence from ``start`` to ``end`` goes on at ``first``: the mark was that of an abbreviation or
    stands inside a word or a number.
    """
    if end == first and text[end - 1] in ".!?…" and text[first].isalnum():
        return True
    if _ABBREVIATED.search(text[max(start, end - _ABBREVIATED_CHARS) : end]):
        return True
    return _ORDINAL.search(text[max(start, end - _ORDINAL_CHARS - 1) : first + _MONTH_CHARS]) is not None


def _bare(sentence: str, speakers: Collection[str]) -> str:
    """The sentence without interjections and without the name of the person addressed."""
    if not _WORD.search(sentence) or _IRONY.search(sentence):
        return ""
    bare = _ASIDE.sub("", _INTERJECTION.sub("", _without_address(sentence, speakers))).strip()
    bare = _INTERJECTION.sub("", _without_address(bare, speakers)).strip()
    bare = _spelled(_without_introduction(bare, speakers))
    return bare[:1].upper() + bare[1:] if _WORD.search(bare) else ""


def _spelled(sentence: str) -> str:
    """The sentence with a capital I and with apostrophes: "i dont" is "I don't"."""
    return _HASTY.sub(lambda found: _SPELLED.get(found.group().lower().replace("’", "'"), found.group()), sentence)


def _without_introduction(sentence: str, speakers: Collection[str]) -> str:
    """The sentence without a known name of its speaker at the beginning: "I'm Ann, I teach" gives "I teach"."""
    found = _INTRODUCTION.match(sentence)
    names = {form.casefold() for speaker in speakers for form in (speaker, *speaker.split())}
    return sentence[found.end() :] if found is not None and found["name"].casefold() in names else sentence


def _without_address(sentence: str, speakers: Collection[str]) -> str:
    bare = sentence
    for pattern, instead in _addresses(tuple(speakers)):
        bare = pattern.sub(instead, bare)
    return bare


@cached_by_length("names", total_chars, 60, (500, 32), (20_000, 2))
def _addresses(speakers: tuple[str, ...]) -> tuple[tuple[re.Pattern[str], str], ...]:
    """Pairs of a pattern that finds an address by name and its replacement; the first 32 names are looked for."""
    forms = {re.escape(form) for name in speakers[:_MOST_ADDRESSED] for form in _forms(name)}
    names = "|".join(sorted(forms, key=len, reverse=True))
    if not names:
        return ()
    return (
        (re.compile(rf"^(?:{names})\s*[,!:.]+\s*"), ""),
        (re.compile(rf",\s*(?:{names})(?=\s*[.!?…]|\s*$)"), ""),
        (re.compile(rf",\s*(?:{names})\s*,"), ","),
    )


def _forms(name: str) -> list[str]:
    """The name, its first word, and that word cut to three and four letters."""
    first = name.split(maxsplit=1)[0]
    return [name, first, *(first[:length] for length in (3, 4) if len(first) > length + 1)]


def _groups(sentences: list[str]) -> list[list[str]]:
    """Each sentence with those after it that refer back to it; questions are dropped, but for requests to remember."""
    groups: list[list[str]] = []
    open_group = False
    for sentence in sentences:
        if is_question(sentence) and not asks_to_remember(sentence):
            open_group = False
        elif open_group and _leans(sentence) and _has_room(groups[-1], sentence):
            groups[-1].append(sentence)
        else:
            groups.append([sentence])
            open_group = True
    return groups


def _leans(sentence: str) -> bool:
    return refers_back(sentence) or leans_back(sentence) or _MEANT.match(sentence) is not None


def _has_room(group: list[str], sentence: str) -> bool:
    return len(group) < _MOST_SENTENCES and sum(map(len, group)) + len(sentence) < MAX_TEXT_CHARS * 3 // 4
