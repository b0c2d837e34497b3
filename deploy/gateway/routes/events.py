"""Routes that add to the log: events and batches."""

from datetime import UTC, datetime
from typing import Final
from uuid import uuid4

from pydantic import ValidationError
from starlette.responses import Response

from eunoe.deploy.gateway.bodies import (
    BATCH_LINE,
    EVENT,
    SessionEndBody,
    UtteranceBody,
)
from eunoe.deploy.gateway.calls import NDJSON_TYPES, Call, answer, read_body
from eunoe.deploy.gateway.problems import FieldFault, Problem, invalid
from eunoe.deploy.gateway.requests_once import RequestNote, digest_of_body, note_name, noted, write_note
from eunoe.deploy.gateway.results import BatchAccepted, EventAccepted, LogPosition
from eunoe.schemas.events import ConversationEvent, SessionEnded, Utterance
from eunoe.streams.record import RecordPlace

LINES_OF_REQUEST: Final = 20
"""Lines of a batch that count as one request."""
BYTES_OF_LINE: Final = 4096
"""Bytes of a batch that count as one line at least."""


def as_position(place: RecordPlace) -> LogPosition:
    """The place as an answer names it."""
    return LogPosition(topic=place.topic, partition=place.partition, offset=place.offset)


async def add_event(call: Call) -> Response:
    """Add an utterance, or end a session."""
    body = await call.body(EVENT)
    if isinstance(body, UtteranceBody):
        return answer(await _add_utterance(call, body), 202)
    (place,) = await call.gateway.log().append([_event(call.caller.tenant, call.conversation_id, body)])
    return answer(EventAccepted(position=as_position(place)), 202)


async def _add_utterance(call: Call, body: UtteranceBody) -> EventAccepted:
    if body.utterance_id is None:
        said = _event(call.caller.tenant, call.conversation_id, body)
        (place,) = await call.gateway.log().append([said])
        return EventAccepted(utterance_id=getattr(said, "utterance_id", None), position=as_position(place))
    name = note_name(call, "utterance", body.utterance_id)
    fresh = RequestNote(digest=digest_of_body(body), at=body.at or datetime.now(UTC))
    note = await noted(call, name, fresh, field="utterance_id", needed=body.at is None)
    if note.position is None:
        said = _event(call.caller.tenant, call.conversation_id, body, at=note.at)
        (place,) = await call.gateway.log().append([said])
        note = note.model_copy(update={"position": as_position(place)})
        await write_note(call, name, note)
    assert note.position is not None
    return EventAccepted(utterance_id=body.utterance_id, position=note.position)


def _event(
    tenant: str, conversation_id: str, body: UtteranceBody | SessionEndBody, *, at: datetime | None = None
) -> ConversationEvent:
    """The event of a body."""
    when = at or body.at or datetime.now(UTC)
    if isinstance(body, SessionEndBody):
        return SessionEnded(tenant=tenant, conversation_id=conversation_id, session_id=body.session_id, at=when)
    return Utterance(
        tenant=tenant,
        conversation_id=conversation_id,
        utterance_id=body.utterance_id or str(uuid4()),
        session_id=body.session_id,
        speaker=body.speaker,
        text=body.text,
        at=when,
        reply_id=body.reply_id,
    )


async def add_batch(call: Call) -> Response:
    """Add the events of an NDJSON body, all or, where one line is wrong, none."""
    settings = call.gateway.settings
    call.require_type(*NDJSON_TYPES)
    raw = await read_body(call.request, settings.batch_bytes, settings.body_seconds)
    count = raw.count(b"\n") + (not raw.endswith(b"\n"))  # before they are split: blank ones cost time, too
    if count > settings.batch_lines:
        raise Problem(413, f"the batch has {count:,} lines, the limit is {settings.batch_lines:,}")
    await call.admit(max(count, len(raw) / BYTES_OF_LINE) / LINES_OF_REQUEST)
    lines = [(number, line) for number, line in enumerate(raw.split(b"\n"), start=1) if line.strip()]
    events = _events_of(call, lines)
    places = await call.gateway.log().append(events) if events else []
    results = tuple(
        EventAccepted(utterance_id=getattr(event, "utterance_id", None), position=as_position(place))
        for event, place in zip(events, places, strict=True)
    )
    return answer(BatchAccepted(results=results), 202)


def _events_of(call: Call, lines: list[tuple[int, bytes]]) -> list[ConversationEvent]:
    events: list[ConversationEvent] = []
    faults: list[FieldFault] = []
    for number, line in lines:
        found = _event_of_line(call, number, line)
        if isinstance(found, ConversationEvent):
            events.append(found)
        else:
            faults += found
    if faults:
        raise Problem(422, "a line of the batch is wrong; nothing was sent", errors=faults[:10])
    return events


def _event_of_line(call: Call, number: int, line: bytes) -> ConversationEvent | list[FieldFault]:
    try:
        body = BATCH_LINE.validate_json(line)
    except ValidationError as error:
        return invalid(error, number)
    if not call.caller.may_use(body.conversation_id):
        return [FieldFault(line=number, field="conversation_id", message="this key does not reach it")]
    if isinstance(body, UtteranceBody) and body.utterance_id is not None and body.at is None:
        return [FieldFault(line=number, field="at", message="needed in a batch where utterance_id is given")]
    return _event(call.caller.tenant, body.conversation_id, body)
