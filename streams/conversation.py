"""One conversation as client programs use it, whatever carries its events: over Kafka, or over HTTP."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final, TypedDict, TypeVar, Unpack
from uuid import uuid4

from pydantic import ValidationError

from eunoe.schemas.base import MAX_AGE, SpokenTime, Value
from eunoe.schemas.errors import EunoeError
from eunoe.schemas.events import DEFAULT_AGENT, Ask, ConversationEvent, Erase, SessionEnded, Strategy, Utterance
from eunoe.schemas.replies import Reply
from eunoe.schemas.versions import describe

MAX_TEXT_BYTES: Final = 32_768
"""UTF-8 bytes of one utterance; intake dead-letters longer ones."""

ValueT = TypeVar("ValueT", bound=Value)


class ReplyTimeout(EunoeError):
    """No reply came in time. The ask is in the log and may still be answered."""

    def __init__(self, request_id: str, key: str, seconds: float) -> None:
        super().__init__(
            f"no reply to request {request_id} of {key} within {seconds:g} s: check that the workers of intake and"
            " respond run and keep up, and whether `eunoe dead-letters list` shows the ask"
        )
        self.request_id = request_id


class ReplyFailed(EunoeError):
    """The responder could not answer; the text has the reason."""

    def __init__(self, request_id: str, why: str, reply: Reply | None = None) -> None:
        super().__init__(f"request {request_id}: {why}")
        self.request_id = request_id
        self.reply = reply
        """The reply with the error; `None` where it is of a newer version than this client."""


class ReplyNotUttered(EunoeError):
    """``reply`` came, but adding it to the conversation failed; `ConversationClient.utter_reply` adds it."""

    def __init__(self, message: str, reply: Reply) -> None:
        super().__init__(message)
        self.reply = reply


class TurnOptions(TypedDict, total=False):
    """Options of an utterance and of an ask."""

    at: datetime
    """Time of the utterance, with a zone; "tomorrow" is the day after its day there. Default: now, in UTC."""
    utterance_id: str
    """Default: a new id. An utterance sent again with the same id and content counts once."""
    session_id: str | None
    """The client's name for the session; `None` means the open one."""


class UtteranceOptions(TurnOptions, total=False):
    """Options of an utterance."""

    reply_id: str | None
    """Set on a reply of a model that was shown, of your own any id: part of the transcript, and never evidence."""


class AskOptions(TurnOptions, total=False):
    """Options of an ask."""

    record: bool
    """Whether question and reply become part of the session; default: true."""
    strategy: Strategy | None
    budget_tokens: int | None
    """Most tokens of memory in the prompt."""
    timeout: float
    """Seconds to wait for the reply; default: 30."""
    speak_as: str
    """Name of the participant that the responder speaks as."""
    request_id: str


