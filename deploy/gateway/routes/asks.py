"""Routes of asks: asking, and going on with an ask that was accepted before."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from uuid import uuid4

from pydantic import TypeAdapter
from starlette.responses import Response

from eunoe.deploy.gateway.answer_place import AnswerPlace
from eunoe.deploy.gateway.bodies import AskBody
from eunoe.deploy.gateway.calls import Call, answer, while_connected
from eunoe.deploy.gateway.lookups import SEARCH_COST
from eunoe.deploy.gateway.problems import Problem, not_found, unavailable
from eunoe.deploy.gateway.requests_once import (
    RequestNote,
    check_unused,
    digest_of_body,
    note_name,
    noted,
    read_note,
    write_note,
)
from eunoe.deploy.gateway.results import AskAccepted
from eunoe.deploy.gateway.routes.answers import counted, failed, follow, next_answer, too_late, waiting_of, wants_stream
from eunoe.deploy.gateway.routes.events import as_position
from eunoe.deploy.gateway.routes.replies import answers_partition, note_reply, read_answer, refuse_gone, search_answers
from eunoe.deploy.gateway.sse import EventStream, write_event
from eunoe.schemas.errors import Unavailable
from eunoe.schemas.events import Ask, Utterance
from eunoe.schemas.replies import Recalled, Reply
from eunoe.streams.feed import Subscription
from eunoe.streams.record import Record

ASK: TypeAdapter[AskBody] = TypeAdapter(AskBody)


@dataclass(frozen=True, slots=True)
class SentAsk:
    """An ask that is in the log, and the feed in which its answer comes."""

    accepted: AskAccepted
    feed: Subscription
    resources: AsyncExitStack


async def _resume(
    call: Call, place: AnswerPlace, ask: tuple[str, str | None], resources: AsyncExitStack
) -> Subscription:
    """The answers from a place on, for an ask: its ``request_id`` and ``utterance_id``.

    Those that have come already are read from the log: that counts as several requests, and waits for its turn. Raises
    `Problem`: 429, and 410 where the answer is gone.
    """
    here = place.epoch == call.gateway.epoch
    if not here:
        await refuse_gone(call, place.partition, ask)
    feed = await follow(call, place.partition, place.offset if here else 0, resources)
    if feed.lost_place:  # the log of answers has lost some since
        await refuse_gone(call, place.partition, ask)
        feed = await follow(call, place.partition, 0, resources)
    if feed.backlog is not None:
        call.gateway.lookups.check(call.caller)
        await call.admit(SEARCH_COST)
        feed.turn = partial(call.gateway.lookups.turn, call.caller)
    return feed


async def ask(call: Call) -> Response | EventStream:
    """Add an utterance and wait for the reply."""
    body = await call.body(ASK)
    async with AsyncExitStack() as closing:
        closing.enter_context(counted(call))  # before it is sent: a refused ask leaves nothing
        sent = await _send_ask(call, body, closing)
        return await _answered(call, sent, closing)


async def _send_ask(call: Call, body: AskBody, resources: AsyncExitStack) -> SentAsk:
    """Append the ask to the log, unless the same one was sent before, and follow the answers from that time on.

    Raises `Problem` (409, 429) and `Unavailable`.
    """
    own_id = body.request_id or body.utterance_id
    request_id, utterance_id = own_id or str(uuid4()), body.utterance_id or body.request_id or str(uuid4())
    partition = await answers_partition(call)
    feed = await follow(call, partition, None, resources)  # before it is sent, so that no answer is missed
    now = AnswerPlace(partition, feed.begin[partition], call.gateway.epoch)
    at = body.at or datetime.now(UTC)
    fresh = RequestNote(digest=digest_of_body(body), at=at, resume=str(now), utterance_id=utterance_id)
    name = note_name(call, "ask", request_id)
    # an id that was made just now was never used before
    note = fresh if own_id is None else await _claimed(call, body, fresh, (name, utterance_id))
    since = AnswerPlace.read(note.resume or "", partition) or now
    if note.position is None:
        since = since if since.epoch == now.epoch else now
        (said,) = await call.gateway.log().append([_utterance(call, body, request_id, utterance_id, note.at)])
        note = note.model_copy(update={"position": as_position(said), "resume": str(since)})
        # written while the answer is awaited, and there when it is given
        noting = asyncio.ensure_future(write_note(call, name, note))
        resources.push_async_callback(asyncio.wait, {noting})
    if since != now:  # the same ask again: its answer may have come
        feed = await _resume(call, since, (request_id, note.utterance_id), resources)
    accepted = AskAccepted(request_id=request_id, utterance_id=utterance_id, position=note.position, resume=str(since))
    return SentAsk(accepted, feed, resources)


async def _claimed(call: Call, body: AskBody, fresh: RequestNote, names: tuple[str, str]) -> RequestNote:
    """The note of an ask with ids of the client; its utterance must not have the id of another utterance, either.

    Raises `Problem` (409), and keeps neither id then: the ask may come again with another one in place of that which is
    named.
    """
    name, utterance_id = names
    places = {
        name: "request_id" if body.request_id else "utterance_id",
        note_name(call, "utterance", utterance_id): "utterance_id",
    }
    await asyncio.gather(*(check_unused(call, place, fresh, field=field) for place, field in places.items()))
    needed = body.at is None
    note, _ = await asyncio.gather(
        *(noted(call, place, fresh, field=field, needed=needed) for place, field in places.items())
    )
    return note


def _utterance(call: Call, body: AskBody, request_id: str, utterance_id: str, at: datetime) -> Utterance:
    return Utterance(
        tenant=call.caller.tenant,
        conversation_id=call.conversation_id,
        utterance_id=utterance_id,
        session_id=body.session_id,
        speaker=body.speaker,
        text=body.text,
        at=at,
        ask=Ask(
            request_id=request_id,
            speak_as=body.speak_as,
            record=body.record,
            strategy=body.strategy,
            budget_tokens=body.budget_tokens,
        ),
    )


async def resume_ask(call: Call) -> Response | EventStream:
    """The answer to an ask that was accepted before, by any replica."""
    request_id = call.path["request"]
    partition = await answers_partition(call)
    given = call.request.headers.get("last-event-id")
    name = note_name(call, "ask", request_id)
    note = None if given is not None else await read_note(call, name)
    place = AnswerPlace.read(given or (note and note.resume) or "", partition)
    if place is None and given is not None:
        raise Problem(422, "Last-Event-ID is not that of a stream of this conversation: send it as it was received")
    async with AsyncExitStack() as closing:
        if place is None:
            return await _found_lately(call, request_id, partition)
        closing.enter_context(counted(call))
        if note is None and place.epoch != call.gateway.epoch:
            note = await read_note(call, name)
        utterance_id = None if note is None else note.utterance_id
        feed = await _resume(call, place, (request_id, utterance_id), closing)
        accepted = AskAccepted(
            request_id=request_id,
            utterance_id=utterance_id,
            position=None if note is None else note.position,
            resume=str(AnswerPlace(partition, feed.begin[partition], call.gateway.epoch)),
        )
        return await _answered(call, SentAsk(accepted, feed, closing), closing)


async def _found_lately(call: Call, request_id: str, partition: int) -> Response:
    """The answer to an ask of which nothing is noted, if it came within the last minutes."""
    searching = search_answers(call, partition, lambda record: read_answer(record, request_id))
    # a client that has left gets 404, too: nobody reads it
    found = await while_connected(call, searching)
    if found is None:
        raise not_found("ask")
    record, reply = found
    return await _given(call, reply, record)


async def _answered(call: Call, sent: SentAsk, closing: AsyncExitStack) -> Response | EventStream:
    """The answer as the client wants it: streamed, or waited for."""
    if wants_stream(call):
        return call.stream(_reply_events(call, sent), closing.pop_all())
    waiting = waiting_of(call)
    try:
        async with asyncio.timeout(waiting.seconds):
            found = await while_connected(call, next_answer(sent.feed, sent.accepted.request_id))
    except TimeoutError:
        if waiting.preferred:
            return answer(sent.accepted, 202, {"Preference-Applied": f"wait={waiting.seconds:g}"})
        raise too_late(sent.accepted.request_id, waiting.seconds) from None
    if found is None:
        return Response(status_code=499)  # the client has left
    record, reply = found
    return await _given(call, reply, record)


async def _given(call: Call, reply: Reply | Recalled, record: Record) -> Response:
    call.gateway.do_later(note_reply(call, reply, record))
    if reply.error is not None:
        raise failed(reply)
    return answer(reply)


async def _reply_events(call: Call, sent: SentAsk) -> AsyncGenerator[bytes]:
    yield write_event("accepted", sent.accepted, sent.accepted.resume)
    limit = call.gateway.settings.max_wait_seconds
    try:
        async with asyncio.timeout(limit):
            record, reply = await next_answer(sent.feed, sent.accepted.request_id)
    except TimeoutError:
        fault = too_late(sent.accepted.request_id, limit)
        yield write_event("error", fault.document(call.id))
        return
    except Unavailable as away:
        yield write_event("error", unavailable(away.server).document(call.id))
        return
    call.gateway.do_later(note_reply(call, reply, record))
    if reply.error is not None:
        yield write_event("error", failed(reply).document(call.id), str(AnswerPlace.after(record, call.gateway.epoch)))
    else:
        yield write_event("reply", reply, str(AnswerPlace.after(record, call.gateway.epoch)))
