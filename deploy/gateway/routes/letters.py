"""Routes of dead letters."""

import base64
from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import quote

from starlette.responses import Response

from eunoe.deploy.gateway.bodies import LettersQuery
from eunoe.deploy.gateway.calls import Call, answer
from eunoe.deploy.gateway.operation_results import LetterPage, LetterView
from eunoe.deploy.gateway.problems import Problem, not_found
from eunoe.deploy.inspect.dead_letters import close, letter_id, retry_obstacle
from eunoe.schemas.identity import conversation_key
from eunoe.streams.dead_letters import Closing, Filed, is_content
from eunoe.streams.record import Record
from eunoe.streams.retries import retry_message
from eunoe.streams.topics import Topic


async def list_letters(call: Call) -> Response:
    """The dead letters of the tenant, the latest last."""
    query = call.query(LettersQuery)
    found = await call.gateway.letters.of_tenant(call.caller.tenant, call.caller.conversations)
    if query.conversation_id is not None:
        wanted = _key_test(call.caller.tenant, query.conversation_id)
        found = [filed for filed in found if (filed.letter.key or "").endswith(wanted)]
    found = [filed for filed in found if query.closed or filed.closed is None]
    shown = found[-query.limit :]
    return answer(LetterPage(letters=tuple(map(_view, shown)), more=len(found) > len(shown)))


def _key_test(tenant: str, conversation_id: str) -> str:
    """The end of the keys of a conversation; for all tenants only its own part is known."""
    return f"/{quote(conversation_id, safe='')}" if tenant == "*" else conversation_key(tenant, conversation_id)


async def show_letter(call: Call) -> Response:
    """One dead letter, with its raw bytes."""
    filed = await _found(call)
    record = await _stored(call, filed)
    return answer(_view(filed).model_copy(update={"value": base64.b64encode(record.value).decode()}))


async def retry_letter(call: Call) -> Response:
    """Send the record of a dead letter back to its stage."""
    filed = await _found(call)
    obstacle = retry_obstacle(filed)
    if obstacle is not None:
        raise Problem(409, f"it cannot be retried: {obstacle}")
    record = await _original(call, filed)
    await call.gateway.log().publisher.publish([retry_message(filed.letter, record)])
    return await _closed(call, filed, Closing.RETRIED)


async def discard_letter(call: Call) -> Response:
    """Mark a dead letter as resolved."""
    filed = await _found(call)
    if filed.closed is not None:
        raise Problem(409, f"it was {filed.closed.how.value} before")
    return await _closed(call, filed, Closing.DISCARDED)


async def _closed(call: Call, filed: Filed, how: Closing) -> Response:
    await close(call.gateway.log().publisher, [filed], how)
    return answer(_view(filed).model_copy(update={"closed": f"{how.value} {datetime.now(UTC):%Y-%m-%dT%H:%MZ}"}))


async def _found(call: Call) -> Filed:
    caller = call.caller
    filed = await call.gateway.letters.find(caller.tenant, caller.conversations, call.path["letter"])
    if filed is None:
        raise not_found("dead letter")
    return filed


async def _stored(call: Call, filed: Filed) -> Record:
    """The record of the letter itself, with its bytes."""
    place = filed.record
    record = await call.gateway.log().read_one(Topic.DEAD_LETTERS, place.partition, place.offset)
    opened = None if record is None else await call.gateway.letters.opened(record)
    if opened is None:
        raise not_found("dead letter")
    return opened


async def _original(call: Call, filed: Filed) -> Record:
    """The complete record of a letter; that of a truncated one is read where it came from."""
    letter = filed.letter
    if not letter.truncated:
        return replace(await _stored(call, filed), topic=letter.topic)
    record = await call.gateway.log().read_one(letter.topic, letter.partition, letter.offset)
    if record is None or not is_content(filed, record.value):
        raise Problem(409, "it cannot be retried: the letter holds only its first bytes, and the record is gone")
    return record


def _view(filed: Filed) -> LetterView:
    obstacle = retry_obstacle(filed)
    closed = filed.closed
    return LetterView(
        id=letter_id(filed.letter),
        letter=filed.letter,
        closed=None if closed is None else f"{closed.how.value} {closed.at:%Y-%m-%dT%H:%MZ}",
        retryable=obstacle is None,
        obstacle=obstacle,
    )
