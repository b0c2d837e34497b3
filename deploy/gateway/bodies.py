"""The bodies and queries of requests."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, WithJsonSchema

from eunoe.schemas.base import Identifier, Name, SpokenTime, Text, Time, Value
from eunoe.schemas.events import DEFAULT_AGENT, Strategy
from eunoe.schemas.profile import PROFILE_TOKENS
from eunoe.streams.conversation import MAX_TEXT_BYTES

MAX_BUDGET_TOKENS: Final = 16_000
"""Largest budget of memory; a reply with more may be too large for its topic."""
MAX_PAGE: Final = 200
MAX_MEMBERS: Final = 500
"""Memories of one timeline in an answer."""
MAX_ERASED: Final = 1_000
MAX_OFFSET: Final = 2**40 - 2
"""Largest offset that a position can hold."""
ASK_PLACE: Final = r"^(\d{1,9}-)?\d{1,9}:\d{1,18}$"
"""The id of an event of an ask's stream: epoch, partition and next offset."""
FEED_PLACE: Final = r"^[A-Za-z0-9_-]{1,60}:\d{1,9}:\d{1,18}(,\d{1,9}:\d{1,18})*$"
"""The id of an event of a feed: generation with its epoch, and the next offset of each partition."""
_FIRST: Final = datetime(1900, 1, 1, tzinfo=UTC)


def _short(text: str) -> str:
    size = len(text.encode())
    if size > MAX_TEXT_BYTES:
        raise ValueError(f"has {size:,} bytes of UTF-8, the limit is {MAX_TEXT_BYTES:,}")
    return text


def _near(at: datetime) -> datetime:
    if not _FIRST <= at <= datetime.now(UTC) + timedelta(days=1):
        raise ValueError("must lie between 1900 and tomorrow")
    return at


def _number(value: object) -> object:
    if isinstance(value, str | bool):
        raise ValueError("must be a number")  # noqa: TRY004 - pydantic turns a ValueError into a fault of the field
    return value


ShortText = Annotated[Text, AfterValidator(_short), Field(max_length=MAX_TEXT_BYTES)]
"""A text of at most 32,768 bytes."""
NearTime = Annotated[Time, AfterValidator(_near)]
"""A time from 1900 to tomorrow."""
NearSpokenTime = Annotated[SpokenTime, AfterValidator(_near)]
"""A time from 1900 to tomorrow by the clock of who speaks."""
_Tokens = Annotated[int, Field(ge=1, le=MAX_BUDGET_TOKENS)]
Budget = Annotated[_Tokens, BeforeValidator(_number, json_schema_input_type=_Tokens)]
Limit = Annotated[int, Field(ge=1, le=MAX_PAGE)]


class UtteranceBody(Value):
    """An utterance."""

    type: Literal["utterance"]
    speaker: Name
    text: ShortText
    utterance_id: Identifier | None = None
    """Unset: a new id. Set it, to be able to send the utterance again without doubling it."""
    at: NearSpokenTime | None = None
    """Time of the utterance, from 1900 to tomorrow; unset: now, in UTC. With the offset of the speaker's clock
    (``2026-06-01T20:00:00-07:00``) "tomorrow" means the day after the speaker's day."""
    session_id: Identifier | None = None
    """The client's id of the session; unset: the open one."""
    reply_id: Identifier | None = None
    """Set on what an assistant said, of a model of your own any id: it becomes part of the transcript, never evidence.
    Unset: a person's words."""


class SessionEndBody(Value):
    """The end of a session."""

    type: Literal["session_ended"]
    session_id: Identifier | None = None
    """Unset: the open session, whichever it is."""
    at: NearTime | None = None
    """From 1900 to tomorrow; unset: now."""


class UtteranceLine(UtteranceBody):
    """An utterance in a batch."""

    conversation_id: Identifier


class SessionEndLine(SessionEndBody):
    """The end of a session in a batch."""

    conversation_id: Identifier


EventBody = Annotated[UtteranceBody | SessionEndBody, Field(discriminator="type")]
BatchLine = Annotated[UtteranceLine | SessionEndLine, Field(discriminator="type")]
EVENT: Final[TypeAdapter[UtteranceBody | SessionEndBody]] = TypeAdapter(EventBody)
BATCH_LINE: Final[TypeAdapter[UtteranceLine | SessionEndLine]] = TypeAdapter(BatchLine)


