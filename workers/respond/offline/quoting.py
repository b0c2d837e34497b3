"""Scores the rows of a prompt by how well each answers the question alone, for replies that quote.

Retrieval asks which rows belong into a context; a quotation has to be the one that tells. So the row's own words count
more than its neighbours', and a row that holds the kind of thing asked for counts more than one on the topic. The
weights are round numbers.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eunoe.schemas.replies import Source
from eunoe.workers.respond.context import Row
from eunoe.workers.respond.hints import QuestionHints
from eunoe.workers.respond.offline.akin import kindred
from eunoe.workers.respond.offline.beside import Floats, adjoin, answered, replied
from eunoe.workers.respond.offline.quotable import Quotable, flags
from eunoe.workers.respond.offline.times_told import share_of_time
from eunoe.workers.respond.offline.whose import (
    gives_a_name,
    introduction_asked,
    named_thing,
    naming,
)
from eunoe.workers.respond.times import names_days, read_times, time_fit
from eunoe.workers.text.capitals import CAPITAL
from eunoe.workers.text.endings import is_end
from eunoe.workers.text.guarded import GuardedPattern
from eunoe.workers.text.terms import terms
from eunoe.workers.text.tokens import count_tokens
from eunoe.workers.text.words import NUMBER_WORDS, is_negation

_WHERE = re.compile(r"\b(?:where|which (?:city|country|town|place))\b", re.IGNORECASE)
_WHO = GuardedPattern(r"\b(?:who|whom|whose)\b", re.IGNORECASE)
_NAME = GuardedPattern(r"\b(?:called|names?|named)\b", re.IGNORECASE)
_WHY = GuardedPattern(r"\b(?:why|reasons?)\b", re.IGNORECASE)
_REASON = re.compile(
    r"\b(?:because|since|so that|want(?:s|ed)?|need(?:s|ed)?|inspired|motivat\w+|makes?|made|helps?|love[sd]?|"
    r"allergic)\b",
    re.IGNORECASE,
)
_STOPS = re.compile(
    r"\b(?:stop\w*|quit\w*|gave up|give up|cancel\w*|le(?:ft|ave)|sold|sell|drop\w*|end(?:ed)?|go off)\b", re.IGNORECASE
)
_BARE_WHY = re.compile(
    r"\W{0,5}(?:\w{1,30}\W{1,3}){0,3}(?:why|how come|what happened|why not|why that)[?\s]*\Z", re.IGNORECASE
)
"""A question for the reason of what was said right before it."""
_SENTENCE = re.compile(r"[^.!?]+")
_REFUSAL = re.compile(
    r"\b(?:not|never|cannot|\w+n['’]t|cancell?ed|called off|fell through|refused|allergic|avoids?)\b", re.IGNORECASE
)
_FORBIDDEN = GuardedPattern(
    r"\b(?:(?:must|may|should|can|could)(?: never| not|n['’]t)|cannot|avoid|allergic|careful|dangerous|harmful)\b",
    re.IGNORECASE,
)
_HARM = re.compile(
    r"\b(?:allerg\w{1,4}|poison\w{0,5}|intoleran\w{1,3}|nearly (?:did for|killed|died)|choked?|rash|swells?|swelling"
    r"|(?:makes?|made) (?:me|him|her|them) (?:ill|sick))\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w+(?:['’]\w+)*")
_PLACE = re.compile(
    rf"\b(?:[Ii]n|[Aa]t|to|[Ff]rom|[Nn]ear|into|around) (?:the |a |my )?{CAPITAL}\w+|"
    r"\b(?:park|beach|city|town|country|home|flat|house|"
    r"apartment|rooms?|store|shop|place|coast|lake|mountains|abroad)\b"
)
_PERSON = re.compile(
    r"\b(?:my|our) (?:\w+ )?(?:mom|mum|dad|mother|father|sister|brother|friends?|wife|husband|son|daughter|kids|aunt|"
    r"uncle|grand\w+|boss|team|family|colleagues?|neighbou?r|cousin|girlfriend|boyfriend|partner)\b"
    rf"|(?<=[^\W\d_A-Z] |[,;] )(?!I\b){CAPITAL}[^\W\d_A-Z]+"
)
_OWNED = re.compile(r"\b(\w+)['’]s (\w+)(?: (\w+))?")


@dataclass(frozen=True, slots=True)
class QuoteWeights:
    """The weight of each feature; features without another range are 0 or 1."""

    retrieved: float = 0.8
    """The score of its source, in standard deviations."""
    words: float = 2.5
    """The share of the question's words, weighed by rarity."""
    sense: float = 1.5
    """Cosine."""
    near: float = 1.0
    """The best share of words beside it."""
    answers: float = 3.0
    """The share of words of another speaker's question before it, or of what it replies to."""
    speaker: float = 1.4
    """Its speaker is asked about."""
    asks: float = 0.5
    """It is a question; subtracted."""
    length: float = 0.45
    """For each e-fold of tokens."""
    kind: float = 1.8
    """It holds what is asked for: a time, a place or a person."""
    number: float = 0.8
    """It holds a number, where one is asked for."""
    date: float = 2.3
    """It was said about the day in the question."""
    denies: float = 5.0
    """It denies what the question denies."""
    harm: float = 6.0
    """It tells of harm by what may never be, where the question asks for that."""
    reason: float = 0.8
    """It gives a reason or a wish, where one is asked for."""
    owns: float = 1.5
    """Its "my" or "your" means the thing asked for, or somebody else's (subtracted)."""
    others: float = 2.5
    """It tells of somebody else than the question asks about; subtracted."""
    latest: float = 5.0
    """It is the last to tell the state asked for: of homes and jobs one has one at a time."""


