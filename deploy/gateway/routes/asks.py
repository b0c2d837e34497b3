"""Routes that wait for answers: asks, their resumption, recalls, and replies given before."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar
from uuid import uuid4

from pydantic import TypeAdapter
from starlette.responses import Response

from eunoe.deploy.gateway.answers import AskAccepted
from eunoe.deploy.gateway.bodies import AskBody, RecallBody, ReplyQuery
from eunoe.deploy.gateway.calls import Call, answer, while_connected
from eunoe.deploy.gateway.problems import Problem, not_found, unavailable
from eunoe.deploy.gateway.requests_once import (
    REPLY_S,
    RequestNote,
    digest_of_body,
    note_name,
    noted,
    read_note,
    used_before,
    write_note,
)
from eunoe.deploy.gateway.routes.events import as_position
from eunoe.deploy.gateway.sse import EVENT_STREAM, EventStream, after, write_event
from eunoe.deploy.inspect.explain import read_explanation
from eunoe.schemas.errors import Unavailable
from eunoe.schemas.events import Ask, Utterance, Wants
from eunoe.schemas.replies import Recalled, Reply
from eunoe.schemas.versions import ContractError
from eunoe.streams.codec import decode
from eunoe.streams.feed import Subscription
from eunoe.streams.record import Record
from eunoe.streams.settings import partition_of
from eunoe.streams.topics import Topic
from eunoe.streams.tracing import span
from eunoe.workers.intake.sessions import CONFLICT

ASK: TypeAdapter[AskBody] = TypeAdapter(AskBody)
RECALL: TypeAdapter[RecallBody] = TypeAdapter(RecallBody)
LOOK_BACK: Final = timedelta(minutes=10)
"""The part of the log of answers that is searched where nothing says where to begin."""

AnswerT = TypeVar("AnswerT", bound=Reply | Recalled)

_PREFERS_WAIT = re.compile(r"(?:^|[,;\s])wait=(\d{1,5}(?:\.\d{1,3})?)(?:$|[,;\s])")
_RESUME = re.compile(r"(\d{1,9}):(\d{1,18})")


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
    return EVENT_STREAM in call.request.headers.get("accept", "")


@dataclass(frozen=True, slots=True)
class SentAsk:
    """An ask that is in the log, and the feed in which its answer comes."""

    accepted: AskAccepted
    feed: Subscription
    resources: AsyncExitStack


async def _place_of(call: Call) -> int:
    """The partition of the conversation's answers."""
    return partition_of(call.key.encode(), await call.gateway.log().partitions(Topic.REPLIES))


async def _follow(call: Call, partition: int, offset: int | None, resources: AsyncExitStack) -> Subscription:
    key = call.key.encode()
    feed = call.gateway.log().subscribe(Topic.REPLIES, {partition: offset}, lambda found: found == key)
    return await resources.enter_async_context(feed)


# ---- asks


async def ask(call: Call) -> Response | EventStream:
    """Add an utterance and wait for the reply."""
    body = await call.body(ASK)
    async with AsyncExitStack() as closing:
        sent = await _send_ask(call, body, closing)
        return await _answered(call, sent, closing)


async def _send_ask(call: Call, body: AskBody, resources: AsyncExitStack) -> SentAsk:
    own_id = body.request_id or body.utterance_id
    request_id, utterance_id = own_id or str(uuid4()), body.utterance_id or body.request_id or str(uuid4())
    partition = await _place_of(call)
    feed = await _follow(call, partition, None, resources)
    fresh = RequestNote(
        digest=digest_of_body(body), at=body.at or datetime.now(UTC), resume=f"{partition}:{feed.begin[partition]}"
    )
    name = note_name(call, "ask", request_id)
    # an id that was made just now was never used before
    note = fresh if own_id is None else await _claimed(call, body, fresh, (name, utterance_id))
    resume = note.resume or fresh.resume or ""
    if note.position is None:
        (place,) = await call.gateway.log().append([_utterance(call, body, request_id, utterance_id, note.at)])
        note = note.model_copy(update={"position": as_position(place)})
        # written while the answer is awaited, and there when it is given
        noting = asyncio.ensure_future(write_note(call, name, note))
        resources.push_async_callback(asyncio.wait, {noting})
    if resume != fresh.resume:  # the same ask again: its answer may have come
        feed = await _follow(call, *_read_resume(resume, partition), resources)
    accepted = AskAccepted(request_id=request_id, utterance_id=utterance_id, position=note.position, resume=resume)
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
    partition = await _place_of(call)
    given = call.request.headers.get("last-event-id")
    note = None
    if given is None:
        note = await read_note(call, note_name(call, "ask", request_id))
        given = None if note is None else note.resume
    async with AsyncExitStack() as closing:
        if given is None:
            return await _found_lately(call, request_id, partition)
        feed = await _follow(call, *_read_resume(given, partition), closing)
        accepted = AskAccepted(
            request_id=request_id,
            utterance_id=request_id,
            position=None if note is None else note.position,
            resume=given,
        )
        return await _answered(call, SentAsk(accepted, feed, closing), closing)


