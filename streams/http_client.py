"""The Python client of one conversation over HTTP: `MemoryClient`'s methods, recall, and the feed. Knows no Kafka."""

from collections.abc import AsyncGenerator
from datetime import datetime
from http import HTTPStatus
from typing import Any, Self
from urllib.parse import urlencode

import orjson
from pydantic import ValidationError

from eunoe.schemas.base import write_time
from eunoe.schemas.errors import Unavailable
from eunoe.schemas.events import DEFAULT_TENANT, Erase, SessionEnded, Strategy, Utterance
from eunoe.schemas.profile import PROFILE_TOKENS, PersonProfile
from eunoe.schemas.replies import Recalled, Reply
from eunoe.streams.attempts import TryAgain
from eunoe.streams.conversation import (
    MAX_TEXT_BYTES,
    AskOptions,
    ConversationClient,
    ReplyFailed,
    ReplyNotUttered,
    ReplyTimeout,
    UtteranceOptions,
    in_utc,
    with_zone,
)
from eunoe.streams.gateway import (
    GatewayConnection,
    GatewayFailed,
    GatewayProblem,
    GatewayRefused,
    GatewayRequest,
    KeySource,
    path_of,
    quoted,
)
from eunoe.streams.http_feed import FeedEvent, remembered_feed, remembered_place

__all__ = [
    "MAX_TEXT_BYTES",
    "AskOptions",
    "FeedEvent",
    "GatewayConnection",
    "GatewayFailed",
    "GatewayProblem",
    "GatewayRefused",
    "HttpMemoryClient",
    "KeySource",
    "ReplyFailed",
    "ReplyNotUttered",
    "ReplyTimeout",
    "UtteranceOptions",
    "remembered_feed",
    "remembered_place",
]


