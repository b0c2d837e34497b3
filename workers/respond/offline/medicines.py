"""Questions for all medicines that somebody takes: the best line names one of them. English only."""

import re
from collections.abc import Iterator, Sequence, Set

from eunoe.workers.respond.context import Row, fold
from eunoe.workers.respond.hints import QuestionHints
from eunoe.workers.respond.offline.others import in_first_person, tells_of_others
from eunoe.workers.respond.offline.whose import asks_of_self
from eunoe.workers.text.endings import is_end
from eunoe.workers.text.salience import is_question
from eunoe.workers.text.sentences import sentence_spans
from eunoe.workers.text.terms import terms
from eunoe.workers.text.vital import DRUG

_THINGS = r"(?:medicines?|medications?|meds|drugs|pills|tablets)"
_ASKED = re.compile(
    rf"\b(?:which|what) (?:other )?{_THINGS}\b|(?:\bmy|\bour|['’]s) (?:current )?{_THINGS}\b", re.IGNORECASE
)
_DRUG = re.compile(
    rf"\b(?P<known>{DRUG}|[a-z]{{2,20}}tonin|"
    r"insulin|warfarin|paracetamol|predniso\w{2,4})\b|"
    r"\b(?P<dosed>[a-z]{5,20}) \d[\d.,]{0,6} ?(?:mg|mcg)\b|"
    r"\d ?(?:mg|mcg) (?:of )?(?P<of>(?!of\b|every|twice|three|before|after|until|in the|daily)[a-z]{5,20})\b",
    re.IGNORECASE,
)
_TAKING = re.compile(
    r"\b(?:tak\w{1,3}|took|on|put|prescribe\w|start\w*|stop\w*|quit|off|need|use|swallow|give\w*|gave|get|got|raised|"
    r"lowered|halved|doubled|switched|mornings?|evenings?|night|daily|once|twice|day|every|no longer|any ?more)\b|\d",
    re.IGNORECASE,
)
"""Words of taking a medicine; a sentence without one only talks of it."""
_SHUNNED = re.compile(r"\b(?:allerg\w{1,4}|intoleran\w{1,3})\b", re.IGNORECASE)
"""Words of what one is allergic to, which is no medicine that one takes: "allergic to penicillin, got a rash"."""
_OF_SOMEBODY = re.compile(rf"(?:\b(?:my|our|his|her|their)|['’]s) (?!(?:current )?{_THINGS}\b)\w", re.IGNORECASE)
MANY = 5
"""Most lines that are quoted."""


def asks_for_medicines(question: str, hints: QuestionHints) -> bool:
    """Whether a question asks which medicines participants take now; not those of "my mother"."""
    if not (hints.of_present and hints.speakers and _ASKED.search(question)):
        return False
    return asks_of_self(question) or _OF_SOMEBODY.search(question) is None


def rows_of_medicines(rows: Sequence[Row], people: Set[str]) -> list[int]:
    """The places of the rows, in order of time, that tell last of each medicine the ``people`` take; at most `MANY`.

    Of one that is not taken any more only where all are over; a memory only where no line tells of it.
    """
    last: dict[str, tuple[int, bool]] = {}
    order = sorted(range(len(rows)), key=lambda place: (not rows[place].is_memory, rows[place].at, rows[place].number))
    for place in order:
        row = rows[place]
        if row.speaker in people and row.is_current and row.reply_id is None:
            last |= {drug: (place, is_over) for drug, is_over in _told(row)}
    taken = {place for place, is_over in last.values() if not is_over} or {place for place, _ in last.values()}
    return sorted(taken, key=lambda place: (rows[place].at, rows[place].number))[-MANY:]


def _told(row: Row) -> Iterator[tuple[str, bool]]:
    """Yield the medicines that a row tells of its speaker, each with whether it is not taken any more."""
    said = fold(in_first_person(row.text, row.speaker) if row.is_memory else row.text)
    for start, end in sentence_spans(said):
        one = said[start:end]
        drugs = {(found["known"] or found["dosed"] or found["of"]).lower() for found in _DRUG.finditer(one)}
        is_taken = drugs and _TAKING.search(one) and not _SHUNNED.search(one)
        if is_taken and not is_question(one) and not tells_of_others(one, terms(" ".join(drugs))):
            yield from ((drug, is_end(one)) for drug in sorted(drugs))
