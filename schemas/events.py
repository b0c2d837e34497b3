"""The events in the topics: those of clients, those between stages, and replies.

Docstrings of the classes, their fields and members are published in `deploy/contracts`.
"""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from eunoe.schemas.base import Contract, Identifier, Name, Text, Time, Value
from eunoe.schemas.identity import conversation_key
from eunoe.schemas.relations import Relation

DEFAULT_TENANT = "default"
DEFAULT_AGENT = "agent"


class Strategy(StrEnum):
    """Where the responder looks for what it remembers."""

    SEGMENT = "segment"
    """Topic segments of earlier sessions under a token budget, in time order (SeCom, section 2)."""
    TIMELINE = "timeline"
    """Timelines of linked memories, refined for the dialogue at hand (THEANINE, sections 2.2 and 2.3)."""
    TREE = "tree"
    """All nodes of a tree of memories, searched at once (MemTree, section 3.2)."""
    CURRENT = "current"
    """The memories that hold now (Keep Me Updated, section 4)."""
    INSIGHT = "insight"
    """Memories called up by the dialogue, and the insights of this session (CREEM)."""
    FUSED = "fused"
    """Candidates of all sources, scored together under one budget."""


class CloseReason(StrEnum):
    """Why a session ended."""

    ENDED = "ended"
    """A client said so."""
    IDLE = "idle"
    """Nobody spoke for the idle time."""
    SUCCEEDED = "succeeded"
    """An utterance of another session came."""
    BOUNDS = "bounds"
    """It reached the bound of utterances or bytes; what follows is the next session."""


class Ask(Value):
    """The wish for a reply to an utterance."""

    request_id: Identifier
    speak_as: Name = DEFAULT_AGENT
    """The participant that the responder speaks as."""
    record: bool = True
    """False: a probe. It is answered, but becomes no part of any session."""
    strategy: Strategy | None = None
    """None: the responder's setting."""
    budget_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    """Tokens of memory in the prompt; None: the responder's setting."""


class Provenance(Value):
    """What decided: the code, the prompt and the model, by name and version."""

    code: str
    model: str
    prompt: str | None = None
    fallback: bool = False
    """True: the model's answer failed its checks twice, so the offline twin decided."""


class ConversationEvent(Contract):
    """An event of one conversation."""

    tenant: Identifier = DEFAULT_TENANT
    conversation_id: Identifier

    @property
    def key(self) -> str:
        """The conversation key, which is the key of the record."""
        return conversation_key(self.tenant, self.conversation_id)


class SessionEvent(ConversationEvent):
    """An event of one numbered session; a conversation's sessions are numbered 1, 2, 3 … in log order."""

    session: int = Field(ge=1)

    @property
    def slot(self) -> str:
        """Distinguishes the event from others of its session while they wait for each other."""
        return self.type_tag()


# ---- events of clients


class Utterance(ConversationEvent):
    """Somebody said something."""

    type: Literal["utterance"] = "utterance"
    utterance_id: Identifier
    session_id: Identifier | None = None
    """The client's name for the session; a new one closes the open session, None joins the open one."""
    speaker: Name
    text: Text
    at: Time
    reply_id: Identifier | None = None
    """Set when this is a reply that the responder gave: it is transcript, never evidence."""
    ask: Ask | None = None


class SessionEnded(ConversationEvent):
    """The session is over, says a client, or intake itself after the idle time."""

    type: Literal["session_ended"] = "session_ended"
    session_id: Identifier | None = None
    """None: the open session, whichever it is."""
    at: Time
    after_utterance_id: Identifier | None = None
    """Set by idle closing: void if the session's last utterance is another one by now."""


class Erase(ConversationEvent):
    """A person's wish to be forgotten; recorded, and acted on by the eraser."""

    type: Literal["erase"] = "erase"
    request_id: Identifier
    at: Time
    utterance_ids: tuple[Identifier, ...] = ()
    """Empty: the whole conversation."""


class GenerationPromoted(Contract):
    """From here on another generation of the memory answers; one in every partition of ``conversations``, no key."""

    type: Literal["generation_promoted"] = "generation_promoted"
    generation: Identifier
    at: Time
    nonce: Identifier | None = None
    """The word that `eunoe promote` left in the state store before: without it the record is believed by nobody."""
    log: int | None = Field(default=None, ge=1)
    """Where the partitions change: the number of the log that this generation reads, and that clients go on with."""


# ---- events between stages


class Line(Value):
    """One utterance as sessions and segments carry it."""

    utterance_id: Identifier
    speaker: Name
    text: Text
    at: Time
    reply_id: Identifier | None = None

    @property
    def is_evidence(self) -> bool:
        """Whether a memory may cite it; utterances that are replies from memory are no evidence."""
        return self.reply_id is None


class InsightKind(StrEnum):
    """What an insight is to the memory that it was blended from (CREEM, section 3)."""

    NEW = "new"
    """Nothing in memory says it."""
    REDUNDANT = "redundant"
    """It says again what memory says."""
    UPDATED = "updated"
    """It says what has become of something in memory."""


class Insight(Value):
    """A sentence about one speaker, blended of past and present at one turn."""

    kind: InsightKind
    speaker: Name
    text: Text
    evidence: tuple[Line, ...] = Field(min_length=1)
    """The utterances of the open session that it rests on; none of them is a reply from memory."""
    replaces: tuple[Identifier, ...] = ()
    """The memories that it stands for from now on; empty for a new one."""


class SessionClosed(SessionEvent):
    """A whole session, in log order."""

    type: Literal["session_closed"] = "session_closed"
    session_id: Identifier | None = None
    lines: tuple[Line, ...]
    known_from: Time
    """The log's time of the closing: since then memory could know this session."""
    reason: CloseReason
    continues: int | None = None
    """The number of the closed session of the same ``session_id`` that this one continues."""
    turns: tuple[int, ...] = ()
    """The numbers of the turns that were given to blend."""