class HttpMemoryClient(ConversationClient):
    """One conversation, for a program that reaches a gateway.

    ``async with HttpMemoryClient("http://127.0.0.1:8700", key="eu_…", conversation_id="ann-1") as memory: ...`` has a
    connection of its own; with an open `GatewayConnection` in place of the address it uses that and leaves it open.

    Requests carry ids and times of their own, so that those whose answer was lost are sent again and count once.
    ``timeout`` is the longest time in seconds that an event may take with all attempts, from when it is sent: of many
    requests at once some wait for their turn. Besides the errors of
    `ConversationClient`, methods raise `GatewayRefused` where the key does not reach the conversation or the gateway
    refuses a value, and `GatewayFailed` where it fails.
    """

    def __init__(
        self,
        gateway: str | GatewayConnection,
        *,
        conversation_id: str,
        key: KeySource | None = None,
        tenant: str = DEFAULT_TENANT,
        utter_replies: bool = True,
        timeout: float = 30.0,
    ) -> None:
        """``key`` is a function, of async ones, too, where tokens expire: it is called for each request.

        ``tenant`` is that of the key, for the events that methods return; the gateway takes it from the key alone.

        Raises ``ValueError`` for an address without ``key``, and for ids that cannot be.
        """
        super().__init__(tenant=tenant, conversation_id=conversation_id, utter_replies=utter_replies)
        self._owns = not isinstance(gateway, GatewayConnection)
        if isinstance(gateway, str):
            if key is None:
                raise ValueError("key: needed with the address of a gateway")
            gateway = GatewayConnection(gateway, key)
        self._gateway = gateway
        self._path = path_of("conversations", conversation_id)
        self._timeout = timeout

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *fault: object) -> None:
        if self._owns:
            await self._gateway.stop()

    async def recall(  # noqa: PLR0913 - the fields of the request, given by name
        self,
        query: str,
        *,
        speaker: str = "user",
        session_id: str | None = None,
        strategy: Strategy | None = None,
        budget_tokens: int | None = None,
        at: datetime | None = None,
        timeout: float = 30.0,
    ) -> Recalled:
        """The memory that fits a query, packed for a prompt of at most ``budget_tokens``; no model is asked.

        It knows all that was accepted before, and has the lines of the open session ``session_id`` as its dialogue;
        `None` means the one that was spoken in last. ``at``, best with the offset of the asker's clock, is the time of
        the query: "yesterday" is a day by it, and what ended before is past; `None` means now. Raises `Unavailable`
        where the memory does not come in time, and ``ValueError`` for an ``at`` without a zone.
        """
        time = None if at is None else with_zone(at).isoformat()
        body = _given(
            query=query, speaker=speaker, session_id=session_id, strategy=strategy, budget_tokens=budget_tokens, at=time
        )
        request = GatewayRequest("POST", f"{self._path}/recall", body, waits=True)
        try:
            return Recalled.model_validate_json(await self._gateway.request(request, timeout), extra="ignore")
        except GatewayFailed as late:
            if late.status != HTTPStatus.GATEWAY_TIMEOUT:
                raise
            raise Unavailable(f"{self._gateway.url}: {late}", self._gateway.url) from None

    async def profile(
        self,
        *,
        person: str | None = None,
        budget_tokens: int = PROFILE_TOKENS,
        at: datetime | None = None,
        timeout: float = 30.0,
    ) -> PersonProfile:
        """The memory that holds now of a person, or of all, packed for a prompt of at most ``budget_tokens``.

        What was said after ``at`` (event time) or ended before is left out; `None` means now. No model is asked; its
        ``text`` has the lines. Raises ``ValueError`` for an ``at`` without a zone, `GatewayProblem` (404) for an
        unknown conversation, `Unavailable`.
        """
        time = None if at is None else write_time(in_utc(at))
        query = urlencode(_given(person=person, budget_tokens=budget_tokens, at=time))
        found = await self._gateway.request(GatewayRequest("GET", f"{self._path}/profile?{query}"), timeout)
        # a gateway of a newer version may say more
        return PersonProfile.model_validate(orjson.loads(found)["profile"], extra="ignore")

    async def place(self, *, timeout: float = 30.0) -> str:
        """The present place of the feed: read memory, then follow `remembered` from here, and nothing is missed.

        Raises `Unavailable` where no stream can be opened for ``timeout`` seconds.
        """
        return await remembered_place(self._gateway, self._conversation["conversation_id"], timeout=timeout)

    def remembered(self, *, after: str | None = None, timeout: float = 30.0) -> AsyncGenerator[FeedEvent]:
        """The sessions of the conversation as they become memory: behind the place ``after``, else from now on.

        Tells also that it was derived again, as by an erasure (`FeedEvent.derived`). Goes on by itself where the stream
        breaks, at any replica, and misses nothing. Raises `Unavailable` where no stream can be opened for ``timeout``
        seconds; the ``place`` of the last event is then where to go on. To keep a copy of memory, take `place` first.
        """
        return remembered_feed(self._gateway, self._conversation["conversation_id"], after=after, timeout=timeout)

    async def _send(self, event: Utterance | SessionEnded | Erase) -> None:
        address = "erasures" if isinstance(event, Erase) else "events"
        await self._gateway.request(GatewayRequest("POST", f"{self._path}/{address}", _body(event)), self._timeout)

    async def _answer(self, question: Utterance, request_id: str, timeout: float) -> Reply:
        try:
            return await self._followed(question, request_id, timeout)
        except GatewayRefused as refused:
            if refused.status != 410:
                raise
            raise ReplyFailed(request_id, refused.detail) from None  # it was answered, and the answer is gone

    async def _followed(self, question: Utterance, request_id: str, timeout: float) -> Reply:
        """Follow the stream of the ask; where it breaks, go on behind its last event at any replica."""
        last: str | None = None
        asking = GatewayRequest("POST", f"{self._path}/asks", _body(question))
        following = f"{self._path}/asks/{quoted(request_id)}"

        async def attempt() -> Reply:
            nonlocal last
            request = asking if last is None else GatewayRequest("GET", following, headers={"Last-Event-ID": last})
            async with self._gateway.events(request) as events:
                async for event in events:
                    last = event.id or last
                    if event.event == "reply":
                        return Reply.model_validate_json(event.data, extra="ignore")
                    if event.event == "error":
                        raise self._fault(event.data, request_id)
            raise self._gateway.ended_early()

        try:
            return await self._gateway.retried(attempt, timeout, self._gateway.waiting)
        except Unavailable:
            if last is None:  # not known to be accepted
                raise
            raise ReplyTimeout(request_id, self.key, timeout) from None

    def _fault(self, document: str, request_id: str) -> Exception:
        """The exception for an error event."""
        fault = self._gateway.problem(document)
        if isinstance(fault, GatewayProblem) and (fault.reply is not None or fault.status == 502):
            reply = _reply_in(fault)
            return ReplyFailed(request_id, (reply and reply.error) or fault.detail, reply)
        if isinstance(fault, GatewayProblem) and fault.status == 504:  # the gateway waits no longer; the client does
            return TryAgain(Unavailable(str(fault)))
        return fault


def _reply_in(problem: GatewayProblem) -> Reply | None:
    """The reply of a problem; `None` where it has none, or one of a newer version."""
    try:
        return None if problem.reply is None else Reply.model_validate(problem.reply, extra="ignore")
    except ValidationError:
        return None


def _body(event: Utterance | SessionEnded | Erase) -> dict[str, Any]:
    """The body of the request that adds an event."""
    at = event.at.isoformat()
    match event:
        case Erase():
            return _given(request_id=event.request_id, at=at, utterance_ids=list(event.utterance_ids) or None)
        case SessionEnded():
            return _given(type="session_ended", session_id=event.session_id, at=at)
    said = _given(
        utterance_id=event.utterance_id, session_id=event.session_id, speaker=event.speaker, text=event.text, at=at
    )
    if event.ask is None:
        return {"type": "utterance", **said, **_given(reply_id=event.reply_id)}
    ask = event.ask
    return said | _given(
        request_id=ask.request_id,
        speak_as=ask.speak_as,
        record=ask.record,
        strategy=ask.strategy,
        budget_tokens=ask.budget_tokens,
    )


def _given(**fields: object) -> dict[str, Any]:
    """The fields that are set."""
    return {name: value for name, value in fields.items() if value is not None}
