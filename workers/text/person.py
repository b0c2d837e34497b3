"""Rewrites a first-person sentence in the third person. English only."""

import re
from collections.abc import Sequence

from eunoe.workers.text.verbs import is_base, is_modal, is_past, third_person, would_or_had

_TOKEN = re.compile(r"[\w$€£%]+(?:['’-]\w+)*|\s+|[^\w\s]")
_UNSAFE = re.compile(
    r"\b(?:you|your|yours|yourself|you['’]\w+|we|we['’]\w+|us|our|ours|ourselves|let['’]s|y'all)\b|"
    # a question, somebody's speech
    r"[?\"“”«»*#]|(?:^|\s)['‘](?!cause|til|em)\w|"
    # an inverted subject
    r"\b(?:am|do|did|have|had|can|could|should|will|would|was|may|might|neither|nor|so (?:do|am|did|have)) I\b",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"\"[^\"]{1,80}\"|“[^“”]{1,80}”")
_OWN = re.compile(r"\b(?:I|me|my|mine|myself|you|your|we|us|our)\b", re.IGNORECASE)
_JOINED = re.compile(r"(?:^|[.,;:!–—-] ?)(?P<before>(?:[\w'’]+ ){1,6})and I (?P<verb>\w+)", re.IGNORECASE)
_BEING = frozenset(["is", "are", "am", "was", "were", "be", "has", "does", "it's", "that's", "i'm", "i've", "there's"])
_ELIDED = re.compile(r"\b(?:and|or|but)(?: \w+ly| then| also| still| just)? (\w+)", re.IGNORECASE)
_ADVERBS = frozenset(
    """
    really just always never also still usually often already finally actually recently totally definitely even once
    only sometimes now then currently mostly mainly nearly almost probably honestly truly absolutely simply rarely
    seldom hardly barely ever first quickly slowly officially kinda
    """.split()  # noqa: SIM905 - a table of words
)
_CONTRACTED = {"'m": "is", "'ve": "has", "'ll": "will"}


def in_third_person(text: str, name: str) -> str | None:
    """``text`` with the first person replaced by ``name``; `None` where that is not safe.

    "I moved" gives "Ann moved"; "my" gives "Ann's" where the name has not come before, else "their".
    """
    if _UNSAFE.search(_QUOTED.sub(_title, text)) or _is_plural(text):
        return None
    tokens = _TOKEN.findall(text.replace("’", "'"))
    return _Rewriting(name, tokens).run()


def _title(quoted: re.Match[str]) -> str:
    """Drop a quoted title; keep a quotation that may be speech, because it has a first or second person."""
    return quoted.group() if _OWN.search(quoted.group()) else ""


def _is_plural(text: str) -> bool:
    """Whether the subject of a verb is the speaker with somebody else ("Tom and I live")."""
    return any(
        not is_past(found["verb"].lower()) and not any(map(_is_verb, found["before"].lower().split()))
        for found in _JOINED.finditer(text)
    )


def _is_verb(word: str) -> bool:
    return is_past(word) or is_base(word) or word in _BEING


class _Rewriting:
    """One pass over the tokens of a statement."""

    def __init__(self, name: str, tokens: Sequence[str]) -> None:
        self._name = name
        self._tokens = list(tokens)
        self._named = False

    def run(self) -> str | None:
        """The rewritten statement; `None` where it has no first person, or a verb is unknown."""
        changed = False
        for place, word in enumerate(self._tokens):
            lower = word.lower()
            if word == "I" or lower.startswith("i'"):
                if not self._subject(place):
                    return None
                changed = True
            elif lower in {"me", "my", "mine", "myself"}:
                self._tokens[place] = self._other(lower)
                self._named = changed = True
        return "".join(self._tokens) if changed else None

    def _other(self, word: str) -> str:
        if word == "myself":
            return "themself"
        if word == "me":
            return self._name
        if word == "my" and self._named:
            return "their"
        return f"{self._name}'s"

    def _subject(self, place: int) -> bool:
        """Replace "I" and adapt its verb; returns whether the verb is known."""
        token = self._tokens[place]
        self._named = True
        verb_place = self._verb_after(place)
        verb = self._tokens[verb_place].lower() if verb_place is not None else ""
        if len(token) > 1:
            ending = token[1:].lower()
            helper = would_or_had(verb) if ending == "'d" else _CONTRACTED.get(ending)
            self._tokens[place] = f"{self._name} {helper}"
            return helper is not None
        self._tokens[place] = self._name
        form = third_person(verb)
        if verb_place is None or form is None:
            return False
        self._tokens[verb_place] = form
        return is_modal(verb) or not self._goes_on(verb_place)

    def _verb_after(self, place: int) -> int | None:
        for ahead in range(place + 1, len(self._tokens)):
            token = self._tokens[ahead].lower()
            if not token.isspace() and token not in _ADVERBS:
                return ahead if token[0].isalpha() else None
        return None

    def _goes_on(self, verb_place: int) -> bool:
        """Whether a second verb depends on the same "I" and would have to agree too."""
        rest = "".join(self._tokens[verb_place + 1 :])
        return any(is_base(found.lower()) for found in _ELIDED.findall(rest))
