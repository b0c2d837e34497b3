"""Tells of whom an English sentence speaks, where that is not its speaker: a relative, a pet, a given name, "he"."""

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from itertools import takewhile

from eunoe.workers.text.words import GIVEN_NAMES
from eunoe.workers.update.english.lexicon import KIN

WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*|[.,;:!?]")
"""A word or a mark of a sentence."""
BREAK = frozenset(".,;:!?")
_SUBJECT_END = re.compile(
    r"^(?:is|are|was|were|has|have|had|does|do|did|will|can|could|would|\w+n't|\w+n’t|\w+ed|\w+s)$"
)
_OTHERS = GIVEN_NAMES | {"he", "she", "they", "everyone", "everybody", "somebody", "someone", "nobody"}
"""First words of a sentence about somebody else. Other names are told from words there by a verb of people alone."""
_OF_PEOPLE = re.compile(r"(?:moved|relocated|resides|lived?s?|work(?:s|ed)|quit|retired|married|divorced|graduated)\Z")
"""Verbs of people: a word with a capital right before one that begins a sentence is a name, but for some."""
_STATE_VERB = re.compile(
    r"(?:is|isn['’]t|was|wasn['’]t|has|hasn['’]t|had|does|doesn['’]t|can|can['’]t|cannot|eats|drinks|takes|never)\Z"
)
"""Verbs of a state: what a word right before one names is another subject than the speaker, somebody or something."""
_NO_NAME = frozenset(
    """
    i we you they it who that this one all both most everyone everybody someone somebody nobody just still now also
    never always once ever then later already soon not before after
    """.split()  # noqa: SIM905 - a table of words
)
"""Words that such a verb may follow at the beginning of a sentence, beside those on "ly"."""
_ASIDES = frozenset(
    """
    there here what which where why how today tonight tomorrow yesterday everything something nothing another next last
    im i'm no yes don't won't can't
    """.split()  # noqa: SIM905 - a table of words
)
"""Words that a verb of a state may follow there."""
_OWNERS = frozenset(["his", "her", "their"])
_DETERMINERS = _OWNERS | {"the", "our", "my", "this", "that", "these", "those", "a", "an", "another"}
_NO_SUBJECT = _NO_NAME | _DETERMINERS | _ASIDES
_FORMER = frozenset(["ex", "step", "late", "former"])
"""Words before a relative that make another one of them."""
_CALLING = frozenset([",", "named", "called"])
"""Words that may stand between a relative and the name."""


def bare(token: str) -> str:
    """A word without what an apostrophe adds to it."""
    return token.casefold().replace("’", "'").partition("'")[0]


@dataclass(frozen=True, slots=True)
class Subject:
    """Of whom a sentence speaks."""

    other: str = ""
    """Somebody else than the speaker, in lower case: a relative, a pet, a given name or "he"; empty for the speaker."""
    name: str = ""
    """The name of a relative or a pet ("my sister Eva"), in lower case; empty where there is none."""
    is_thing: bool = False
    """Whether it is something of theirs, or of nobody: "the office", "our house", "Ann's car", "my son's school"."""


def read_subject(tokens: Sequence[str], names: Set[str]) -> Subject:
    """The subject before the first verb of a sentence.

    Takes the words and marks of the sentence, and the parts of its speaker's name in lower case.
    """
    first, *after = map(bare, tokens[:3] or [""])
    with_speaker = after[:1] == ["and"] and not {*names, "i"}.isdisjoint(after[1:])
    if first in _OTHERS - names and not with_speaker:
        return Subject(first)
    if first not in names and _begins_with_name(tokens):
        return Subject(first)
    own = list(takewhile(lambda token: bare(token) in names, tokens))
    is_thing = first in _DETERMINERS or (bool(own) and bare(own[-1]) != own[-1].casefold())
    for place, token in enumerate(tokens[:6]):
        plain = token.casefold().removesuffix("'s").removesuffix("’s")
        if plain in KIN:
            return _relative(tokens[max(0, place - 1) : place + 4], plain, names, at=min(place, 1))
        if place and token[:1].isupper() and plain not in names and token.casefold() not in {"i", "i'm"}:
            break
        if token in BREAK or (plain not in names and _SUBJECT_END.match(token.casefold()) and place):
            break
    return Subject(first if first in _OWNERS else "", is_thing=is_thing)


def _begins_with_name(tokens: Sequence[str]) -> bool:
    """Whether a sentence begins with a word with a capital and a verb of people or of a state."""
    first, verb = (*map(bare, tokens[:2]), "", "")[:2]
    if not tokens or not tokens[0][:1].isupper() or first in _NO_SUBJECT or first.endswith("ly"):
        return False
    spelled = tokens[1].casefold() if len(tokens) > 1 else ""
    return _OF_PEOPLE.match(verb) is not None or _STATE_VERB.match(spelled) is not None


def _relative(tokens: Sequence[str], kin: str, names: Set[str], at: int) -> Subject:
    """The subject with a relative in place ``at`` of its words: "my ex-wife", "my mother-in-law", "my son's school"."""
    before, behind = "".join(map(bare, tokens[:at])), [one.casefold() for one in tokens[at + 1 :]]
    if before in _FORMER:
        kin = f"{before} {kin}"
    if behind[:2] == ["in", "law"]:
        return Subject(f"{kin} in law", _name_behind(tokens[at + 3 :], names))
    if bare(tokens[at]) == tokens[at].casefold():
        return Subject(kin, _name_behind(tokens[at + 1 : at + 3], names))
    return Subject(f"{kin}'s {behind[0]}") if behind[:1] and behind[0] in KIN else Subject(kin, is_thing=True)


def _name_behind(tokens: Sequence[str], names: Set[str]) -> str:
    """The name that the words behind a relative begin with; empty if they begin with none."""
    token = next((one for one in tokens if one not in _CALLING), "")
    return bare(token) if token[:1].isupper() and bare(token) not in {*names, "i"} else ""
