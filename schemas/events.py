"""The events in the topics: those of clients, and those between stages.

Docstrings of the classes, their fields and members are published in `deploy/contracts`.
"""

import operator
from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from eunoe.schemas.base import Contract, Identifier, Name, SpokenTime, Text, Time, Value, absent
from eunoe.schemas.erasure import Asked
from eunoe.schemas.identity import conversation_key

DEFAULT_TENANT = "default"
DEFAULT_AGENT = "agent"


class Strategy(StrEnum):
    """The part of memory from which the responder retrieves."""

    SEGMENT = "segment"
    """Topic segments of earlier sessions under a token budget, in time order (SeCom, section 2)."""
    TIMELINE = "timeline"
    """Timelines of linked memories, refined for the dialogue at hand (THEANINE, sections 2.2 and 2.3)."""
    TREE = "tree"
    """All nodes of a tree of memories, searched at once (MemTree, section 3.2)."""
    CURRENT = "current"
    """The current memories (Keep Me Updated, section 4)."""
    INSIGHT = "insight"
    """Memories retrieved by the dialogue, and the insights of this session (CREEM)."""
    FUSED = "fused"
    """Candidates of all sources, scored together under one budget."""


class CloseReason(StrEnum):
    """The reason why a session ended."""

    ENDED = "ended"
    """A client ended it."""
    IDLE = "idle"
    """Nobody spoke for the idle time."""
    SUCCEEDED = "succeeded"
    """Another session opened: this one had no id, or too many were open and it was quiet for the longest time."""
    BOUNDS = "bounds"
    """It reached the limit of utterances or bytes; the next utterance opens another session."""


class Wants(StrEnum):
    """The answer that an ask wants."""

    REPLY = "reply"
    """A reply, on `replies` as a `Reply`."""
    MEMORY = "memory"
    """The memory that a reply would be based on, on `replies` as a `Recalled`; no reply is made of it."""


class Ask(Value):
    """A request for a reply to an utterance."""

    request_id: Identifier
    speak_as: Name = DEFAULT_AGENT
    """The participant that the responder speaks as."""
    record: bool = True
    """Whether the utterance becomes part of a session; if not, the ask is answered and leaves no trace in memory."""
    strategy: Strategy | None = None
    """`None` means the responder's setting."""
    budget_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    """Tokens of memory in the prompt; `None` means the responder's setting."""
    wants: Wants | None = absent()
    """`None` means a reply."""

    @model_validator(mode="after")
    def _recalls_leave_no_trace(self) -> Self:
        if self.wants is Wants.MEMORY and self.record:
            raise ValueError("an ask that wants memory is no part of a session: set record to false")
        return self


class Provenance(Value):
    """The code, the prompt and the model that made a decision, by name and version."""

    code: str
    model: str
    prompt: str | None = None
    fallback: bool = False
    """Whether the model gave no valid answer to any item, so that the offline implementation decided all of them."""
    items: int = Field(default=0, ge=0, exclude_if=operator.not_)
    """The number of items (pairs, nodes, windows) that the model was asked about; absent where it is not known."""
    fell_back: int = Field(default=0, ge=0, exclude_if=operator.not_)
    """The number of these that the offline implementation decided; absent where it is none."""


class ConversationEvent(Contract):
    """An event of one conversation."""

    tenant: Identifier = DEFAULT_TENANT
    conversation_id: Identifier

    @property
    def key(self) -> str:
        """The conversation key, which is the key of the record."""
        return conversation_key(self.tenant, self.conversation_id)


class SessionEvent(ConversationEvent):
    """An event of one numbered session; sessions are numbered 1, 2, 3 … as they close.

    The events of an open session carry the number that closes next.
    """

    session: int = Field(ge=1)

    @property
    def slot(self) -> str:
        """Distinguishes the event from others of its session while they wait for each other."""
        return self.type_tag()


# ---- events of clients


class Utterance(ConversationEvent):
    """One utterance of a participant."""

    LATEST: ClassVar[int] = 2
    ADDED: ClassVar[Mapping[str, int]] = {"ask.wants": 2}

    type: Literal["utterance"] = "utterance"
    utterance_id: Identifier
    session_id: Identifier | None = None
    """The client's id of the session, which this opens or goes on with; `None` joins the one spoken in last."""
    speaker: Name
    text: Text
    at: SpokenTime
    """Sent with the offset of the speaker's clock, "tomorrow" means the day after the speaker's day; in UTC, UTC's."""
    reply_id: Identifier | None = None
    """Set on a reply of the responder or of another model: it is part of the transcript, and never evidence."""
    ask: Ask | None = None


class SessionEnded(ConversationEvent):
    """The end of a session, from a client, or from intake after the idle time."""

    type: Literal["session_ended"] = "session_ended"
    session_id: Identifier | None = None
    """`None` means the open session that was spoken in last."""
    at: Time
    after_utterance_id: Identifier | None = None
    """Set by idle closing: the event has no effect if the session has a later utterance by now."""


class Erase(ConversationEvent):
    """A request to erase a conversation or some of its utterances; it is recorded, and an operator carries it out."""

    type: Literal["erase"] = "erase"
    request_id: Identifier
    at: Time
    utterance_ids: tuple[Identifier, ...] = ()
    """Empty means the whole conversation."""


