"""Answers to asks that are dead-lettered: whoever asked gets the error, and waits no longer."""

from collections.abc import Mapping
from typing import Any, Final

import orjson
from pydantic import ValidationError

from eunoe.schemas.events import Ask, ConversationEvent, Provenance, Strategy, Utterance, Wants
from eunoe.schemas.identity import derive_id
from eunoe.schemas.replies import Recalled, Reply
from eunoe.streams.codec import encode
from eunoe.streams.record import Message, Record
from eunoe.streams.topics import Topic

MAX_ERROR_CHARS: Final = 500
_READ: Final = (("request_id", "speak_as", "strategy", "wants"), ("request_id", "wants"), ("request_id",))
"""The fields of an ask to read: as many as are valid."""


def error_answers(record: Record, error: str, strategy: Strategy = Strategy.FUSED) -> tuple[Message, ...]:
    """The answer with this error to the ask in a record that is refused; empty where no ask can be read in it.

    The record may break its schema: its tenant, its conversation and the request id are enough. ``strategy`` is named
    where the ask names none.
    """
    body = _utterance_in(record.value)
    ask = None if body is None else _ask_in(body.get("ask"))
    if body is None or ask is None:
        return ()
    try:
        place = {name: body[name] for name in ("tenant", "conversation_id") if name in body}
        answer = _answer(place, ask, error[:MAX_ERROR_CHARS], ask.strategy or strategy)
    except ValidationError:
        return ()
    return (Message(Topic.REPLIES, answer.key.encode(), encode(answer)),)


def _utterance_in(value: bytes) -> Mapping[str, Any] | None:
    try:
        body = orjson.loads(value)
    except orjson.JSONDecodeError:
        return None
    return body if isinstance(body, dict) and body.get("type") == Utterance.type_tag() else None


def _ask_in(found: object) -> Ask | None:
    """The ask, with as many of its fields as are valid."""
    if not isinstance(found, dict):
        return None
    for names in _READ:
        try:
            return Ask.model_validate({**{name: found[name] for name in names if name in found}, "record": False})
        except ValidationError:
            continue
    return None


def _answer(place: dict[str, Any], ask: Ask, error: str, strategy: Strategy) -> Recalled | Reply:
    """Raises `ValidationError` where the conversation has no valid name."""
    common = {**place, "request_id": ask.request_id, "text": "", "strategy": strategy, "known_session": 0}
    if ask.wants is Wants.MEMORY:
        return Recalled.model_validate({**common, "session": 1, "error": error})
    conversation = ConversationEvent.model_validate(place)
    reply_id = derive_id(conversation.key, 0, "refused", ask.request_id)
    made_by = Provenance(code="refused/1", model="none")
    return Reply.model_validate(
        {**common, "reply_id": reply_id, "speaker": ask.speak_as, "made_by": made_by, "error": error}
    )
