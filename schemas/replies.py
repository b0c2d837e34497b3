"""The answers to asks, with their sources.

Docstrings of the classes, their fields and members are published in `deploy/contracts`.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar, Literal

from pydantic import Field

from eunoe.schemas.base import Identifier, Name, SpokenTime, Value, absent
from eunoe.schemas.events import ConversationEvent, Line, Provenance, Strategy
from eunoe.schemas.relations import Relation


class Source(Value):
    """Something retrieved that a reply is based on."""

    kind: Strategy
    id: Identifier
    session: int
    at: SpokenTime
    utterance_ids: tuple[Identifier, ...]
    """The utterances behind it."""
    score: float
    memory_ids: tuple[Identifier, ...] = ()
    """The memories it shows, the oldest first."""
    relations: tuple[Relation, ...] = ()
    """Of a timeline: the relation of each memory to the next."""


class Freshness(Value):
    """The utterances that an answer knows: those of the sessions in memory, and of the open session, up to one."""

    session: int = Field(ge=0)
    """The number of the last session in the memory."""
    closed: int = Field(ge=0)
    """The number of the last session that was closed before the ask; the sessions between are not in memory yet."""
    utterance_id: Identifier | None = None
    """The last utterance that is known: of the open session, or of ``session`` where nothing was said since; `None`
    where nothing is known."""
    at: SpokenTime | None = None
    """The time of this utterance."""


class LeftOutReason(StrEnum):
    """The reason for which something that was found is not in the prompt."""

    BUDGET = "budget"
    """It did not fit into what was left of the budget."""
    RANK = "rank"
    """It ranked below all that is shown."""
    SUPERSEDED = "superseded"
    """The memories that rest on it no longer hold."""


class LeftOut(Value):
    """Something that was found for an ask and is not in the prompt."""

    reason: LeftOutReason
    session: int
    utterance_ids: tuple[Identifier, ...]
    """The utterances behind it."""
    memory_ids: tuple[Identifier, ...] = ()
    """The memories that it would have shown, or that no longer hold."""
    score: float
    """On the scale of the sources that are shown."""


class Reply(ConversationEvent):
    """The answer to an ask, with its sources."""

    LATEST: ClassVar[int] = 3
    ADDED: ClassVar[Mapping[str, int]] = {"freshness": 2, "left_out": 3}

    type: Literal["reply"] = "reply"
    reply_id: Identifier
    request_id: Identifier
    speaker: Name
    text: str
    cited: tuple[Identifier, ...] = ()
    """The utterances that the reply is based on."""
    sources: tuple[Source, ...] = ()
    """The retrieved items, in the order of the prompt."""
    context: str = ""
    """The memory as it stood in the prompt."""
    context_tokens: int = 0
    strategy: Strategy
    known_session: int = Field(ge=0)
    """The number of the last session in the memory."""
    freshness: Freshness | None = absent()
    """`None` where no answer could be given."""
    left_out: tuple[LeftOut, ...] | None = absent()
    """The best of what was found and is not in the prompt, a few of each reason; `None` where there is nothing."""
    made_by: Provenance
    error: str | None = None
    """Set when no answer could be given; ``text`` is empty then."""


class RecalledRow(Value):
    """A row of recalled memory."""

    speaker: Name
    text: str
    at: SpokenTime
    cites: tuple[Identifier, ...] = ()
    """The utterances behind it."""
    reply_id: Identifier | None = None
    """Set on an earlier reply of the responder, which is no evidence."""
    is_memory: bool = False
    """Whether the text is a memory; if not, it is an utterance."""
    holds: bool = True
    """False for a memory that was superseded or retired, and for what ended before the ask."""


class Recalled(ConversationEvent):
    """The answer to an ask that wants memory: what fits the question and the budget, with its sources."""

    LATEST: ClassVar[int] = 3
    ADDED: ClassVar[Mapping[str, int]] = {"freshness": 2, "left_out": 3}

    type: Literal["recalled"] = "recalled"
    request_id: Identifier
    text: str
    """The memory as one text, in time order, ready for a prompt."""
    tokens: int = 0
    """Tokens of the text."""
    rows: tuple[RecalledRow, ...] = ()
    """The memory row by row, in the order of the text."""
    sources: tuple[Source, ...] = ()
    dialogue: tuple[Line, ...] = ()
    """The latest lines of the open session before the question, oldest first; not part of the text."""
    strategy: Strategy
    session: int = Field(ge=1)
    """The number of the open session, or of the next one where none is open."""
    known_session: int = Field(ge=0)
    """The number of the last session in the memory."""
    freshness: Freshness | None = absent()
    """`None` where nothing could be recalled."""
    left_out: tuple[LeftOut, ...] | None = absent()
    """The best of what was found and is not in the text, a few of each reason; `None` where there is nothing."""
    error: str | None = None
    """Set when nothing could be recalled; ``text`` is empty then."""