class AskBody(Value):
    """A question, or any utterance that wants a reply."""

    text: ShortText
    speaker: Name
    utterance_id: Identifier | None = None
    at: NearSpokenTime | None = None
    """Time of the question, best with the offset of the speaker's clock; unset: now, in UTC."""
    session_id: Identifier | None = None
    speak_as: Name = DEFAULT_AGENT
    """The participant that the responder speaks as."""
    strategy: Strategy | None = None
    budget_tokens: Budget | None = None
    """Tokens of memory in the prompt."""
    record: Annotated[bool, Field(strict=True)] = True
    """Whether the question becomes part of the session."""
    request_id: Identifier | None = None
    """Unset: a new id. The same ask sent again with the same id is answered once."""


class RecallBody(Value):
    """A query for memory."""

    query: ShortText
    speaker: Name = "user"
    """The participant who asks; names in the query are read from this one's view."""
    session_id: Identifier | None = None
    """The session whose lines are the dialogue; unset: the open one that was spoken in last."""
    strategy: Strategy | None = None
    budget_tokens: Budget | None = None
    at: NearSpokenTime | None = None
    """Time of the query, best with the offset of the asker's clock: "yesterday" is a day by it, and what ended before
    is past. Unset: now, in UTC."""


class EraseBody(Value):
    """A request to erase."""

    utterance_ids: Annotated[tuple[Identifier, ...], Field(min_length=1, max_length=MAX_ERASED)] | None = None
    """Only these utterances. An empty list is refused: it may be that of a search that found none."""
    session: Identifier | None = None
    """Only this session: a client's id of it, or the number of a closed one. Neither: the whole conversation."""
    request_id: Identifier | None = None
    """Unset: a new id. The same request sent again with the same id is carried out once."""
    at: NearTime | None = None
    """Unset: now."""


# ---- queries


class NoQuery(Value):
    """No parameters."""


class WaitQuery(Value):
    """The freshness that the answer must have."""

    wait: Literal["memory"] | None = None
    """``memory``: answer when the session is in memory, or when the timeout is over."""
    timeout: Annotated[float, Field(ge=0, le=60)] = 30.0
    """Seconds."""
    after: Annotated[int, Field(ge=0, le=MAX_OFFSET)] | None = None
    """The offset of an event of this conversation; the answer waits until it was taken in."""


class PageQuery(Value):
    """A page of a list."""

    limit: Limit = 50
    cursor: Annotated[str, Field(max_length=500)] | None = None
    """``next`` of the page before."""


class SessionPageQuery(Value):
    """A page of sessions or of what they brought, the oldest first."""

    limit: Limit = 50
    after_session: Annotated[int, Field(ge=0)] = 0


class MemoriesQuery(SessionPageQuery):
    """Memories by time and status."""

    at: Time | None = None
    """The memories as known at this time of the log."""
    status: Literal["current", "superseded", "retired", "all"] = "current"


class ProfileQuery(Value):
    """The person and the size of a profile."""

    person: Name | None = None
    """A speaker of the conversation; unset: all."""
    budget_tokens: Annotated[int, Field(ge=1, le=MAX_BUDGET_TOKENS)] = PROFILE_TOKENS
    """Tokens that its text may take."""
    at: Time | None = None
    """Event time. What was said later, and what names an earlier end, is left out; unset: now."""


class ReplyQuery(Value):
    """The time of a reply that was given long ago."""

    at: NearTime | None = None
    """Time of the reply, or of the utterance that shows it; it is looked for from ten minutes before to ten after.
    Unset: now."""


class TimelineQuery(Value):
    """A part of a timeline."""

    limit: Annotated[int, Field(ge=1, le=MAX_MEMBERS)] = MAX_MEMBERS
    """Memories of the conversation that are looked through for those of the timeline."""
    after_session: Annotated[int, Field(ge=0)] | None = None
    """Unset: up to 500 memories around the one of the path. Set: those born after this session, the oldest first."""


class DifferenceQuery(Value):
    """A comparison of two generations."""

    against: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    """The old generation; unset: the one that answers now."""
    examples: Annotated[int, Field(ge=0, le=50)] = 10
    """Examples of each kind."""


class TreeQuery(Value):
    """A place in the tree."""

    node: Identifier = "root"


class LettersQuery(Value):
    """Dead letters."""

    limit: Limit = 50
    conversation_id: Identifier | None = None
    closed: bool = False
    """Whether resolved ones are listed too."""


class StreamQuery(Value):
    """The place from which a stream goes on; the header ``Last-Event-ID`` has precedence."""

    last_event_id: (
        Annotated[str, Field(max_length=2000), WithJsonSchema({"type": "string", "pattern": FEED_PLACE})] | None
    ) = None
