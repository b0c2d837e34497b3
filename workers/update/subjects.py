"""Tells of whom an English sentence speaks, where that is not its speaker: a relative, a pet, a given name, "he"."""

import re
from collections.abc import Sequence, Set

from eunoe.workers.text.words import GIVEN_NAMES
from eunoe.workers.update.lexicon import KIN

WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*|[.,;:!?]")
"""A word or a mark of a sentence."""
BREAK = frozenset(".,;:!?")
_SUBJECT_END = re.compile(
    r"^(?:is|are|was|were|has|have|had|does|do|did|will|can|could|would|\w+n't|\w+n’t|\w+ed|\w+s)$"
)
_OTHERS = GIVEN_NAMES | {"he", "she"}
"""First words of a sentence about somebody else. Other names are told from words there by a verb of people alone."""
_OF_PEOPLE = re.compile(r"(?:moved|relocated|resides|lived?s?|work(?:s|ed)|quit|retired|married|divorced|graduated)\Z")
"""Verbs of people: a word with a capital right before one that begins a sentence is a name, unless it is of these."""
_NO_NAME = re.compile(
    r"(?:i|we|you|they|it|who|that|this|one|all|both|most|every(?:one|body)|some(?:one|body)|nobody|just|still|now|also|"
    r"never|always|once|ever|then|later|already|soon|not|before|after|\w+ly)\Z"
)
_CALLING = frozenset([",", "named", "called"])
"""What may stand between a relative and the name."""


def bare(token: str) -> str:
    """A word without what an apostrophe adds to it."""
    return token.casefold().replace("’", "'").partition("'")[0]


def other_subject(tokens: Sequence[str], names: Set[str]) -> tuple[str, str]:
    """Somebody else before the first verb of a sentence, and the name of a relative or a pet ("my sister Eva").

    Takes the words and marks of the sentence, and the parts of its speaker's name in lower case. Both are in lower
    case, and empty where there is none.
    """
    first, *after = map(bare, tokens[:3] or [""])
    with_speaker = after[:1] == ["and"] and not {*names, "i"}.isdisjoint(after[1:])
    if first in _OTHERS - names and not with_speaker:
        return first, ""
    if (
        after
        and tokens[0][:1].isupper()
        and _OF_PEOPLE.match(after[0])
        and not (first in names or _NO_NAME.match(first))
    ):
        return first, ""
    for place, token in enumerate(tokens[:6]):
        plain = token.casefold().removesuffix("'s").removesuffix("’s")
        if plain in KIN:
            return plain, "" if plain != token.casefold() else _name_behind(tokens[place + 1 : place + 3], names)
        if place and token[:1].isupper() and plain not in names and token.casefold() not in {"i", "i'm"}:
            return "", ""
        if token in BREAK or (plain not in names and _SUBJECT_END.match(token.casefold()) and place):
            return "", ""
    return "", ""


def _name_behind(tokens: Sequence[str], names: Set[str]) -> str:
    """The name that the words behind a relative begin with; empty if they begin with none."""
    token = next((one for one in tokens if one not in _CALLING), "")
    return bare(token) if token[:1].isupper() and bare(token) not in {*names, "i"} else ""
