"""Finds the words of an English sentence that negate what follows them."""

from collections.abc import Sequence

from eunoe.workers.update.english.lexicon import END_PHRASES, ENDERS, NEGATORS

DENYING = NEGATORS | ENDERS
"""The words that deny or end something."""
_BROKEN = ("don t", "doesn t", "didn t", "isn t", "won t", "can t")
"""Negations without their apostrophe."""
_MERELY = ("not just", "not only", "not merely", "not simply")
_ARTICLES = frozenset(["a", "an", "the"])
_PHRASES = (*_BROKEN, *END_PHRASES)
_BEGINNINGS = DENYING | {phrase.split()[0] for phrase in _PHRASES}
"""The words that a negation begins with, but those on "n't"."""
_GETTING = frozenset(["get", "gets", "getting", "got", "gotten", "be", "being"])
"""Words before "lost" that mean absorbed or astray: nothing ends."""


def may_negate(word: str) -> bool:
    """Whether a word may negate what follows it; `negates` says whether it does."""
    return word in _BEGINNINGS or word.endswith("n't")


def negates(words: Sequence[str], place: int) -> bool:
    """Whether the word at ``place``, which may negate, does so among the others."""
    word = words[place]
    phrase = " ".join(words[place : place + 3])
    before = words[place - 1] if place else ""
    if phrase.startswith(_MERELY) or (word == "no" and before in _ARTICLES) or (word == "lost" and before in _GETTING):
        return False
    return word in DENYING or word.endswith("n't") or phrase.startswith(_PHRASES)
