"""The kind of a memory by rules: a state, an event, a preference or a plan. Hand-written tables for English.

A sentence in another language is a state.
"""

import re
from collections.abc import Sequence
from itertools import islice

from eunoe.schemas.memory import MemoryKind
from eunoe.workers.text.bounds import without_middle
from eunoe.workers.text.guarded import GuardedPattern
from eunoe.workers.text.salience import is_change
from eunoe.workers.text.sentences import sentence_spans
from eunoe.workers.text.verbs import is_base, is_past, third_person
from eunoe.workers.text.vital import is_vital
from eunoe.workers.text.words import NUMBER_WORDS

_ADVERB = r"(?:(?:really|still|also|now|just|always|only|absolutely|definitely|probably|soon) ){0,2}"
_BE = r"(?:am|is|are|['’](?:m|s|re)|was just|been)"
_MONTH = r"(?:January|February|March|April|May|June|July|August|September|October|November|December)"
_PLAN = GuardedPattern(
    rf"\b(?:plans? (?:to|on)|intends? to|hopes? to|(?<!n['’]t )(?<! not )wants? to|aims? to|means? to|"
    rf"(?:would|['’]d) (?:really )?(?:like|love) to|looking forward to|"
    rf"(?:will|['’]ll|shall|won['’]t) (?!always\b|never\b)\w+)\b|"
    rf"(?:\b|(?=['’])){_BE} {_ADVERB}(?:planning|intending|hoping|thinking (?:of|about)|going to (?!the\b|an?\b|my\b|"
    rf"his\b|her\b|their\b|our\b|bed\b|work\b|school\b|church\b)[a-z]+|about to|saving (?:up )?for|aiming|"
    rf"(?:flying|leaving|travell?ing|moving|visiting|meeting|starting|going)\b[^.!?]{{0,60}}?\b(?:tomorrow|tonight|"
    rf"next (?:week|weekend|month|year|summer|spring|autumn|fall|winter)|"
    rf"in (?:a few|two|three|\d+) (?:days|weeks|months)|"
    rf"(?:on|this|next) (?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day)|"
    # what is being done on a day that is named is over after it
    rf"(?!(?:noth|someth|anyth|everyth|amaz|interest|excit)ing\b)\w{{2,30}}ing\b[^.!?]{{0,60}}?\b(?:tomorrow|tonight|"
    rf"this (?:evening|afternoon|weekend)|on (?:the )?\d{{1,2}}(?:st|nd|rd|th)? (?:of )?{_MONTH}|"
    rf"on {_MONTH} \d{{1,2}}(?:st|nd|rd|th)?))\b|"
    # what goes on is no plan: "I have been moving boxes in May"
    rf"(?:\b(?:am|is|are)|['’](?:m|s|re)) {_ADVERB}(?:flying|leaving|travell?ing|moving|getting married)\b"
    rf"[^.!?]{{0,60}}?\bin (?-i:{_MONTH})\b",
    re.IGNORECASE,
)
_PREFERENCE = GuardedPattern(
    rf"\b(?:loves|likes|enjoys|prefers|hates|dislikes|adores|detests|can['’]t stand|cannot stand|"
    rf"(?:I|we|they|you|don['’]t|doesn['’]t|do not|does not|and|both|also|really|who) {_ADVERB}"
    rf"(?:love|like|enjoy|prefer|hate|dislike|adore|detest)|"
    rf"favou?rites?|(?:big|huge|great) fan of|fond of|keen on|would rather|['’]d rather)\b|"
    rf"(?:\b|(?=['’])){_BE} {_ADVERB}into\b",
    re.IGNORECASE,
)
_LASTING = re.compile(r"\b(?:has|have|['’]ve|['’]s) been \w+ing\b|\b(?:for|since)\b", re.IGNORECASE)
_SUBORDINATE = re.compile(r"^\W{0,3}(?:since|after|when|before|while|once|as)\b[^,.!?]{1,80}, ", re.IGNORECASE)
_PRESENT = frozenset(
    "am is are isn't aren't has have hasn't haven't do does don't doesn't can can't cannot must may might".split()  # noqa: SIM905
)
_PERFECT = frozenset(["has", "have", "hasn't", "haven't"])
_WAS = frozenset(["was", "were", "wasn't", "weren't", "had", "hadn't", "did", "didn't", "used", "couldn't"])
_BEFORE_MONTH = frozenset("in of since last next this by until from every early late".split())  # noqa: SIM905
_DETERMINERS = frozenset("a an the my our your his her their its no some any many few several another both".split())  # noqa: SIM905
_NO_PARTICIPLES = frozenset("children kitten chicken garden men women kid red bed none one".split())  # noqa: SIM905
"""Words that end as participles do."""
_NOT_PAST = frozenset(["indeed", "hundred", "exceed", "succeed", "proceed", "naked", "sacred", "wicked"])
_MOST_SENTENCES = 4
"""Sentences in which a vital fact is looked for."""
_WORD = re.compile(r"\w+(?:['’]\w+)*")
_SAID = re.compile(r'^[^"]{1,100} said: "(?P<words>.*)"$', re.DOTALL)


