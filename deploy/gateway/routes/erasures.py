"""Routes that ask for erasures and tell how far they have come; an eraser carries them out."""

from datetime import UTC, datetime
from typing import Final
from uuid import uuid4

from pydantic import TypeAdapter
from starlette.responses import Response

from eunoe.deploy.gateway.bodies import MAX_PAGE, EraseBody
from eunoe.deploy.gateway.calls import Call, answer, while_connected
from eunoe.deploy.gateway.erasures import Entries, ErasurePage, ErasurePlan, read_entries
from eunoe.deploy.gateway.problems import Problem, not_found
from eunoe.deploy.gateway.reads import closed_session, read_head
from eunoe.deploy.gateway.requests_once import used_before
from eunoe.schemas.erasure import ErasedPart, ErasureLedger, ErasureLevel, ErasureRequest
from eunoe.streams.gateway import quoted
from eunoe.workers.intake.head import Head
from eunoe.workers.stores.generations import GenerationState

ERASE: TypeAdapter[EraseBody] = TypeAdapter(EraseBody)
PLAN_COST: Final = 20
"""Requests as which a plan counts: it reads the conversation from the log."""
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
    live = await call.live()
    head = await read_head(live.store, call.key)
    if head is None:
        raise not_found("conversation")
    part = ErasedPart.of(await _ledger(call).erasures(call.key))
    _check_new(request, head, part)
    if request.session is not None and not await _has_session(call, head, request.session):
        raise not_found("session")
    for one in await call.gateway.states.generations():
        if one.made is not None and one.made.state in _BEING_MADE:
            what = "generation {} is being made; an erasure has to wait until that has ended: send it again then"
            raise Problem(409, what.format(one.name), headers={"Retry-After": "60"})


def _check_new(request: ErasureRequest, head: Head, part: ErasedPart | None) -> None:
    if part is None:
        return
    if request.erases is ErasureLevel.CONVERSATION:
        if part.numbers is not None and not head.open and head.remembered == part.numbers.remembered:
            raise Problem(409, "the conversation is erased already: nothing was said in it since")
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