class Span(Value):
    """A topic segment of a session: the lines ``first`` to ``last``, both included, counted from 0."""

    first: int = Field(ge=0)
    last: int = Field(ge=0)


class SessionSegmented(SessionEvent):
    """A session with the topic segments that tile it exactly."""

    type: Literal["session_segmented"] = "session_segmented"
    session_id: Identifier | None = None
    lines: tuple[Line, ...]
    known_from: Time
    turns: tuple[int, ...] = ()
    spans: tuple[Span, ...]
    made_by: Provenance


class SessionSkipped(SessionEvent):
    """A session that failed finally at a stage: later stages pass over its number, so that the order goes on."""

    type: Literal["session_skipped"] = "session_skipped"
    stage: str
    error: str
    turns: tuple[int, ...] = ()


class ReplyRequested(SessionEvent):
    """A turn: the dialogue of the open session (or the one to come) up to the utterance, and who answers if it asks."""

    type: Literal["reply_requested"] = "reply_requested"
    turn: int | None = None
    """The number of this turn among the conversation's blended ones; None for a probe, which is not blended."""
    request: Ask | None
    """None: the utterance asks for nothing; memory is blended for its own sake."""
    question: Line
    """The utterance, whether it asks or not."""
    dialogue: tuple[Line, ...] = ()
    """The lines of the open session before the question, oldest first; the latest ones where there are many."""
    reply_wanted: bool = True
    """False: memory is blended, and nobody waits: there is no reply, it does not depend on this, or was given long ago.
    """


class ReplyContext(SessionEvent):
    """All that the responder is given beside what it retrieves."""

    type: Literal["reply_context"] = "reply_context"
    request: Ask
    question: Line
    dialogue: tuple[Line, ...] = ()
    insights: tuple[Insight, ...] = ()
    """The insights of the open session so far, this turn's included, in the order of turns."""
    infused: bool = False
    """True: blend was asked before this reply and gave what it had; False: it is off, comes later, or was not ready."""


# ---- replies and records of failures


class Source(Value):
    """Something remembered that a reply rests on."""

    kind: Strategy
    id: Identifier
    session: int
    at: Time
    utterance_ids: tuple[Identifier, ...]
    """The utterances behind it."""
    score: float
    memory_ids: tuple[Identifier, ...] = ()
    """The memories it shows, the oldest first."""
    relations: tuple[Relation, ...] = ()
    """Of a timeline: how each memory leads to the one after it."""


class Reply(ConversationEvent):
    """The answer to an ask, with what it rests on."""

    type: Literal["reply"] = "reply"
    reply_id: Identifier
    request_id: Identifier
    speaker: Name
    text: str
    cited: tuple[Identifier, ...] = ()
    """The utterances that the reply rests on."""
    sources: tuple[Source, ...] = ()
    """What was retrieved, in the order of the prompt."""
    context: str = ""
    """The memory as it stood in the prompt."""
    context_tokens: int = 0
    strategy: Strategy
    known_session: int = Field(ge=0)
    """The number of the last session that the memory knew."""
    made_by: Provenance
    error: str | None = None
    """Set when no answer could be given; ``text`` is empty then."""


class DeadLetterReason(StrEnum):
    """Why a record was set aside."""

    UNREADABLE = "unreadable"
    """The record's batch cannot be unpacked: a damaged or oversized block, a wrong checksum, an unknown codec."""
    NOT_JSON = "not_json"
    """The bytes are no UTF-8 JSON text (lone surrogates included)."""
    INVALID = "invalid"
    """JSON, but not of the shape that its type asks for."""
    UNKNOWN_TYPE = "unknown_type"
    """No contract has this ``type``, or it does not belong into this topic."""
    NEWER_VERSION = "newer_version"
    """A client wrote a schema version that this deployment does not know yet."""
    BAD_KEY = "bad_key"
    """The record's key is missing or disagrees with the body."""
    WRONG_PARTITION = "wrong_partition"
    """The key belongs into another partition: the producer does not use murmur2."""
    TOO_LONG = "too_long"
    """The text is over the limit."""
    CONFLICT = "conflict"
    """The utterance id was used before, with another content."""
    UNKNOWN_SESSION = "unknown_session"
    """The end of a session that never was."""
    FAILED = "failed"
    """The stage raised, finally."""
    HELD = "held"
    """The conversation is held: an earlier session is missing here (repair derives it again)."""
    MOVED = "moved"
    """The log goes on in another topic, with other partitions: the error names it, and a retry goes there."""


class DeadLetter(Contract):
    """What is known of a record that was set aside; travels as a header beside the record's raw bytes."""

    type: Literal["dead_letter"] = "dead_letter"
    stage: str
    topic: str
    partition: int
    offset: int
    key: str | None = None
    log_time: Time
    reason: DeadLetterReason
    error: str
    attempts: int = 1
    number: int | None = None
    """The session (or turn) that the stage was asked to decide, where it came so far; a gathering stage may fail
    at another session than that of the record that made it try."""
    size: int
    """Bytes of the original record's value."""
    sha256: str
    truncated: bool = False
    """True: the value holds only the first bytes; the whole record is at its source position."""


class RecordedAnswer(Contract):
    """What came of a question to a language model, or of a moment in time: kept, so that a rebuild decides the same."""

    type: Literal["recorded_answer"] = "recorded_answer"
    request: Identifier
    """The hash of the question, or the name of the moment; also the record's key."""
    text: str
    """Empty: forgotten again."""