class UtteranceErased(ConversationEvent):
    """The placeholder of an erased utterance, where a conversation is derived again; never a record of a topic."""

    type: Literal["utterance_erased"] = "utterance_erased"
    utterance_id: Identifier
    """A hash of its id."""
    session_id: Identifier | None = None
    size: int = Field(ge=0)
    """Bytes of its line as JSON."""
    text_bytes: int = Field(ge=0)
    asked: Asked = Asked.NOTHING
    is_reply: bool = False


# ---- events between stages


class Line(Value):
    """One utterance as sessions and segments carry it."""

    utterance_id: Identifier
    speaker: Name
    text: Text
    at: SpokenTime
    reply_id: Identifier | None = None

    @property
    def is_evidence(self) -> bool:
        """Whether a memory may cite it; utterances that are replies from memory are no evidence."""
        return self.reply_id is None


class InsightKind(StrEnum):
    """The relation of an insight to the memory it was blended from (CREEM, section 3)."""

    NEW = "new"
    """Nothing in memory says it."""
    REDUNDANT = "redundant"
    """It says again what memory says."""
    UPDATED = "updated"
    """It updates something in memory."""


class Insight(Value):
    """A sentence about one speaker, blended from memory and the open session at one turn."""

    kind: InsightKind
    speaker: Name
    text: Text
    evidence: tuple[Line, ...] = Field(min_length=1)
    """The cited utterances of the open session; none of them is a reply of the responder."""
    replaces: tuple[Identifier, ...] = ()
    """The memories that it supersedes; empty for a new insight."""


class SessionClosed(SessionEvent):
    """A whole session, in log order."""

    LATEST = 2
    ADDED: ClassVar = {"own_turns": 2}

    type: Literal["session_closed"] = "session_closed"
    session_id: Identifier | None = None
    lines: tuple[Line, ...]
    known_from: Time
    """The log's time of the closing; memory may know this session from then on."""
    reason: CloseReason
    continues: int | None = None
    """The number of the closed session of the same ``session_id`` that this one continues."""
    turns: tuple[int, ...] = ()
    """The numbers of the turns passed to blend since the session before closed."""
    own_turns: tuple[int, ...] | None = absent()
    """The session's own turns, where other sessions were open at the same time; `None` means ``turns``."""


class Span(Value):
    """A topic segment of a session: the lines ``first`` to ``last``, both included, counted from 0."""

    first: int = Field(ge=0)
    last: int = Field(ge=0)


class SessionSegmented(SessionEvent):
    """A session with the topic segments that tile it exactly."""

    LATEST = 2
    ADDED: ClassVar = {"own_turns": 2}

    type: Literal["session_segmented"] = "session_segmented"
    session_id: Identifier | None = None
    lines: tuple[Line, ...]
    known_from: Time
    turns: tuple[int, ...] = ()
    own_turns: tuple[int, ...] | None = absent()
    spans: tuple[Span, ...]
    made_by: Provenance


class SessionSkipped(SessionEvent):
    """A session that finally failed at a stage; later stages pass over its number and apply the next one."""

    LATEST = 2
    ADDED: ClassVar = {"own_turns": 2}

    type: Literal["session_skipped"] = "session_skipped"
    stage: str
    error: str
    turns: tuple[int, ...] = ()
    own_turns: tuple[int, ...] | None = absent()


class ReplyRequested(SessionEvent):
    """A turn: an utterance with the dialogue of the open session before it, and the ask if it has one."""

    LATEST = 3
    ADDED: ClassVar = {"opened": 2, "open_sessions": 2, "erased": 3}

    type: Literal["reply_requested"] = "reply_requested"
    turn: int | None = None
    """The number of this turn among the blended ones; `None` for an unrecorded ask, which is not blended."""
    request: Ask | None
    """`None` for an utterance that asks for nothing and is only blended."""
    question: Line
    """The utterance."""
    dialogue: tuple[Line, ...] = ()
    """The lines of the open session before it, oldest first; only the latest where there are many."""
    reply_wanted: bool = True
    """Whether somebody waits for a reply; if not, the turn is only blended."""
    opened: int | None = absent()
    """The place of its session among all that were opened, where it is not the number that closes next."""
    open_sessions: tuple[int, ...] | None = absent()
    """The places of all open sessions, where there are others beside it."""
    erased: bool | None = absent()
    """Whether the utterance was erased: the turn proposes nothing, and ``question`` says nothing."""


class LookedUp(Value):
    """The question that blend asked of memory at a turn, and what it found (CREEM, section 3.1)."""

    question: str
    memory_ids: tuple[Identifier, ...] = ()


def ask_id(request_id: str, utterance_id: str) -> str:
    """The id of an ask: clients may use a ``request_id`` again for another utterance, which is another ask."""
    return f"{request_id} {utterance_id}"


class ReplyContext(SessionEvent):
    """The input of the responder besides what it retrieves."""

    LATEST: ClassVar[int] = 3
    ADDED: ClassVar[Mapping[str, int]] = {"request.wants": 2, "looked_up": 3}

    type: Literal["reply_context"] = "reply_context"
    request: Ask
    question: Line
    dialogue: tuple[Line, ...] = ()
    insights: tuple[Insight, ...] = ()
    """The insights of the open session so far, this turn's included, in the order of turns."""
    infused: bool = False
    """Whether blend ran before this reply; if not, it is off, runs after the reply, or memory was not ready."""
    looked_up: LookedUp | None = absent()
    """`None` where memory was not asked: blend did not run, or this is the first session."""

    @property
    def ask_id(self) -> str:
        """Identifies the ask among those of its conversation."""
        return ask_id(self.request.request_id, self.question.utterance_id)
