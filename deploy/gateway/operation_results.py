"""The results of requests about operation: derived state, processes, generations, dead letters."""

from pydantic import Field

from eunoe.deploy.observability.process_records import ProcessStatus
from eunoe.schemas.base import Time, Value
from eunoe.schemas.records import DeadLetter
from eunoe.workers.stores.records.generations import GenerationState


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