def kind_of(text: str) -> MemoryKind:
    """The kind of a text, in the first or the third person; of a quotation, that of the words.

    It is that of the first sentence with a vital fact, else of the first sentence.
    A beginning or an end of a state is a state; what is told in the past otherwise, an event.
    """
    quoted = _SAID.match(text)
    words = " ".join((quoted["words"] if quoted else text).split())
    said = _sentence_that_tells(words)
    past = is_told_in_past(said)
    if _tells(_PLAN, said, past):
        return MemoryKind.PLAN
    if _tells(_PREFERENCE, said, past):
        return MemoryKind.PREFERENCE
    return MemoryKind.EVENT if past and not is_change(said) else MemoryKind.STATE


def _sentence_that_tells(words: str) -> str:
    sentences = [without_middle(words[start:end]) for start, end in islice(sentence_spans(words), _MOST_SENTENCES)]
    return next(filter(is_vital, sentences), sentences[0] if sentences else without_middle(words))


def _tells(pattern: GuardedPattern, said: str, past: bool) -> bool:
    """Whether a pattern is found, and before the verb of what is told in the past."""
    found = pattern.search(said)
    return found is not None and not (past and is_told_in_past(said[: found.start()]))


def is_told_in_past(text: str) -> bool:
    """Whether the first finite verb that is known is a past one, or a perfect of what does not go on."""
    words = [word.lower().replace("’", "'") for word in _WORD.findall(_SUBORDINATE.sub("", text))]
    for place, word in enumerate(words):
        if word in _PERFECT:
            return _is_participle(words[place + 1 : place + 3]) and not _LASTING.search(text)
        if word == "may" and _is_month(words, place):
            continue
        if word in _PRESENT or word.endswith(("'m", "'re", "'ll", "'ve")) or (place and _is_third_person(word)):
            return False
        if is_past_form(word):
            return True
        if place and words[place - 1] in ("i", "we", "they", "you") and is_base(word):
            return False
    return False


def _is_month(words: Sequence[str], place: int) -> bool:
    """Whether the word at a place, "may", is the month."""
    before, after = words[place - 1] if place else "", words[place + 1] if place + 1 < len(words) else ""
    return before in _BEFORE_MONTH or before[:1].isdecimal() or after[:1].isdecimal()


def is_past_form(word: str) -> bool:
    """Whether a lower-case word is a verb in the past; modal ones are not."""
    if word in _WAS:
        return True
    return is_past(word) and third_person(word) == word and word not in _NOT_PAST and not word.endswith(_MODAL)


_MODAL = ("will", "can", "could", "would", "should", "might", "must", "may", "won't", "wouldn't", "can't", "couldn't",
          "shouldn't", "cannot", "mustn't")  # fmt: skip


def _is_participle(following: Sequence[str]) -> bool:
    """Whether the words behind "has" make it a perfect: "has just moved", not "has three children"."""
    for word in following:
        if word in _DETERMINERS or word in NUMBER_WORDS or word[:1].isdecimal():
            return False
        if word.endswith(("ed", "en", "ne", "id", "ht", "ung", "ade")) and word not in _NO_PARTICIPLES:
            return True
    return False


def _is_third_person(word: str) -> bool:
    return any(word == third_person(plain) for plain in (word[:-1], word[:-2], f"{word[:-3]}y") if is_base(plain))
