"""Proposals of turns in sessions that stay open while others close: kept until their own session is applied.

Table `CARRIED` holds them by turn.
"""

from collections.abc import Sequence

from eunoe.schemas.decisions import Drop, Put, Write
from eunoe.schemas.documents import read_document
from eunoe.schemas.memory import InsightsProposed
from eunoe.schemas.ports import Tables
from eunoe.workers.update.tables import CARRIED, NAME


async def read_carried(tables: Tables, key: str, turns: Sequence[int]) -> list[InsightsProposed]:
    """The proposals that are kept of these turns. One of a session that failed with them is missing."""
    if not turns:
        return []
    found = await tables.fetch(NAME, key, CARRIED, [_row(turn) for turn in turns])
    return [read_document(InsightsProposed, text, key) for text in found if text is not None]


def carrying_writes(applied: Sequence[InsightsProposed], carried_on: Sequence[InsightsProposed]) -> tuple[Write, ...]:
    """The writes that keep the proposals of open sessions, and drop those that are applied."""
    kept = (Put.of(CARRIED, _row(event.turn), event) for event in carried_on if event.insights)
    return (*(Drop(CARRIED, _row(event.turn)) for event in applied), *kept)


def _row(turn: int) -> str:
    return f"{turn:09d}"