def score_quotes(quotable: Quotable) -> Floats:
    """The score of each row as an answer, shape (n,); comparable within one question only."""
    weights = QuoteWeights()
    rows, hints, shares = quotable.rows, quotable.hints, quotable.shares
    asks = flags("?" in text[-3:] for text in quotable.texts)
    scores = weights.words * np.maximum(shares, quotable.tells_state) + weights.sense * quotable.cosines
    scores += weights.retrieved * _retrieved(rows, quotable.sources)
    answers = replied(rows, shares) if quotable.for_replies else answered(rows, shares)
    scores += weights.near * _beside(rows, shares * (1 - quotable.of_others)) + weights.answers * answers
    scores += weights.speaker * quotable.is_named - weights.asks * asks
    scores += weights.length * np.log([max(count_tokens(row.text), 1) for row in rows])
    if hints.times or hints.days:
        scores += weights.date * _dates(quotable)
    if _WHY.search(quotable.question):
        scores += weights.answers * answered(rows, _asks_why(rows, shares))
        scores += weights.kind * _told_as_ended(quotable)
    if introduces := introduction_asked(quotable.question):
        scores += (weights.kind + weights.answers) * flags(map(introduces, quotable.texts))
    scores += _kinds(quotable, weights) + weights.kind * _named(quotable) + weights.owns * _owned(quotable)
    return scores - weights.others * quotable.of_others + _state_told(quotable, weights)


def _kinds(quotable: Quotable, weights: QuoteWeights) -> Floats:
    """The features of what kind of thing is asked for."""
    question, hints = quotable.question, quotable.hints
    words = frozenset(terms(question, drop=quotable.speakers))
    asked = frozenset(term for term in words if not is_negation(term))
    scores = np.zeros(len(quotable.rows))
    if hints.when:
        scores += weights.kind * np.asarray(list(map(share_of_time, quotable.texts)))
    for is_asked, weight, has in (
        (hints.count, weights.number, _has_number),
        (bool(_WHERE.search(question)), weights.kind, lambda text: bool(_PLACE.search(text))),
        (bool(_WHO.search(question)), weights.kind, lambda text: bool(_PERSON.search(text))),
        (bool(_WHY.search(question)), weights.reason, lambda text: bool(_REASON.search(text))),
        (_denies(question), weights.denies, lambda text: _denies_one(text, asked)),
        (bool(_FORBIDDEN.search(question)), weights.harm, lambda text: _harms(text, asked)),
    ):
        if is_asked:
            scores += weight * flags(map(has, quotable.texts))
    return scores


def _named(quotable: Quotable) -> Floats:
    """1 for each row that gives the name asked for, or any name where it is not clear of what; else 0."""
    if not _NAME.search(quotable.question):
        return np.zeros(len(quotable.rows))
    thing, texts = named_thing(quotable.question), quotable.texts
    if thing is None:
        return flags(map(gives_a_name, texts))
    stems = kindred(thing)
    return flags(naming(texts, stems))


def _state_told(quotable: Quotable, weights: QuoteWeights) -> Floats:
    """The weight of each row that tells the home or the work asked for, of a present one more for the last of them."""
    rows, hints, told = quotable.rows, quotable.hints, quotable.tells_state
    found: Floats = weights.kind * told
    if told.any() and (hints.present or hints.holds):
        places = [place for place in range(len(rows)) if told[place]]
        last = max(places, key=lambda place: (rows[place].at, not rows[place].is_memory, rows[place].number))
        found[last] += weights.latest
    return found


def _has_number(text: str) -> bool:
    return any(char.isdecimal() for char in text) or any(word.lower() in NUMBER_WORDS for word in _WORD.findall(text))


