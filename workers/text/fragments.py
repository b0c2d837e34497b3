"""Sentences that say nothing alone: elliptical answers, headings, pieces of code. English only."""

import re
from itertools import pairwise

from eunoe.workers.text.verbs import is_base, is_past

_MARKUP = re.compile(r"```|\*\*|^\W*#{1,6} |[{}<>\\|]|=>|==|^\W*[-*] ")
_SUBJECT = re.compile(
    r"\b(?:I|he|she|it|we|they|you|there|who)(?:['’](?:m|s|re|ve|ll|d))?\b|"
    r"\w['’](?:s|re) (?:\w{1,30}ing|\w{1,30}ed|a|an|the|not|so|too|very|really|now|gone|here|down|"
    r"up|over|back|out|in|on)\b",
    re.IGNORECASE,
)
_TRANSITIVE = re.compile(r"\b\w{2,30}s (?:me|my|us|our|you|your|the|an?)\b", re.IGNORECASE)
"""A verb with an object: "warms my heart"."""
_PLURAL = re.compile(r"(?:s|that|people)\Z")
_VERB = re.compile(r"^(?:is|are|am|was|were|be|has|have|had|does|do|did|can|could|will|would|should|might|must|may)$")
_WORD = re.compile(r"\w+(?:['’]\w+)*")
_LEAD = re.compile(
    r"^(?:(?:only|just|mostly|mainly|especially|not|sometimes|twice|once|at|on|in|by|with|without|from|for|until|since|"
    r"near|under|over)\b[^,.;!?]{0,40}), (?:and|but|so) (?=(?:I|we|my|our)\b)",
    re.IGNORECASE,
)


def has_markup(text: str) -> bool:
    """Whether a text has markup or code in it."""
    return _MARKUP.search(text) is not None


def is_fragment(sentence: str) -> bool:
    """Whether a sentence has neither a subject nor a finite verb."""
    if _SUBJECT.search(sentence) or _TRANSITIVE.search(sentence):
        return False
    words = [word.lower().replace("’", "'") for word in _WORD.findall(sentence)]
    return not any(_is_finite(word, before) for before, word in pairwise(["", *words]))


def without_lead(sentence: str) -> str:
    """The sentence without an elliptical answer before it: "Only at night, and I work then" gives "I work then"."""
    found = _LEAD.match(sentence)
    if found is None or not is_fragment(found.group()):
        return sentence
    rest = sentence[found.end() :]
    return rest[:1].upper() + rest[1:]


def _is_finite(word: str, before: str) -> bool:
    if _VERB.match(word) or word.endswith("n't") or is_past(word):
        return True
    if is_base(word):
        return _PLURAL.search(before) is not None
    plain = f"{word[:-3]}y" if word.endswith("ies") else word[:-1]
    return word.endswith("s") and (is_base(plain) or (word.endswith("es") and is_base(word[:-2])))
