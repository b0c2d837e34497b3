"""Memories without a model: the most salient statements of a dialogue, in the third person where that is safe."""

from collections.abc import Sequence
from datetime import datetime

from eunoe.schemas.memory import MemoryDraft, MemoryKind
from eunoe.workers.text.corrections import announces_correction, has_figure, taken_back, words_of
from eunoe.workers.text.days import with_days
from eunoe.workers.text.drafts import MAX_TEXT_CHARS, clip
from eunoe.workers.text.expiry import end_of_pregnancy, expiry_of
from eunoe.workers.text.fragments import has_markup, is_fragment, without_lead
from eunoe.workers.text.kinds import kind_of
from eunoe.workers.text.lasting import without_request
from eunoe.workers.text.person import in_third_person
from eunoe.workers.text.statements import Statement

EXTRACTION = "extraction/9"
"""Version of these rules; part of the provenance."""

NEAR = 8
"""Lines before a correction in which it is looked for what it corrects."""
MIN_OTHERS = 3
"""Statements without a change of state that even the shortest dialogue may give."""


def choose(statements: Sequence[Statement], others: int, most: int) -> list[Statement]:
    """The statements worth remembering, in their order.

    Takes every vital fact first, then every change of state and lasting fact, then the ``others`` most salient of the
    rest; at most ``most`` in all. What is no sentence is never one of them.
    """
    salient = [(place, statement) for place, statement in enumerate(statements) if _tells(statement)]
    ranked = sorted(salient, key=lambda pair: (-round(pair[1].salience, 6), pair[0]))
    vital = [pair for pair in ranked if pair[1].is_vital]
    states = [pair for pair in ranked if _tells_state(pair[1]) and not pair[1].is_vital]
    rest = [pair for pair in ranked if not (_tells_state(pair[1]) or pair[1].is_vital)]
    kept = [*vital, *states, *rest[:others]][:most]
    return [statement for _, statement in sorted(kept, key=lambda pair: pair[0])]


def with_corrections(chosen: Sequence[Statement], statements: Sequence[Statement]) -> list[MemoryDraft]:
    """The memories of the chosen statements, each with the one of all ``statements`` that corrects it.

    What only corrects another chosen statement gives no memory of its own.
    """
    corrected, used = _corrections(statements), set[tuple[int, str]]()
    drafts = []
    for statement in chosen:  # in their order: a correction comes after what it corrects
        if _place(statement) not in used:
            later = corrected.get(_place(statement))
            if later is not None:
                used.add(_place(later))
            drafts.append(draft_of(statement, later))
    return drafts


def _corrections(statements: Sequence[Statement]) -> dict[tuple[int, str], Statement]:
    """The place of a statement → a later one of the same speaker that corrects it, the last before that one."""
    found = _announced(statements)
    last: dict[tuple[str, str], int] = {}  # speaker and word → index of the last statement that has it
    for index, statement in enumerate(statements):
        speaker = statement.line.speaker
        wrong = taken_back(statement.text) if statement.english else ()
        place = max((last.get((speaker, word), -1) for word in wrong), default=-1)
        if place >= 0 and statement.number - statements[place].number <= NEAR:
            found[_place(statements[place])] = statement
        last |= dict.fromkeys(((speaker, word) for word in words_of(statement.text)), index)
    return found


def _announced(statements: Sequence[Statement]) -> dict[tuple[int, str], Statement]:
    """The place of a statement with a figure → the line behind it with which its speaker takes that back."""
    found: dict[tuple[int, str], Statement] = {}
    before: dict[str, Statement] = {}  # speaker → their last statement with a figure
    lines: dict[str, int] = {}  # speaker → number of their last line
    for statement in statements:
        speaker = statement.line.speaker
        earlier, is_first = before.get(speaker), lines.get(speaker) != statement.number
        follows = is_first and earlier is not None and earlier.number == lines[speaker] >= statement.number - NEAR
        if earlier and follows and statement.english and announces_correction(statement.line.text, earlier.text):
            found[_place(earlier)] = statement
        elif has_figure(statement.text):
            before[speaker] = statement
        lines[speaker] = statement.number
    return found


def _place(statement: Statement) -> tuple[int, str]:
    return statement.number, statement.text


def _tells_state(statement: Statement) -> bool:
    return statement.is_change or statement.is_lasting


def _tells(statement: Statement) -> bool:
    if statement.salience < 0 or has_markup(statement.text):
        return False
    whole = statement.is_vital or statement.is_lasting  # an instruction has no subject
    return whole or not (statement.english and is_fragment(statement.text))


def draft_of(statement: Statement, correction: Statement | None = None) -> MemoryDraft:
    """The memory of a statement, in the third person where that is safe, else as a quotation.

    A ``correction`` of the same speaker is told with it, and is evidence too; which of its ends holds is then open.
    """
    line = statement.line
    said = without_lead(without_request(statement.text)) if statement.english else statement.text
    rewritten = in_third_person(said, line.speaker) if statement.english else None
    text = with_days(rewritten, line.at.date()) if rewritten is not None else _quoted(statement, said)
    kind = kind_of(said) if statement.english else MemoryKind.STATE
    if correction is None:
        expires_at = _end_of(said, line.at, kind) if statement.english else None
        return MemoryDraft(speaker=line.speaker, text=clip(text), evidence=(line,), kind=kind, expires_at=expires_at)
    room = MAX_TEXT_CHARS // 2
    text = f"{clip(text, room - 1)} {clip(_quoted(correction, correction.text, 'corrected'), room)}"
    evidence = tuple(dict.fromkeys((line, correction.line)))
    return MemoryDraft(speaker=line.speaker, text=text, evidence=evidence, kind=kind)


def _end_of(said: str, at: datetime, kind: MemoryKind) -> datetime | None:
    return expiry_of(said, at, kind) or end_of_pregnancy(said, at)


def _quoted(statement: Statement, said: str, how: str = "said") -> str:
    """Quote what a statement says, with the days of its relative words."""
    line = statement.line
    dated = with_days(said, line.at.date(), "[]") if statement.english else said
    room = MAX_TEXT_CHARS - len(line.speaker) - len(f' {how}: ""')
    return f'{line.speaker} {how}: "{clip(dated, room).replace(chr(34), chr(39))}"'