class ConversationClient(ABC):
    """One conversation, for the program of a participant.

    A wrong argument is a ``ValueError`` before anything is sent. The log has the events in the order of the awaited
    calls.
    """

    def __init__(self, *, tenant: str, conversation_id: str, utter_replies: bool) -> None:
        self._conversation = {"tenant": tenant, "conversation_id": conversation_id}
        self.key = checked(ConversationEvent, **self._conversation).key
        self._utter_replies = utter_replies

    @abstractmethod
    async def _send(self, event: Utterance | SessionEnded | Erase) -> None:
        """Append an event to the log; raises `Unavailable` where it may not be there."""

    @abstractmethod
    async def _answer(self, question: Utterance, request_id: str, timeout: float) -> Reply:
        """Append a question and wait for its reply; raises `ReplyTimeout`, `ReplyFailed`, `Unavailable`."""

    async def utter(self, text: str, *, speaker: str, **options: Unpack[UtteranceOptions]) -> Utterance:
        """Add an utterance; returns it when the log has it.

        Raises ``ValueError`` for invalid arguments, `Unavailable` when no server answers. The log may have the
        utterance all the same; send it again with the same ``utterance_id`` and ``at``.
        """
        _check_names("utter", options, UtteranceOptions)
        said = self._utterance(text, speaker, options, reply_id=options.get("reply_id"))
        await self._send(said)
        return said

    async def end_session(self, session_id: str | None = None, *, at: datetime | None = None) -> SessionEnded:
        """End a session, the open one unless named; returns the event when the log has it."""
        ended = checked(SessionEnded, **self._conversation, session_id=session_id, at=_time_of(at))
        await self._send(ended)
        return ended

    async def erase(self, utterance_ids: Iterable[str] | None = None, *, at: datetime | None = None) -> Erase:
        """Request to erase these utterances, or without the argument the whole conversation; returns the event.

        Over HTTP an eraser carries the request out. In Kafka it is only recorded, for a record does not prove who
        sent it: use ``eunoe erase`` there. Raises ``ValueError`` for ids that are none: they may be those of a search
        that found nothing; and for one text, each character of which would be an id.
        """
        if isinstance(utterance_ids, str | bytes):
            raise ValueError("utterance_ids: is one text; give a list of ids, also of one")  # noqa: TRY004 - as all wrong arguments
        named = () if utterance_ids is None else tuple(utterance_ids)
        if utterance_ids is not None and not named:
            raise ValueError("utterance_ids: names none; leave it out to erase the whole conversation")
        fields = {"request_id": new_id(), "at": _time_of(at), "utterance_ids": named}
        erase = checked(Erase, **self._conversation, **fields)
        await self._send(erase)
        return erase

    async def ask(self, text: str, *, speaker: str, **options: Unpack[AskOptions]) -> Reply:
        """Add an utterance and wait for the reply, which is added too unless the option ``record`` is false.

        Raises ``ValueError`` and `Unavailable` as `utter` does, `ReplyTimeout` when no reply comes in time,
        `ReplyFailed` for a reply with an error, and `ReplyNotUttered` where only adding the reply failed.
        """
        _check_names("ask", options, AskOptions)
        timeout = options.get("timeout", 30.0)
        ask = _ask_of(options)
        question = self._utterance(text, speaker, options, ask=ask)
        reply = await self._answer(question, ask.request_id, timeout)
        if ask.record and self._utter_replies and reply.text.strip():
            try:
                now = datetime.now(question.at.tzinfo)  # by the clock of the question: both are of one day
                await self.utter_reply(reply, session_id=question.session_id, at=now)
            except (EunoeError, ValueError) as fault:
                raise ReplyNotUttered(f"reply not uttered: {reply.reply_id}: {fault}", reply) from fault
        return reply

    async def utter_reply(
        self, reply: Reply, *, session_id: str | None = None, at: datetime | None = None
    ) -> Utterance:
        """Add a reply that was shown: it becomes part of the transcript, never evidence for a memory.

        The utterance has the id of the reply, so that it counts once; sent again, it needs the same ``at``. `ask` calls
        this, unless the client was made with ``utter_replies=False``.
        """
        return await self.utter(
            reply.text,
            speaker=reply.speaker,
            utterance_id=reply.reply_id,
            session_id=session_id,
            reply_id=reply.reply_id,
            at=at or datetime.now(UTC),
        )

    def _utterance(self, text: str, speaker: str, options: TurnOptions, **more: Any) -> Utterance:  # noqa: ANN401
        said = checked(
            Utterance,
            **self._conversation,
            **more,
            utterance_id=options.get("utterance_id") or new_id(),
            session_id=options.get("session_id"),
            speaker=speaker,
            text=text,
            at=_time_of(options.get("at")),
        )
        size = len(said.text.encode())
        if size > MAX_TEXT_BYTES:
            raise ValueError(f"text: has {size:,} bytes of UTF-8, limit is {MAX_TEXT_BYTES:,}")
        return said


def _check_names(method: str, given: Iterable[str], options: type[TurnOptions]) -> None:
    """Raise ``TypeError`` for an option that does not exist, as Python does for a parameter."""
    unknown = sorted(set(given) - options.__annotations__.keys())
    if unknown:
        raise TypeError(f"{method}() got an unexpected keyword argument {unknown[0]!r}")


def _ask_of(options: AskOptions) -> Ask:
    timeout = options.get("timeout", 30.0)
    if not timeout > 0:
        raise ValueError(f"timeout: must be over 0 seconds, got {timeout:g}")
    return checked(
        Ask,
        request_id=options.get("request_id") or new_id(),
        speak_as=options.get("speak_as", DEFAULT_AGENT),
        record=options.get("record", True),
        strategy=options.get("strategy"),
        budget_tokens=options.get("budget_tokens"),
    )


def checked(model: type[ValueT], **fields: object) -> ValueT:
    """A value of these fields; raises ``ValueError`` that names each wrong field and its fault."""
    for name, value in fields.items():
        if isinstance(value, str) and not _is_unicode(value):
            raise ValueError(f"{name}: holds a lone surrogate, which has no UTF-8 form")
    try:
        return model.model_validate(fields)
    except ValidationError as fault:
        raise ValueError(describe(fault)) from None


class _Moment(Value):
    at: SpokenTime


def with_zone(at: datetime) -> datetime:
    """The time by its own clock; raises ``ValueError`` for one without a zone: the clock of no machine is meant."""
    return checked(_Moment, at=at).at


def in_utc(at: datetime) -> datetime:
    """The time ``at`` in UTC; raises ``ValueError`` for one without a zone."""
    return with_zone(at).astimezone(UTC)


def _time_of(given: datetime | None) -> datetime:
    """The time ``at`` of an event by its own clock, now in UTC where none is given.

    Raises ``ValueError`` for one that intake would refuse.
    """
    now = datetime.now(UTC)
    at = now if given is None else checked(_Moment, at=given).at
    if abs(at - now) > MAX_AGE:
        raise ValueError(f"at: is over {MAX_AGE.days // 365} years from now")
    return at


def _is_unicode(text: str) -> bool:
    try:
        return bool(text.encode()) or not text
    except UnicodeEncodeError:
        return False


def new_id() -> str:
    """A new id."""
    return str(uuid4())
