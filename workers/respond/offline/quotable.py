"""A question with the rows that may be quoted, and what each row has of the question."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from eunoe.schemas.replies import Source
from eunoe.workers.respond.context import Row
from eunoe.workers.respond.hints import QuestionHints
from eunoe.workers.respond.offline.akin import akin, kindred
from eunoe.workers.respond.offline.beside import Floats, answered, replied
from eunoe.workers.respond.offline.kin_names import kin_named, own_kin_asked
from eunoe.workers.respond.offline.others import (
    in_first_person,
    tells_age_of,
    tells_in_general,
    tells_of_another,
    tells_of_others,
    tells_of_self,
    third_asked,
)
from eunoe.workers.respond.offline.told import told_of_speaker, told_truly
from eunoe.workers.respond.offline.whose import (
    asks_age,
    asks_of_self,
    asks_work,
    is_state_over,
    named_thing,
    naming,
    people_asked,
    states_asked,
    subjects_asked,
    without_moved_things,
    without_name_words,
)
from eunoe.workers.text.brackets import without_brackets
from eunoe.workers.text.lasting import tells_occupation
from eunoe.workers.text.spelling import spelled
from eunoe.workers.text.terms import idf, terms

_SENTENCE = re.compile(r"[^.!?]+\??")
"""A sentence, with its mark if it is a question; a pattern that demands the mark takes quadratic time without one."""
_SPEECH = re.compile(r"\"[^\"]{1,300}\"|“[^“”]{1,300}”")
_SELF = re.compile(r"\b(?:I|my|me|myself|we|our)\b")
_YOU = re.compile(r"\byou(?:r|rs|rself)?\b", re.IGNORECASE)
AKIN = 0.9
"""Share of a word that a row is given for another word of its subject, or for another form of its verb."""


@dataclass(frozen=True)
class Quotable:
    """A question with the rows that may be quoted."""

    question: str
    hints: QuestionHints
    speakers: Sequence[str]
    rows: Sequence[Row]
    cosines: Floats
    """Shape (n,)."""
    sources: Sequence[Source]
    talker: str = ""
    """The one who replies, whose lines are no evidence of others; empty if unknown."""
    for_replies: bool = False
    """Whether the question asks for what one participant said to the others: that is about what they said before."""

    @cached_property
    def texts(self) -> list[str]:
        """The rows' texts without descriptions in brackets, those of utterances without the speech of others.

        Where it is asked what holds of a participant, what their lines only play, hand over or joke is left out, too;
        where the asker asks of themself, also what they only ask.
        """
        bare = [without_brackets(row.text) or row.text for row in self.rows]
        spoken = [text if row.is_memory else self._said(row, text) for row, text in zip(self.rows, bare, strict=True)]
        if not self._asks_what_holds:
            return spoken
        return [
            text if row.is_memory or row.speaker not in self.hints.speakers else self._true_of(row.speaker, text)
            for row, text in zip(self.rows, spoken, strict=True)
        ]

    def _said(self, row: Row, text: str) -> str:
        """The words of a line that are its speaker's own; of a reply from memory only what it asks."""
        if row.reply_id is not None and not self.for_replies:
            return " ".join(one for one in _SENTENCE.findall(text) if one.endswith("?"))
        return _SPEECH.sub(_without_speech, text) or text

    @cached_property
    def words(self) -> list[frozenset[str]]:
        """The terms of each of the texts; names of speakers are none."""
        return self._words_of(self.texts)

    def _words_of(self, texts: Sequence[str]) -> list[frozenset[str]]:
        return [frozenset(terms(text, drop=self.speakers)) for text in texts]

    @property
    def _asks_what_holds(self) -> bool:
        return bool(self.hints.speakers) and (self.hints.of_present or self.hints.whether)

    def _true_of(self, speaker: str, text: str) -> str:
        """The sentences of a line that are told as true; of the asker, who may have asked before, no question."""
        return told_of_speaker(text) if speaker == self.hints.asker and self.hints.is_own else told_truly(text)

    @property
    def is_whether_of_self(self) -> bool:
        """Whether the asker asks if something is so of themself: "Am I pregnant?"."""
        return self.hints.whether and bool(self.hints.asker) and asks_of_self(self.question)

    def has_enough(self, least: float) -> NDArray[np.bool_]:
        """For each row whether it has so much of the question: of whether something is so, more than nearness."""
        enough: NDArray[np.bool_] = self.known >= least
        return enough & (self.known > self.cosines) if self.is_whether_of_self else enough

    @cached_property
    def shares(self) -> Floats:
        """For each row the share of the question's words that it has, weighed by rarity; from 0 to 1."""
        return self._shares_of(self.texts)

    @cached_property
    def is_talk(self) -> NDArray[np.bool_]:
        """For each row whether the one who replies said it; false where the question asks for that."""
        found = [row.speaker == self.talker and not self.for_replies for row in self.rows]
        return np.asarray(found, dtype=np.bool_)

    @cached_property
    def tells_all(self) -> NDArray[np.bool_]:
        """For each row whether one of its sentences tells something with all of the question's words."""
        return np.asarray(
            [
                any(
                    all(self._has(words, term) for term in self._weights)
                    for words in (frozenset(terms(one)) for one in _SENTENCE.findall(text) if not one.endswith("?"))
                )
                for text in self.texts
            ],
            dtype=np.bool_,
        )

    @cached_property
    def known(self) -> Floats:
        """For each row what it has of the question, its share plus its cosine.

        An answer has as much as what another speaker asked the one who answers; what is said beside it does not count.
        A reply has as much as what it replies to.
        """
        own: Floats = self.shares + self.cosines * flags(map(bool, self.texts))
        own *= flags(self.for_replies or row.reply_id is None for row in self.rows)
        if self.for_replies:
            return np.maximum(own, replied(self.rows, own))
        asked = [" ".join(filter(_is_asked, _SENTENCE.findall(text))) for text in self.texts]
        put = flags(map(bool, asked)) * (self._shares_of(asked) + self.cosines)
        best: Floats = np.maximum(own, answered(self.rows, put))
        return np.maximum(best, self.tells_state)

    @cached_property
    def of_others(self) -> Floats:
        """For each row 1 if it tells of somebody else than the question asks about, else 0.

        In it who is asked about tells of a relative or of somebody by name; or somebody else tells of themself. Where
        one who takes no part is asked for ("Where does Clara work?"), its speaker tells of themself or a third one.
        """
        question, hints = self.question, self.hints
        people = subjects_asked(question, hints.asker, hints.named)
        asked = frozenset[str]().union(*map(akin, frozenset(terms(question, drop=self.speakers))))
        if not people and not self.for_replies and self.third:
            return flags(tells_of_another(text, asked - self.third, self.third) for text in self._told)
        if self.for_replies or not people or not (hints.holds or asks_of_self(question)):
            return np.zeros(len(self.rows))
        names = {part.casefold() for name in people for part in name.split()}
        return flags(
            tells_of_others(text, asked, names) or (self.is_whether_of_self and tells_in_general(text, asked))
            if row.speaker in people
            else hints.holds and not row.is_memory and tells_of_self(text, asked, names)
            for row, text in zip(self.rows, self._told, strict=True)
        )

    @cached_property
    def tells_state(self) -> Floats:
        """For each row 1 if its speaker tells in it of their own the home, the work or the age asked for; else 0.

        Of one who takes no part, the age or the work.
        """
        if self.third and asks_age(self.question):
            return self._told_of_third(lambda one: tells_age_of(one, self.third))
        if self.third and asks_work(self.question):
            return self._told_of_third(lambda one: not self.third.isdisjoint(terms(one)) and tells_occupation(one))
        found = (self._state_told(tells) for tells in states_asked(self.question))
        return next((told for told in found if told.any()), np.zeros(len(self.rows)))

    def _told_of_third(self, tells: Callable[[str], bool]) -> Floats:
        """For each row 1 if it holds, and one of its sentences passes the test; else 0."""
        return flags(
            row.is_current and any(map(tells, _SENTENCE.findall(text)))
            for row, text in zip(self.rows, self.texts, strict=True)
        )

    def _state_told(self, tells: Callable[[str], bool]) -> Floats:
        """For each row 1 if it holds, is of who is asked about, and passes the test or tells that there is no work."""
        people = people_asked(self.question, self.hints.asker, self.hints.named)
        return flags(
            row.speaker in people
            and (row.is_current or self.hints.past)
            and any(tells(one) or is_state_over(self.question, one) for one in (*_SENTENCE.findall(text), text))
            for row, text in zip(self.rows, self._told, strict=True)
        )

    @cached_property
    def _told(self) -> list[str]:
        """The texts as their speakers would say them, memories too."""
        return [
            in_first_person(text, row.speaker) if row.is_memory else spelled(text)
            for row, text in zip(self.rows, self.texts, strict=True)
        ]

    @cached_property
    def third(self) -> frozenset[str]:
        """The stems of one who takes no part and is asked about, of a relative also of the names; empty if none is."""
        found = third_asked(self.question, self.speakers)
        return found.union(*(self._names_of.get(stem, ()) for stem in found))

    @cached_property
    def _names_of(self) -> Mapping[str, frozenset[str]]:
        """The stem of each of the asker's relatives asked for → those of the names told: "my sister Eline"."""
        own = own_kin_asked(self.question)
        texts = (text for row, text in zip(self.rows, self._told, strict=True) if row.speaker == self.hints.asker)
        return kin_named(texts, own) if own else {}

    @cached_property
    def is_of_others(self) -> bool:
        """Whether only rows that tell of others have the rarest of the question's words that any row has."""
        if not self.of_others.any():
            return False
        theirs = [words for words, is_theirs in zip(self.words, self.of_others, strict=True) if is_theirs]
        rest = [words for words, is_theirs in zip(self.words, self.of_others, strict=True) if not is_theirs]
        weights = self._weights
        there = [term for term in weights if any(term in words for words in self.words)]
        telling = max(there, key=lambda term: (weights[term], term), default="")
        return any(telling in words for words in theirs) and not any(_has(words, telling) for words in rest)

    @cached_property
    def _weights(self) -> Mapping[str, float]:
        """Each of the question's words → its rarity among the rows."""
        counts = Counter(chain.from_iterable(self.words))
        words = terms(self.question, drop=self.speakers)
        return {term: idf(counts[term], len(self.rows)) for term in dict.fromkeys(words)}

    def _has(self, words: frozenset[str], term: str) -> float:
        """The share of a term that words have: all, or that of its subject or of the name of a relative."""
        return _has(words, term) or AKIN * (not words.isdisjoint(self._names_of.get(term, ())))

    def _shares_of(self, texts: Sequence[str]) -> Floats:
        """The share of the question's words in each of the texts; their rarity is that among the rows."""
        wanted = self._weights
        total = sum(wanted.values()) or 1.0
        thing = named_thing(self.question)
        if thing is not None:  # the name of something else is no answer
            named = naming(texts, kindred(thing))
            texts = [
                text if is_named else without_name_words(text) for text, is_named in zip(texts, named, strict=True)
            ]
        texts = [without_moved_things(self.question, text) for text in texts]
        found = self.words if texts == self.texts else self._words_of(texts)
        return np.asarray(
            [sum(weight * self._has(words, term) for term, weight in wanted.items()) / total for words in found]
        )

    @cached_property
    def is_named(self) -> Floats:
        """For each row 1 if its speaker is asked about, but not everybody; else 0."""
        named = self.hints.speakers if len(self.hints.speakers) < len(self.speakers) else frozenset()
        return np.asarray([float(row.speaker in named) for row in self.rows])


def _without_speech(found: re.Match[str]) -> str:
    """Drop a quotation in the first person, which is somebody else's; titles and single words stay."""
    return " " if _SELF.search(found.group()) else found.group()


def _has(words: frozenset[str], term: str) -> float:
    if term in words:
        return 1.0
    return AKIN if not words.isdisjoint(akin(term)) else 0.0


def _is_asked(sentence: str) -> bool:
    """Whether a sentence asks something of the one who answers."""
    return sentence.endswith("?") and _YOU.search(sentence) is not None


def flags(values: Iterable[bool]) -> Floats:
    """1 for each that is true, else 0; shape (n,)."""
    return np.asarray([float(value) for value in values])
