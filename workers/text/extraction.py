"""Memories without a model: the most telling statements of a dialogue, in the third person where that is safe."""

from collections.abc import Sequence

from eunoe.schemas.memory import MemoryDraft
from eunoe.workers.text.days import with_days
from eunoe.workers.text.drafts import MAX_TEXT_CHARS, clip
from eunoe.workers.text.person import in_third_person
from eunoe.workers.text.statements import Statement

EXTRACTION = "extraction/1"
"""The version of this module's rules, as provenance names it."""

LEAST_OTHERS = 3
"""Statements without a change that even the shortest dialogue may give."""


def choose(statements: Sequence[Statement], others: int, most: int) -> list[Statement]:
    """The statements worth remembering, in order.

    Every change of state comes first, then the ``others`` most telling of the rest; at most ``most`` in all.
    """
    worthy = [(place, statement) for place, statement in enumerate(statements) if statement.worth >= 0]
    ranked = sorted(worthy, key=lambda pair: (-round(pair[1].worth, 6), pair[0]))
    changes = [pair for pair in ranked if pair[1].is_change]
    rest = [pair for pair in ranked if not pair[1].is_change]
    kept = [*changes, *rest[:others]][:most]
    return [statement for _, statement in sorted(kept, key=lambda pair: pair[0])]


def draft_of(statement: Statement) -> MemoryDraft:
    """The memory of a statement: in the third person where that is safe, else as a quotation."""
    line = statement.line
    rewritten = in_third_person(statement.text, line.speaker) if statement.english else None
    if rewritten is not None:
        text = with_days(rewritten, line.at.date())
    else:
        dated = with_days(statement.text, line.at.date(), "[]") if statement.english else statement.text
        room = MAX_TEXT_CHARS - len(line.speaker) - len(' said: ""')
        text = f'{line.speaker} said: "{clip(dated, room).replace(chr(34), chr(39))}"'
    return MemoryDraft(speaker=line.speaker, text=clip(text), evidence=(line,))
