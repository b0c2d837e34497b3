"""Routes that wait for answers: asks, their resumption, and recalls."""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager, AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from uuid import uuid4

from pydantic import TypeAdapter
from starlette.responses import Response

from eunoe.deploy.gateway.answer_place import AnswerPlace
from eunoe.deploy.gateway.bodies import AskBody, RecallBody
from eunoe.deploy.gateway.calls import Call, answer, while_connected
from eunoe.deploy.gateway.lookups import SEARCH_COST
from eunoe.deploy.gateway.problems import Problem, not_found, unavailable
from eunoe.deploy.gateway.requests_once import (
    RequestNote,
    digest_of_body,
    note_name,
    noted,
    read_note,
    used_before,
    write_note,
)
from eunoe.deploy.gateway.results import AskAccepted
from eunoe.deploy.gateway.routes.events import as_position
from eunoe.deploy.gateway.routes.replies import answers_partition, note_reply, read_answer, refuse_gone, search_answers
from eunoe.deploy.gateway.sse import EVENT_STREAM, EventStream, write_event
from eunoe.schemas.errors import Unavailable
from eunoe.schemas.events import Ask, Utterance, Wants
from eunoe.schemas.replies import Recalled, Reply
from eunoe.streams.feed import Subscription
from eunoe.streams.record import Record
from eunoe.streams.topics import Topic
from eunoe.streams.tracing import span
from eunoe.workers.intake.sessions import CONFLICT

ASK: TypeAdapter[AskBody] = TypeAdapter(AskBody)
RECALL: TypeAdapter[RecallBody] = TypeAdapter(RecallBody)
_PREFERS_WAIT = re.compile(r"(?:^|[,;\s])wait=(\d{1,5}(?:\.\d{1,3})?)(?:$|[,;\s])")

_REFUSED = re.compile(r"q=0(?:\.0{0,3})?")


@dataclass(frozen=True, slots=True)
class Waiting:
    """The time that a request waits for its answer."""

    seconds: float
    preferred: bool
    """Whether the client named the time: then the answer at its end is 202, else 504."""


def waiting_of(call: Call) -> Waiting:
    """The wait that the header ``Prefer: wait=30`` asks for."""
    settings = call.gateway.settings
    match = _PREFERS_WAIT.search(call.request.headers.get("prefer", ""))
    if match is None:
        return Waiting(settings.wait_seconds, preferred=False)
    return Waiting(min(float(match[1]), settings.max_wait_seconds), preferred=True)


def wants_stream(call: Call) -> bool:
    """Whether the client accepts server-sent events."""
    return accepts_stream(call.request.headers.get("accept", ""))


def accepts_stream(accept: str) -> bool:
    """Whether the value of a header ``Accept`` names server-sent events, and not with ``q=0``, which refuses them."""
    for given in accept.lower().split(","):
        kind, *parameters = (part.strip() for part in given.split(";"))
        if kind == EVENT_STREAM:
            return not any(_REFUSED.fullmatch(parameter) for parameter in parameters)
    return False


def _counted(call: Call) -> AbstractContextManager[None]:
    """Count the request as a stream or a wait during a block; raises `Problem` (429, 503) where there are too many."""
    kind = call.gateway.streams if wants_stream(call) else call.gateway.waits
    return kind.counted(call.caller)


@dataclass(frozen=True, slots=True)
class SentAsk:
    """An ask that is in the log, and the feed in which its answer comes."""

    accepted: AskAccepted
    feed: Subscription
    resources: AsyncExitStack


async def _follow(call: Call, partition: int, offset: int | None, resources: AsyncExitStack) -> Subscription:
    """The answers in the conversation from an offset on; `None` means from now on."""
    key = call.key.encode()
    feed = call.gateway.log().subscribe(Topic.REPLIES, {partition: offset}, lambda found: found == key)
    return await resources.enter_async_context(feed)


