"""Waiting for an answer from the log: how long and in what form the client wants it, and the faults that it may be."""

import re
from contextlib import AbstractContextManager, AsyncExitStack
from dataclasses import dataclass

from eunoe.deploy.gateway.calls import Call
from eunoe.deploy.gateway.problems import Problem
from eunoe.deploy.gateway.requests_once import used_before
from eunoe.deploy.gateway.routes.replies import read_answer
from eunoe.deploy.gateway.sse import EVENT_STREAM
from eunoe.schemas.replies import Recalled, Reply
from eunoe.streams.feed import Subscription
from eunoe.streams.record import Record
from eunoe.streams.topics import Topic
from eunoe.streams.tracing import span
from eunoe.workers.intake.sessions import CONFLICT

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


def counted(call: Call) -> AbstractContextManager[None]:
    """Count the request as a stream or a wait during a block; raises `Problem` (429, 503) where there are too many."""
    kind = call.gateway.streams if wants_stream(call) else call.gateway.waits
    return kind.counted(call.caller)


async def follow(call: Call, partition: int, offset: int | None, resources: AsyncExitStack) -> Subscription:
    """The answers in the conversation from an offset on; `None` means from now on."""
    key = call.key.encode()
    feed = call.gateway.log().subscribe(Topic.REPLIES, {partition: offset}, lambda found: found == key)
    return await resources.enter_async_context(feed)


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
