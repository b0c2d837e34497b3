"""Replies given before: the log of answers, and the routes that show one or explain it."""

import math
from collections.abc import Callable
from contextlib import aclosing, suppress
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from starlette.responses import Response

from eunoe.deploy.gateway.answer_place import AnswerPlace
from eunoe.deploy.gateway.bodies import ReplyQuery
from eunoe.deploy.gateway.calls import Call, answer, while_connected
from eunoe.deploy.gateway.lookups import READ_COST, SEARCH_COST
from eunoe.deploy.gateway.problems import Problem, not_found
from eunoe.deploy.gateway.requests_once import REPLY_S, note_name
from eunoe.deploy.inspect.explain import read_explanation
from eunoe.schemas.decisions import Scope
from eunoe.schemas.errors import Unavailable
from eunoe.schemas.events import ask_id
from eunoe.schemas.replies import Recalled, Reply
from eunoe.schemas.versions import ContractError
from eunoe.streams.codec import decode
from eunoe.streams.record import Record
from eunoe.streams.settings import partition_of
from eunoe.streams.topics import Topic

LOOK_BACK: Final = timedelta(minutes=10)
"""The log of answers is searched from so long before a time until so long after it."""
RESPOND: Final = "respond"
_NO_TIME: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""The log holds nothing before."""

AnswerT = TypeVar("AnswerT", bound=Reply | Recalled)


# ---- the log of answers


async def answers_partition(call: Call) -> int:
    """The partition of the conversation's answers."""
    return partition_of(call.key.encode(), await call.gateway.log().partitions(Topic.REPLIES))


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


async def search_answers(
    call: Call, partition: int, read: Callable[[Record], AnswerT | None], near: datetime | None = None
) -> tuple[Record, AnswerT] | None:
    """The first answer that ``read`` finds among those from some minutes before ``near``, or now, until some after.

    Raises `Problem` (429) where the key has made too many requests; a search counts as many.
    """
    await _admit(call, SEARCH_COST)
    middle = near or datetime.now(UTC)
    last_ms = (middle + LOOK_BACK).timestamp() * 1000
    async with call.gateway.lookups.turn(call.caller):
        first = max(middle - LOOK_BACK, _NO_TIME)
        begin = await call.gateway.log().offset_at(Topic.REPLIES, partition, first)
        return await _first_answer(call, (partition, begin), read, last_ms)


async def holds_answer(call: Call, partition: int, read: Callable[[Record], AnswerT | None]) -> bool:
    """Whether ``read`` finds an answer among all that the log of answers holds now.

    Raises `Problem` (429) where the key has made too many requests; it counts as a search.
    """
    await _admit(call, SEARCH_COST)
    async with call.gateway.lookups.turn(call.caller):
        return await _first_answer(call, (partition, 0), read, math.inf) is not None


async def _first_answer(
    call: Call, begin: tuple[int, int], read: Callable[[Record], AnswerT | None], last_ms: float
) -> tuple[Record, AnswerT] | None:
    """The first answer of the conversation that ``read`` finds from a partition and offset on, up to a time."""
    key = call.key.encode()
    async with aclosing(call.gateway.log().read_range(Topic.REPLIES, *begin)) as records:
        async for record in records:
            if record.timestamp_ms > last_ms:
                return None
            found = read(record) if record.key == key else None
            if found is not None:
                return record, found
    return None


async def refuse_gone(call: Call, partition: int, ask: tuple[str, str | None]) -> None:
    """Raise `Problem` (410) for an ask that was answered, and whose answer the log of answers does not hold.

    What was not answered before the log began anew is answered in it.
    """
    request_id, utterance_id = ask
    scope = Scope(RESPOND, call.key, request_id=ask_id(request_id, utterance_id or request_id))
    ledger = await (await call.live()).store.ledger(scope)
    if not ledger.applied or ledger.outbox is not None:
        return  # it comes yet
    if not await holds_answer(call, partition, lambda record: read_answer(record, request_id)):
        detail = "the answer came before the log of answers was made anew, as by a start of `eunoe up`, and is gone"
        again = "ask again, with another request_id and utterance_id"
        raise Problem(410, f"{detail}: {again}", request_id=request_id)


async def _admit(call: Call, cost: int) -> None:
    """Count a lookup in the log; raises `Problem` (429)."""
    call.gateway.lookups.check(call.caller)
    await call.admit(cost)


# ---- routes


async def note_reply(call: Call, reply: Reply | Recalled, record: Record) -> None:
    """Note the place of a reply, so that it is found by its id."""
    if isinstance(reply, Reply):
        with suppress(Unavailable):
            name = note_name(call, "reply", reply.reply_id)
            await call.gateway.notes.write(name, str(AnswerPlace.of(record, call.gateway.epoch)), REPLY_S)


async def show_reply(call: Call) -> Response:
    """A reply with what it was shown."""
    found = await while_connected(call, find_reply(call))
    return Response(status_code=499) if found is None else answer(found)


async def find_reply(call: Call) -> Reply:
    """The reply that the path names: by what is noted of it, else among those since the time that the query names.

    Raises `Problem`: 404 where it is not found, 429.
    """
    reply_id, near = call.path["reply"], call.query(ReplyQuery).at
    noted = await call.gateway.notes.read(note_name(call, "reply", reply_id))
    partition = await answers_partition(call)
    place = None if noted is None else AnswerPlace.read(noted, partition)
    if place is not None and place.epoch == call.gateway.epoch:
        await _admit(call, READ_COST)
        async with call.gateway.lookups.turn(call.caller):
            record = await call.gateway.log().read_one(Topic.REPLIES, partition, place.offset)
        reply = None if record is None else _reply_in(record, call.key, reply_id)
        if reply is not None:
            return reply
    found = await search_answers(call, partition, lambda record: _reply_in(record, call.key, reply_id), near)
    if found is None:
        raise not_found("reply")
    return found[1]


async def explain_reply(call: Call) -> Response:
    """The reasons of a reply: its lines, the memories behind them, what made or ended these, what it did not cite."""
    live = await call.live()
    reply = await while_connected(call, find_reply(call))
    if reply is None:
        return Response(status_code=499)
    return answer(await read_explanation(live.store, call.key, reply))


def _reply_in(record: Record, key: str, reply_id: str) -> Reply | None:
    found = _decoded(record) if record.key == key.encode() else None
    return found if isinstance(found, Reply) and found.reply_id == reply_id else None
