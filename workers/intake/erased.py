"""Erased utterances in intake: a placeholder counts like its utterance, and gives no line."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from eunoe.schemas.base import Contract
from eunoe.schemas.decisions import Decision
from eunoe.schemas.documents import read_document
from eunoe.schemas.erasure import Asked
from eunoe.schemas.events import Ask, Line, ReplyRequested, Utterance, UtteranceErased
from eunoe.workers.intake.clocks import by_one_clock
from eunoe.workers.intake.head import OpenSession, rows_of

ERASED: Final = "erased"
"""The table of hashed ids of utterances that are not taken again; they are never forgotten."""
ERASED_LINE: Final = '{"erased":true}'
"""The row of an erased line among those of an open session."""
_WORD: Final = "erased"
"""Speaker and text of the stand-in."""


def stand_in(event: UtteranceErased, log_time: datetime) -> Utterance:
    """An utterance that opens and closes the same sessions as the erased one, and takes the same turn."""
    return Utterance(
        tenant=event.tenant,
        conversation_id=event.conversation_id,
        utterance_id=event.utterance_id,
        session_id=event.session_id,
        speaker=_WORD,
        text=_WORD,
        at=log_time,
        reply_id=event.utterance_id if event.is_reply else None,
        ask=None
        if event.asked is Asked.NOTHING
        else Ask(request_id=event.utterance_id, record=event.asked is Asked.RECORDED),
    )


def without_ask(decision: Decision) -> Decision:
    """The decision about a stand-in, whose turn is numbered, and asks for nothing."""
    return replace(decision, events=tuple(map(_erased, decision.events)))


def _erased(one: Contract) -> Contract:
    if not isinstance(one, ReplyRequested):
        return one
    return one.model_copy(update={"request": None, "dialogue": (), "reply_wanted": False, "erased": True})


def lines_of(session: OpenSession, rows: Mapping[str, str], key: str) -> tuple[Line, ...]:
    """The lines of an open session as `by_one_clock` has them, without erased ones.

    Raises ``KeyError`` for a missing row.
    """
    found: Sequence[str] = [rows[id_] for id_ in rows_of(session)]
    return by_one_clock([read_document(Line, text, key) for text in found if text != ERASED_LINE])