async def _found_lately(call: Call, request_id: str, partition: int) -> Response:
    """The answer to an ask of which nothing is noted, if it came within the last minutes."""
    found = await _search(call, partition, lambda record: read_answer(record, request_id))
    if found is None:
        raise not_found("ask")
    record, reply = found
    return await _given(call, reply, record)


def _read_resume(text: str, partition: int) -> tuple[int, int]:
    match = _RESUME.fullmatch(text)
    if match is None or int(match[1]) != partition:
        raise Problem(422, "Last-Event-ID is not that of a stream of this conversation: send it as it was received")
    return partition, int(match[2])


async def _answered(call: Call, sent: SentAsk, closing: AsyncExitStack) -> Response | EventStream:
    """The answer as the client wants it: streamed, or waited for."""
    if wants_stream(call):
        call.gateway.streams.check(call.caller)
        resources = closing.pop_all()
        resources.enter_context(call.gateway.streams.counted(call.caller))
        return call.stream(_reply_events(call, sent), resources)
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
        yield write_event("error", failed(reply).document(call.id), after(record))
    else:
        yield write_event("reply", reply, after(record))


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


def read_answer(record: Record, request_id: str) -> Reply | Recalled | None:
    """The answer in a record; `None` for the answer to another request."""
    reply = _decoded(record)
    return reply if reply is not None and reply.request_id == request_id else None


def _decoded(record: Record) -> Reply | Recalled | None:
    try:
        found = decode(record.value)
    except ContractError:
        return None
    return found if isinstance(found, Reply | Recalled) else None


# ---- recalls


async def recall(call: Call) -> Response:
    """Memory for the caller's own prompt, without a reply."""
    body = await call.body(RECALL)
    request_id = str(uuid4())
    said = Utterance(
        tenant=call.caller.tenant,
        conversation_id=call.conversation_id,
        utterance_id=request_id,
        speaker=body.speaker,
        text=body.query,
        at=datetime.now(UTC),
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
        feed = await _follow(call, await _place_of(call), None, closing)
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


# ---- replies


async def note_reply(call: Call, reply: Reply | Recalled, record: Record) -> None:
    """Note the place of a reply, so that it is found by its id."""
    if isinstance(reply, Reply):
        with suppress(Unavailable):
            name = note_name(call, "reply", reply.reply_id)
            await call.gateway.notes.write(name, f"{record.partition}:{record.offset}", REPLY_S)


async def show_reply(call: Call) -> Response:
    """A reply with what it was shown."""
    return answer(await find_reply(call))


async def find_reply(call: Call) -> Reply:
    """The reply that the path names: by what is noted of it, else among those since the time that the query names.

    Raises `Problem` (404) where it is not found.
    """
    reply_id, near = call.path["reply"], call.query(ReplyQuery).at
    place = await call.gateway.notes.read(note_name(call, "reply", reply_id))
    partition = await _place_of(call)
    if place is not None:
        record = await call.gateway.log().read_one(Topic.REPLIES, *_read_resume(place, partition))
        reply = None if record is None else _reply_in(record, call.key, reply_id)
        if reply is not None:
            return reply
    found = await _search(call, partition, lambda record: _reply_in(record, call.key, reply_id), near)
    if found is None:
        raise not_found("reply")
    return found[1]


async def explain_reply(call: Call) -> Response:
    """The reasons of a reply: its lines, the memories behind them, what made or ended these, what it did not cite."""
    reply, live = await asyncio.gather(find_reply(call), call.live())
    return answer(await read_explanation(live.store, call.key, reply))


def _reply_in(record: Record, key: str, reply_id: str) -> Reply | None:
    found = _decoded(record) if record.key == key.encode() else None
    return found if isinstance(found, Reply) and found.reply_id == reply_id else None


async def _search(
    call: Call, partition: int, read: Callable[[Record], AnswerT | None], near: datetime | None = None
) -> tuple[Record, AnswerT] | None:
    """The first answer that ``read`` finds among those from some minutes before ``near``, or now, on."""
    log, key = call.gateway.log(), call.key.encode()
    begin = await log.offset_at(Topic.REPLIES, partition, (near or datetime.now(UTC)) - LOOK_BACK)
    async for record in log.read_range(Topic.REPLIES, partition, begin):
        found = read(record) if record.key == key else None
        if found is not None:
            return record, found
    return None
