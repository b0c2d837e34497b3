"""The results of requests about conversations: what was accepted, sessions, memories, timelines, the tree."""

from typing import Literal

from eunoe.schemas.base import Identifier, SpokenTime, Time, Value
from eunoe.schemas.events import Line
from eunoe.schemas.memory import ChangeKind, Memory, MemoryStatus, Segment
from eunoe.schemas.profile import PersonProfile
from eunoe.workers.link.graph import Edge
from eunoe.workers.tree.nodes import TreeNode


class LogPosition(Value):
    """A place in the log."""

    topic: str
    partition: int
    offset: int


class EventAccepted(Value):
    """An accepted event: all in-sync replicas of the log have it."""

    utterance_id: Identifier | None = None
    """`None` for the end of a session."""
    position: LogPosition


class BatchAccepted(Value):
    """An accepted batch."""

    results: tuple[EventAccepted, ...]
    """One for each line, in their order."""


class AskAccepted(Value):
    """An accepted ask."""

    request_id: Identifier
    utterance_id: Identifier | None = None
    """`None` where the ask is resumed by `Last-Event-ID`, as `position` is."""
    position: LogPosition | None = None
    resume: str
    """The id of the last event of the ask's stream; any replica resumes it."""


class ConversationItem(Value):
    """A conversation in the list."""

    conversation_id: Identifier
    active: Time
    """Log time of the last utterance or end of a session."""


class ConversationPage(Value):
    """A page of conversations, the last active first."""

    conversations: tuple[ConversationItem, ...]
    next: str | None = None
    """The cursor of the next page; `None` on the last one."""


class OpenSessionItem(Value):
    """An open session; it gets its number when it closes."""

    session_id: Identifier | None = None
    lines: int
    last_utterance_id: Identifier
    active: Time
    """Log time of its last utterance."""


class ConversationStatus(Value):
    """A conversation."""

    conversation_id: Identifier
    sessions: int
    """The number of the last closed session."""
    open: tuple[OpenSessionItem, ...] = ()
    """The open sessions; the one that was spoken in last is last."""
    remembered: int
    """The number of the last session that is in memory."""
    segments: int = 0
    """Topic segments that memory holds; 0 where nothing is kept of the remembered sessions, as after an erasure."""
    applied: dict[str, int]
    """Stage → the last session that it has applied."""
    position: LogPosition | None = None
    """The last event that was taken in."""


SessionStatus = Literal["accepted", "open", "closed", "segmented", "remembered"]
"""``accepted``: the event that the request names is in the log, and was not taken in yet."""


class SessionItem(Value):
    """A closed session in the list."""

    session: int
    session_id: Identifier | None = None
    """The client's id of the session; `None` where it gave none."""
    status: SessionStatus
    first_at: SpokenTime | None = None
    """Event time of its earliest line; `None` where its segments are not there."""
    last_at: SpokenTime | None = None
    lines: int = 0
    segments: int = 0


class SessionPage(Value):
    """A page of closed sessions, the oldest first."""

    sessions: tuple[SessionItem, ...]
    next: int | None = None
    """`after_session` of the next page; `None` on the last one."""


class SessionView(Value):
    """A session, how far it has come, and its segments."""

    session: int | None = None
    """`None` for an open one, which has no number yet, and for an event that is only accepted."""
    session_id: Identifier | None = None
    """The client's id of the session; `None` where it gave none."""
    status: SessionStatus
    remembered: bool
    """Whether it is in memory: every stage has applied it and sent what it owed."""
    applied: dict[str, int]
    missing: tuple[str, ...] = ()
    """The stages that have not applied it."""
    position: LogPosition | None = None
    """The last event of the conversation that was taken in."""
    segments: tuple[Segment, ...] = ()
    lines: tuple[Line, ...] = ()
    """The lines of an open session."""


class MemoryItem(Value):
    """A memory and its status."""

    status: MemoryStatus
    memory: Memory


class MemoryPage(Value):
    """A page of memories, in the order of their sessions."""

    memories: tuple[MemoryItem, ...]
    next: int | None = None
    """`after_session` of the next page; `None` on the last one."""


class ProfileView(Value):
    """The profile of a person."""

    profile: PersonProfile
    text: str
    """The same as lines for a prompt, under a heading for each kind; '' where nothing is known."""


class HistoryItem(Value):
    """A change of a memory, of one that it superseded, or of a successor."""

    session: int
    known_from: Time
    at: SpokenTime
    kind: ChangeKind
    memory: Memory
    """In its present state."""
    by: Memory | None = None
    """The memory that caused the change."""
    because: str


class MemoryHistory(Value):
    """The history of a memory, the oldest change first."""

    changes: tuple[HistoryItem, ...]


class TimelineItem(Value):
    """A group of linked memories."""

    root: Identifier
    size: int
    oldest: Identifier
    """The oldest memory."""


class TimelinePage(Value):
    """A page of timelines: the groups of the memories of some sessions."""

    timelines: tuple[TimelineItem, ...]
    next: int | None = None


class TimelineView(Value):
    """A group of linked memories, oldest first; at most 500 of them."""

    root: Identifier
    size: int
    memories: tuple[Memory, ...]
    edges: tuple[Edge, ...]
    """Those that end at these memories."""
    next: int | None = None
    """`after_session` of the next page; `None` on the last one, and where no page was asked for."""


class TreeView(Value):
    """A node of the tree and its children."""

    node: TreeNode
    children: tuple[TreeNode, ...]
