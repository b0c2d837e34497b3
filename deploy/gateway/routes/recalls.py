"""The route of recalls: memory for a prompt of the caller's own."""

import asyncio
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from uuid import uuid4

from pydantic import TypeAdapter
from starlette.responses import Response

from eunoe.deploy.gateway.bodies import RecallBody
from eunoe.deploy.gateway.calls import Call, answer, while_connected
from eunoe.deploy.gateway.problems import Problem
from eunoe.deploy.gateway.routes.answers import failed, follow, next_answer, waiting_of
from eunoe.deploy.gateway.routes.replies import answers_partition
from eunoe.schemas.events import Ask, Utterance, Wants

RECALL: TypeAdapter[RecallBody] = TypeAdapter(RecallBody)


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
        feed = await follow(call, await answers_partition(call), None, closing)
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
