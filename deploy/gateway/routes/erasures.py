"""Routes that ask for erasures and tell how far they have come; an eraser carries them out."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Final
from uuid import uuid4

from pydantic import TypeAdapter
from starlette.responses import Response

from eunoe.deploy.gateway.bodies import MAX_PAGE, EraseBody
from eunoe.deploy.gateway.calls import Call, answer, while_connected
from eunoe.deploy.gateway.erasures import Entries, ErasurePage, ErasurePlan, read_entries
from eunoe.deploy.gateway.lookups import READ_COST
from eunoe.deploy.gateway.ports import LiveState
from eunoe.deploy.gateway.problems import Problem, not_found
from eunoe.deploy.gateway.reads import INTAKE, closed_session, read_head, read_progress
from eunoe.deploy.gateway.requests_once import used_before
from eunoe.schemas.erasure import ErasedPart, ErasureLedger, ErasureLevel, ErasureRequest
from eunoe.schemas.position_ports import ReadPartition
from eunoe.streams.gateway import quoted
from eunoe.streams.position import split_position
from eunoe.streams.record import Record
from eunoe.streams.sealed.log import position_in_log
from eunoe.streams.settings import partition_of
from eunoe.streams.topics import Topic
from eunoe.workers.intake.head import Head
from eunoe.workers.stores.records.generations import GenerationState

ERASE: TypeAdapter[EraseBody] = TypeAdapter(EraseBody)
PLAN_COST: Final = 20
"""Requests as which a plan counts: it reads the conversation from the log."""
_LOOK_S: Final = 1.0
"""Seconds for which the log is searched for what intake has not taken in."""
_BEING_MADE: Final = (GenerationState.BUILDING, GenerationState.MOVING, GenerationState.PARTIAL)


async def add_erasure(call: Call) -> Response:
    """Request to erase utterances, a session or all of a conversation; the answer says how far it is."""
    request = _request(call, await call.body(ERASE))
    ledger = _ledger(call)
    entries = await read_entries(ledger, call.key)
    same = next((one for one in entries if (one.request or one.begun) and _id(one) == request.request_id), None)
    if same is None:
        await _check(call, request)
        await ledger.request(request)
        same = Entries(request=request)
    elif not same.is_for(request):
        raise used_before("request_id")
    location = f"{call.sent_path}/{quoted(request.request_id)}"
    return answer(same.view(with_receipt=True), 202, {"Location": location})


async def plan_erasure(call: Call) -> Response:
    """The extent of an erasure, by place; nothing is changed."""
    request = _request(call, await call.body(ERASE))
    await call.admit(PLAN_COST)
    _ledger(call)
    await _check(call, request)
    planning = call.gateway.plans.plan(call.caller.tenant, call.conversation_id, request)
    found: ErasurePlan | None = await while_connected(call, planning)
    return Response(status_code=499) if found is None else answer(found)


async def list_erasures(call: Call) -> Response:
    """The erasures of a conversation, the latest last, without their receipts."""
    entries = await read_entries(_ledger(call), call.key)
    if not entries and await read_head((await call.live()).store, call.key) is None:
        raise not_found("conversation")
    return answer(ErasurePage(erasures=tuple(one.view() for one in entries[-MAX_PAGE:]), more=len(entries) > MAX_PAGE))


async def show_erasure(call: Call) -> Response:
    """Progress of an erasure, with its receipt where it is done."""
    for one in await read_entries(_ledger(call), call.key):
        if _id(one) == call.path["erasure"]:
            return answer(one.view(with_receipt=True))
    raise not_found("erasure")


def _id(entries: Entries) -> str:
    given = entries.request or entries.begun
    assert given is not None
    return given.request_id


def _ledger(call: Call) -> ErasureLedger:
    if call.gateway.erasures is None:
        raise Problem(503, "nothing can be erased here: the operator has set no ledger of erasures (EUNOE_ERASURES)")
    return call.gateway.erasures


def _request(call: Call, body: EraseBody) -> ErasureRequest:
    if body.utterance_ids is not None and body.session is not None:
        raise Problem(422, "give utterance_ids or session, not both; neither means the whole conversation")
    return ErasureRequest(
        request_id=body.request_id or str(uuid4()),
        key=call.key,
        at=body.at or datetime.now(UTC),
        utterance_ids=tuple(dict.fromkeys(body.utterance_ids or ())),
        session=body.session,
    )


async def _check(call: Call, request: ErasureRequest) -> None:
    """Raise `Problem` for what is known now: unknown (404), erased already, a generation being made (409)."""
    part = ErasedPart.of(await _ledger(call).erasures(call.key))
    _check_new(request, part)
    problem = await _not_there(call, request, part)
    if problem is not None and not await _may_say_more(call):
        raise problem
    for one in await call.gateway.states.generations():
        if one.made is not None and one.made.state in _BEING_MADE:
            what = "generation {} is being made; an erasure has to wait until that has ended: send it again then"
            raise Problem(409, what.format(one.name), headers={"Retry-After": "60"})


async def _not_there(call: Call, request: ErasureRequest, part: ErasedPart | None) -> Problem | None:
    """The reason why there is nothing to erase in what intake has taken in; `None` where there is something."""
    head = await read_head((await call.live()).store, call.key)
    if head is None:
        return not_found("conversation")
    if _is_erased(request, head, part):
        return Problem(409, "the conversation is erased already: nothing was said in it since")
    if request.session is not None and not await _has_session(call, head, request.session):
        return not_found("session")
    return None


def _is_erased(request: ErasureRequest, head: Head, part: ErasedPart | None) -> bool:
    """Whether all of the conversation is to go, and intake has taken in nothing since that was erased."""
    if request.erases is not ErasureLevel.CONVERSATION or part is None or part.numbers is None:
        return False
    return not head.open and head.remembered == part.numbers.remembered


async def _may_say_more(call: Call) -> bool:
    """Whether the log may hold records of the conversation that intake has not taken in: an erasure waits for them."""
    await call.admit(READ_COST)
    live, log, key = await call.live(), call.gateway.log(), call.key.encode()
    partition = partition_of(key, await log.partitions(Topic.CONVERSATIONS))
    taken = max((await read_progress(live.store, call.key)).position, await _handled(live, partition))
    epoch, offset = split_position(taken) if taken else (live.epoch, -1)
    begin = offset + 1 if epoch == live.epoch else 0
    records = log.read_range(Topic.CONVERSATIONS, partition, begin)
    try:
        async with asyncio.timeout(_LOOK_S), call.gateway.lookups.turn(call.caller), aclosing(records):
            return await _goes_on(records, key, taken, live.epoch)
    except TimeoutError:  # the eraser finds out
        return True


async def _handled(live: LiveState, partition: int) -> int:
    """The position up to which intake has handled a partition; 0 where that is not known."""
    if live.handled is None:
        return 0
    shown = await live.handled.stored(ReadPartition(INTAKE, Topic.CONVERSATIONS, partition))
    return min((at.position for at in shown.values()), default=0)


async def _goes_on(records: AsyncGenerator[Record], key: bytes, taken: int, epoch: int) -> bool:
    """Whether a record is of the conversation and behind a position; a start of `eunoe up` copies those before it."""
    async for record in records:
        if record.key == key and position_in_log(record, epoch) > taken:
            return True
    return False


def _check_new(request: ErasureRequest, part: ErasedPart | None) -> None:
    if part is None or request.erases is ErasureLevel.CONVERSATION:
        return
    gone = [id_ for id_ in request.utterance_ids if part.hashed(id_) in part.refused]
    if gone:
        raise Problem(409, f"erased already: {', '.join(gone[:10])}{' …' if len(gone) > 10 else ''}")


async def _has_session(call: Call, head: Head, session: str) -> bool:
    if session.isdecimal() and 1 <= int(session[:18]) <= head.closed:
        return True
    if any(one.session_id == session for one in head.open):
        return True
    return await closed_session((await call.live()).store, call.key, session) is not None
