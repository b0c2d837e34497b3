"""Splits a line into statements: sentences joined with those that refer back to them, without interjections."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

from eunoe.schemas.events import Line
from eunoe.workers.text.bounds import MAX_SENTENCES, without_middle
from eunoe.workers.text.brackets import without_brackets
from eunoe.workers.text.caches import cached_by_length, total_chars
from eunoe.workers.text.corrections import corrects_within
from eunoe.workers.text.drafts import MAX_TEXT_CHARS
from eunoe.workers.text.interjections import is_ironic, without_asides, without_interjections
from eunoe.workers.text.language import is_english
from eunoe.workers.text.lasting import asks_to_remember, is_lasting, wants_remembered
from eunoe.workers.text.salience import (
    FOREIGN_THRESHOLD,
    THRESHOLD,
    foreign_salience,
    is_change,
    is_question,
    refers_back,
    salience,
)
from eunoe.workers.text.sentences import sentence_spans
from eunoe.workers.text.spelling import spelled
from eunoe.workers.text.supposed import takes_back, told_as_true
from eunoe.workers.text.terms import STOPWORDS
from eunoe.workers.text.vital import is_vital, leans_back, tells_treatment

_MOST_SENTENCES = 3
_SHORT_WORDS = 6
_MOST_ADDRESSED = 32
_LEAST_COMMON = 0.15
_INTRODUCTION = re.compile(
    r"(?:I(?:['’]m| am)|my name(?:['’]s| is)|this is)(?: called)? "
    r"(?P<name>[^\s,.;:!?]{1,40}(?: (?!(?:and|but|i)\b)[^\s,.;:!?]{1,40})?)"
    r"(?P<age>, \d{1,2}(?=[,;]| and))?"
    r"(?:,| –| -|;| and)?(?: and| but)? (?=(?:I|I['’]\w{1,2}|my|we|we['’]\w{1,2}|our)\b)",
    re.IGNORECASE,
)
_AND_I = re.compile(r"(?:,|,? (?:and|but)) (?=I(?:['’]m|['’]ve)?\b)")
_MEANT = re.compile(r"I mean(?:t| (?!it\b|that\b|what\b|well\b|business\b)\S)", re.IGNORECASE)
"""The beginning of a sentence that takes back what the one before it says: "I mean Schmidt"."""
_DONE_WITH_IT = re.compile(
    r"\W{0,3}(?:(?:but|and|then|later|luckily|so),? ){0,2}(?:I|we)(?:['’]ve| have)? (?:\w{1,20} ){0,2}?"
    r"(?:found|sold|lost|returned|cancell?ed|quit|fixed|repaired|gave) (?:it|them)\b",
    re.IGNORECASE,
)
"""The beginning of a sentence that tells what became of the thing before it: "I found it again"."""
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
    evidence = _meant([(number, line) for number, line in enumerate(lines) if line.is_evidence])
    speakers = sorted({line.speaker for line in lines})
    english = is_english([line.text for _, line in evidence])
    return [statement for number, line in evidence for statement in statements_of(number, line, speakers, english)]


def _meant(lines: Sequence[tuple[int, Line]]) -> list[tuple[int, Line]]:
    """The numbered lines without those that their speakers take back as a joke with their next line."""
    joked: set[int] = set()
    last: dict[str, int] = {}  # speaker → number of their last line
    for number, line in lines:
        if line.speaker in last and takes_back(line.text):
            joked.add(last[line.speaker])
        last[line.speaker] = number
    return [(number, line) for number, line in lines if number not in joked]


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
    told = [sentence for sentence in sentences if not (english and wants_remembered(sentence))]
    is_asked = 0 < len(told) < len(sentences)
    lasting = clear and (is_asked or any(map(is_lasting, sentences)))
    score = _score(sentences, speakers, english)
    return _Group(" ".join(told or sentences), max(score, 0.0) if is_asked else score, change, vital, lasting)


def _score(group: list[str], speakers: Collection[str], english: bool) -> float:
    if english:
        return max(salience(sentence, speakers) for sentence in group) - THRESHOLD
    return max(foreign_salience(sentence, speakers) for sentence in group) - FOREIGN_THRESHOLD


def _sentences(text: str, speakers: Collection[str], english: bool) -> list[str]:
    pieces = (without_middle(text[start:end]) for start, end in islice(sentence_spans(text), MAX_SENTENCES))
    if not english:
        return [piece for piece in pieces if piece]
    told = told_as_true(list(pieces))
    bare = (_bare(piece, before, speakers) for before, piece in pairwise(["", *told]))
    return [clause for sentence in bare if sentence for clause in _facts_of(sentence)]


def _facts_of(sentence: str) -> list[str]:
    """The clauses of a sentence, each a sentence, where all state lasting or vital facts: one may change alone."""
    clauses = _AND_I.split(sentence)
    if len(clauses) == 1 or any(map(_BEFORE.search, clauses[1:])) or not all(map(_states_fact, clauses)):
        return [sentence]
    return [*(f"{clause}." for clause in clauses[:-1]), clauses[-1]]


def _states_fact(clause: str) -> bool:
    return is_lasting(clause) or is_vital(clause)


def _bare(sentence: str, before: str, speakers: Collection[str]) -> str:
    """The sentence without interjections and without the name of the person addressed.

    One that takes back the sentence ``before`` it stays: its "no" says so.
    """
    if not _WORD.search(sentence) or is_ironic(sentence):
        return ""
    if corrects_within(sentence, before):
        return sentence
    bare = without_asides(without_interjections(_without_address(sentence, speakers))).strip()
    bare = without_interjections(_without_address(bare, speakers)).strip()
    bare = _without_introduction(spelled(bare), speakers)
    return bare[:1].upper() + bare[1:] if _WORD.search(bare) else ""


def _without_introduction(sentence: str, speakers: Collection[str]) -> str:
    """The sentence without a known name of its speaker at the beginning: "I'm Ann, I teach" gives "I teach".

    An age behind the name stays: "I'm Ann, 34, I teach" gives "I'm 34, I teach".
    """
    found = _INTRODUCTION.match(sentence)
    names = {form.casefold() for speaker in speakers for form in (speaker, *speaker.split())}
    if found is None or found["name"].casefold() not in names:
        return sentence
    age = f"I'm {found['age'].lstrip(', ')}, " if found["age"] else ""
    return f"{age}{sentence[found.end() :]}"


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
        elif open_group and _leans(sentence, groups[-1][-1]) and _has_room(groups[-1], sentence):
            groups[-1].append(sentence)
        else:
            groups.append([sentence])
            open_group = True
    return groups


def _leans(sentence: str, before: str) -> bool:
    if refers_back(sentence) or leans_back(sentence) or wants_remembered(sentence):
        return True
    return any(one.match(sentence) for one in (_MEANT, _DONE_WITH_IT)) or corrects_within(sentence, before)


def _has_room(group: list[str], sentence: str) -> bool:
    return len(group) < _MOST_SENTENCES and sum(map(len, group)) + len(sentence) < MAX_TEXT_CHARS * 3 // 4