async def _resume(
    call: Call, place: AnswerPlace, ask: tuple[str, str | None], resources: AsyncExitStack
) -> Subscription:
    """The answers from a place on, for an ask: its ``request_id`` and ``utterance_id``.

    Those that have come already are read from the log: that counts as several requests, and waits for its turn. Raises
    `Problem`: 429, and 410 where the answer came in another epoch.
    """
    here = place.epoch == call.gateway.epoch
    if not here:
        await refuse_gone(call, place.partition, ask)
    feed = await _follow(call, place.partition, place.offset if here else 0, resources)
    if feed.backlog is not None:
        call.gateway.lookups.check(call.caller)
        await call.admit(SEARCH_COST)
        feed.turn = partial(call.gateway.lookups.turn, call.caller)
    return feed


# ---- asks


async def ask(call: Call) -> Response | EventStream:
    """Add an utterance and wait for the reply."""
    body = await call.body(ASK)
    async with AsyncExitStack() as closing:
        closing.enter_context(_counted(call))  # before it is sent: a refused ask leaves nothing
        sent = await _send_ask(call, body, closing)
        return await _answered(call, sent, closing)


async def _send_ask(call: Call, body: AskBody, resources: AsyncExitStack) -> SentAsk:
    """Append the ask to the log, unless the same one was sent before, and follow the answers from that time on.

    Raises `Problem` (409, 429) and `Unavailable`.
    """
    own_id = body.request_id or body.utterance_id
    request_id, utterance_id = own_id or str(uuid4()), body.utterance_id or body.request_id or str(uuid4())
    partition = await answers_partition(call)
    feed = await _follow(call, partition, None, resources)  # before it is sent, so that no answer is missed
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
    """The note of an ask with ids of the client; its utterance must not have the id of another utterance, either."""
    name, utterance_id = names
    needed = body.at is None
    asked = noted(call, name, fresh, field="request_id" if body.request_id else "utterance_id", needed=needed)
    said = noted(call, note_name(call, "utterance", utterance_id), fresh, field="utterance_id", needed=needed)
    note, _ = await asyncio.gather(asked, said)
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
        closing.enter_context(_counted(call))
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


def too_late(request_id: str, seconds: float) -> Problem:
    """504: no answer in time."""
    detail = f"no answer within {seconds:g} seconds; it may still come: fetch it at …/asks/{{request_id}}"
    return Problem(504, detail, request_id=request_id)


def failed(reply: Reply | Recalled) -> Problem:
    """502: the responder could not answer; 409 where the ask came with the id of another utterance."""
    why = f"the responder could not answer: {reply.error}"
    status = 502
    if (reply.error or "").endswith(CONFLICT):  # used longer ago than notes are kept, or by a client of Kafka
        status, why = 409, str(used_before("utterance_id"))
    shown = reply if isinstance(reply, Reply) else None
    return Problem(status, why, request_id=reply.request_id, reply=shown)


async def next_answer(feed: Subscription, request_id: str) -> tuple[Record, Reply | Recalled]:
    """The answer to a request, with its record. Raises `Unavailable`."""
    with span("wait for the answer"):
        while True:
            record = await feed.next()
            reply = read_answer(record, request_id)
            if reply is not None:
                return record, reply


# ---- recalls


async def recall(call: Call) -> Response:
    """Memory for the caller's own prompt, without a reply."""
    body = await call.body(RECALL)
    request_id = str(uuid4())
    said = Utterance(
        tenant=call.caller.tenant,
        conversation_id=call.conversation_id,
        utterance_id=request_id,
        session_id=body.session_id,
        speaker=body.speaker,
        text=body.query,
        at=body.at or datetime.now(UTC),
        ask=Ask(
            request_id=request_id,
            record=False,
            strategy=body.strategy,
            budget_tokens=body.budget_tokens,
            wants=Wants.MEMORY,
        ),
    )
    waiting = waiting_of(call)
    async with AsyncExitStack() as closing:
        closing.enter_context(call.gateway.waits.counted(call.caller))
        feed = await _follow(call, await answers_partition(call), None, closing)
        await call.gateway.log().append([said])
        try:
            async with asyncio.timeout(waiting.seconds):
                found = await while_connected(call, next_answer(feed, request_id))
        except TimeoutError:
            raise Problem(
                504, f"no memory within {waiting.seconds:g} seconds: the stages may lag; recall again"
            ) from None
    if found is None:
        return Response(status_code=499)
    recalled = found[1]
    if recalled.error is not None:
        raise failed(recalled)
    return answer(recalled)