def _denies(text: str) -> bool:
    return any(map(is_negation, frozenset(_WORD.findall(text))))


def _denies_one(text: str, words: frozenset[str]) -> bool:
    """Whether a sentence with one of the words denies something."""
    return any(
        _REFUSAL.search(sentence) is not None and not words.isdisjoint(terms(sentence))
        for sentence in _SENTENCE.findall(text)
    )


def _harms(text: str, words: frozenset[str]) -> bool:
    """Whether a text with one of the words tells of harm."""
    return _HARM.search(text) is not None and not words.isdisjoint(terms(text))


def _dates(quotable: Quotable) -> Floats:
    """The fit of each row to the times of a question; of days in words ("yesterday") half of it needs the topic too."""
    hints, most = quotable.hints, float(quotable.shares.max(initial=0.0))
    fits = np.asarray([_dated(hints, row) for row in quotable.rows])
    return fits if hints.times or not most else fits * (0.5 + 0.5 * quotable.shares / most)


def _dated(hints: QuestionHints, row: Row) -> float:
    """The fit of a row to the times of a question, from 0 to 1: it names one of them, or was said about then."""
    day, times = row.at.date(), hints.times
    named = read_times(row.text) if any(time.month is not None for time in times) else []
    months = {(time.month, time.day) for time in times if time.month is not None}
    if any((one.month, one.day) in months for one in named) or names_days(row.text, day, hints.days):
        return 1.0
    return time_fit(times, day, hints.said)


def _retrieved(rows: Sequence[Row], sources: Sequence[Source]) -> Floats:
    """The best score of the sources that show each row, in standard deviations; 0 for a row of the open session."""
    best: dict[str, float] = {}
    for source in sources:
        for id_ in source.utterance_ids:
            best[id_] = max(best.get(id_, -math.inf), source.score)
    found = [max((best[id_] for id_ in row.cites if id_ in best), default=math.nan) for row in rows]
    values = np.asarray(found)
    known = values[~np.isnan(values)]
    spread = float(known.std()) if len(known) else 0.0
    if spread < 1e-9:
        return np.zeros(len(rows))
    scaled: Floats = np.nan_to_num((values - known.mean()) / spread, nan=0.0)
    return scaled


def _beside(rows: Sequence[Row], shares: Floats) -> Floats:
    """The best share of the two rows before and the one after, of the same day."""
    return np.asarray(
        [
            max(
                (
                    shares[near]
                    for near in (place - 2, place - 1, place + 1)
                    if 0 <= near < len(rows) and adjoin(rows[near], row)
                ),
                default=0.0,
            )
            for place, row in enumerate(rows)
        ]
    )


def _asks_why(rows: Sequence[Row], shares: Floats) -> Floats:
    """For each row 1 if it asks for a reason and shares a word with the question, or follows one that does; else 0."""
    found = flags(share > 0 and _WHY.search(row.text) is not None for row, share in zip(rows, shares, strict=True))
    for place in range(1, len(rows)):
        if adjoin(rows[place - 1], rows[place]) and _BARE_WHY.match(rows[place].text):
            found[place] = max(found[place], shares[place - 1])
    return found


def _told_as_ended(quotable: Quotable) -> Floats:
    """Where it is asked why something ended, 1 for each row that tells the end of what it asks about; else 0."""
    if not _STOPS.search(quotable.question):
        return np.zeros(len(quotable.rows))
    asked = frozenset(terms(_STOPS.sub(" ", quotable.question), drop=quotable.speakers))
    return flags(
        any(is_end(one) and not asked.isdisjoint(terms(one)) for one in _SENTENCE.findall(text))
        for text in quotable.texts
    )


def _owned(quotable: Quotable) -> Floats:
    """For "Ann's birthday": 1 for Ann's "my birthday" and another's "your birthday", -1 the other way round."""
    found = np.zeros(len(quotable.rows))
    for owner, thing in _possessions(quotable.question, quotable.speakers):
        own, others = (re.compile(rf"\b{whose} (?:\w+ )?{re.escape(thing)}", re.IGNORECASE) for whose in ("my", "your"))
        for place, row in enumerate(quotable.rows):
            right, wrong = (own, others) if row.speaker == owner else (others, own)
            found[place] += float(bool(right.search(row.text))) - float(bool(wrong.search(row.text)))
    return np.clip(found, -1.0, 1.0)


def _possessions(question: str, speakers: Sequence[str]) -> list[tuple[str, str]]:
    owners: Mapping[str, str] = {part.casefold(): name for name in speakers for part in name.split()}
    return [
        (owners[found[1].casefold()], found[2]) for found in _OWNED.finditer(question) if found[1].casefold() in owners
    ]
