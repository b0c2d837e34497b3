"""The forms of answers."""

from typing import Literal

from pydantic import Field

from eunoe.deploy.observability.process_records import ProcessStatus
from eunoe.schemas.base import Identifier, Time, Value
from eunoe.schemas.events import Line
from eunoe.schemas.memory import ChangeKind, Memory, MemoryStatus, Segment
from eunoe.schemas.profile import PersonProfile
from eunoe.schemas.records import DeadLetter
from eunoe.workers.link.graph import Edge
from eunoe.workers.stores.generations import GenerationState
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
    utterance_id: Identifier
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
    first_at: Time | None = None
    """Event time of its earliest line; `None` where its segments are not there."""
    last_at: Time | None = None
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
    at: Time
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


class StageState(Value):
    """The state of one stage."""

    applied: int
    tables: dict[str, int]
    """Table → number of documents."""


class DecisionItem(Value):
    """The items (pairs, nodes, sentences) of a stage about which a model was asked."""

    stage: str
    items: int
    items_offline: int
    """Those that the offline rules decided, for want of a valid answer."""


class StateView(Value):
    """The derived state of a conversation."""

    digest: str
    stages: dict[str, StageState]
    index_findings: tuple[str, ...]
    """Disagreements of the vector index; empty where it agrees."""
    unfinished: tuple[str, ...]
    decisions: tuple[DecisionItem, ...] = ()
    """Empty where no model was asked."""


class ProcessItem(Value):
    """A worker process, as it described itself last."""

    status: ProcessStatus
    age_s: float
    """Seconds since it did."""
    silent: bool
    """Whether that is so long ago that it ended without a word, or cannot reach Redis."""


class ProcessPage(Value):
    """The worker processes of the deployment, by name."""

    processes: tuple[ProcessItem, ...]
    silent_after_s: float


class GenerationItem(Value):
    """A generation of the memory."""

    name: str
    live: bool
    """Whether it answers now."""
    state: GenerationState | None = None
    """`None` where no rebuild made it: the first one, derived as events came in."""
    made_at: Time | None = None
    source: str | None = None
    """The generation that was live when its rebuild began."""
    changes: dict[str, str] = Field(default_factory=dict)
    """The settings in which it differs."""


class GenerationPage(Value):
    """All generations, by name."""

    generations: tuple[GenerationItem, ...]


class ExampleItem(Value):
    """A difference; `None` on the side that lacks the item."""

    old: str | None
    new: str | None


class KindDifference(Value):
    """The counts of one kind of item in both generations, and of its differences."""

    kind: str
    """``memories``, ``segments``, ``tree nodes``, ``edges: <relation>``."""
    old: int
    new: int
    only_old: int
    only_new: int
    changed: int
    """Items of both whose details differ: another ending, repeat or suspicion, another denoised text."""
    examples: tuple[ExampleItem, ...]


class TreeSize(Value):
    """The shape of a tree."""

    nodes: int
    """Without the root."""
    leaves: int
    depth: int
    fan_out: int


class GenerationDifference(Value):
    """The memory of a conversation in two generations. Items are matched by content, never by id."""

    old: str
    new: str
    equal: bool
    """Whether the digests are equal."""
    sessions: tuple[int, int]
    """Sessions that each has applied."""
    kinds: tuple[KindDifference, ...]
    trees: tuple[TreeSize, TreeSize]


class LetterView(Value):
    """A dead letter."""

    id: str
    letter: DeadLetter
    closed: str | None = None
    """The way and time of its resolution; `None` means open."""
    retryable: bool
    obstacle: str | None = None
    """The reason why it cannot be retried."""
    value: str | None = None
    """The raw record, base64; only where one letter is asked for."""


class LetterPage(Value):
    """Dead letters, the latest last."""

    letters: tuple[LetterView, ...]
    more: bool
    """Whether older ones were left out."""
