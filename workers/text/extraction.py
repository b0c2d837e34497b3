"""Memories without a model: the most salient statements of a dialogue, in the third person where that is safe."""

from collections.abc import Sequence

from eunoe.schemas.memory import MemoryDraft, MemoryKind
from eunoe.workers.text.days import with_days
from eunoe.workers.text.drafts import MAX_TEXT_CHARS, clip
from eunoe.workers.text.expiry import expiry_of
from eunoe.workers.text.fragments import has_markup, is_fragment, without_lead
from eunoe.workers.text.kinds import kind_of
from eunoe.workers.text.person import in_third_person
from eunoe.workers.text.statements import Statement

EXTRACTION = "extraction/3"
"""Version of these rules; part of the provenance."""

MIN_OTHERS = 3
"""Statements without a change of state that even the shortest dialogue may give."""


def choose(statements: Sequence[Statement], others: int, most: int) -> list[Statement]:
    """The statements worth remembering, in their order.

    Takes every vital fact and every change of state first, then the ``others`` most salient of the rest; at most
    ``most`` in all. What is no sentence is never one of them.
    """
    salient = [(place, statement) for place, statement in enumerate(statements) if _tells(statement)]
    ranked = sorted(salient, key=lambda pair: (-round(pair[1].salience, 6), pair[0]))
    vital = [pair for pair in ranked if pair[1].is_vital]
    changes = [pair for pair in ranked if pair[1].is_change and not pair[1].is_vital]
    rest = [pair for pair in ranked if not (pair[1].is_change or pair[1].is_vital)]
    kept = [*vital, *changes, *rest[:others]][:most]
    return [statement for _, statement in sorted(kept, key=lambda pair: pair[0])]


def _tells(statement: Statement) -> bool:
    if statement.salience < 0 or has_markup(statement.text):
        return False
    return statement.is_vital or not (statement.english and is_fragment(statement.text))


def draft_of(statement: Statement) -> MemoryDraft:
    """The memory of a statement, in the third person where that is safe, else as a quotation."""
    line = statement.line
    said = without_lead(statement.text) if statement.english else statement.text
    rewritten = in_third_person(said, line.speaker) if statement.english else None
    if rewritten is not None:
        text = with_days(rewritten, line.at.date())
    else:
        dated = with_days(said, line.at.date(), "[]") if statement.english else said
        room = MAX_TEXT_CHARS - len(line.speaker) - len(' said: ""')
        text = f'{line.speaker} said: "{clip(dated, room).replace(chr(34), chr(39))}"'
    kind = kind_of(said) if statement.english else MemoryKind.STATE
    expires_at = expiry_of(said, line.at, kind) if statement.english else None
    return MemoryDraft(speaker=line.speaker, text=clip(text), evidence=(line,), kind=kind, expires_at=expires_at)
