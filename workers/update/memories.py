"""From what a session brought to memories that can be found. Pure."""

from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache

from eunoe.schemas.base import Time, Value
from eunoe.schemas.decisions import Collection, Drop, Point, Put, Write
from eunoe.schemas.events import Provenance
from eunoe.schemas.identity import content_digest, derive_id
from eunoe.schemas.memory import Change, ChangeKind, InsightsProposed, MemoriesFormed, Memory, MemoryOrigin
from eunoe.schemas.ports import Vectors
from eunoe.workers.stage import Indexed, IndexEntry, StageTables
from eunoe.workers.text.terms import document_vector
from eunoe.workers.update.settings import UpdateSettings

NAME = "update"
MEMORIES, CURRENT, TERMS, STATS = "memories", "current", "terms", "stats"
CHANGES, SAID = "changes", "said"
MAX_SPEAKERS = 64


class Held(Value):
    """The row of a memory that holds, in the table of the current view."""

    session: int
    index: int
    speaker: str


class Saying(Value):
    """The row of a text: the last memory that said it in these words."""

    memory_id: str


class MemoryFrequency(Value):
    """In how many memories of a conversation a term stands."""

    memories: int


class MemoryStats(Value):
    """What update knows of a whole conversation."""

    memories: int = 0
    """All that ever were, whether they still hold or not."""
    session: int = 0
    """The last session that it applied."""
    known_from: Time | None = None
    """The log's time of the closing of the last session that told one."""
    speakers: tuple[str, ...] = ()
    holding: dict[str, int] | None = None
    """Speaker → memories that hold. None: written before this was counted."""


class Step(Value):
    """One change as the history keeps it; the memory itself stands in its document."""

    kind: ChangeKind
    memory_id: str
    by: str | None = None
    """The memory that brought it about, where there is one."""
    at: Time
    """Event time."""
    because: str = ""


class SessionSteps(Value):
    """The row of a session in the history: what it changed, in order."""

    session: int
    known_from: Time
    steps: tuple[Step, ...] = ()
    speakers: int = 0
    """How many speakers were known: names that the vectors of its memories leave out."""
    made_by: Provenance | None = None
    """What decided the operations; None where there was no pair to decide."""


def session_row(session: int) -> str:
    """The id of a session's row, sorting by number."""
    return f"{session:09d}"


def insight_id(key: str, session: int, turn: int, place: int) -> str:
    """The id of the memory that the insight number ``place`` (from 0) of a turn becomes."""
    return derive_id(key, session, NAME, f"insight/{turn}/{place}")


def fusion_id(key: str, session: int, place: int) -> str:
    """The id of the fusion number ``place`` (from 0) of a session."""
    return derive_id(key, session, NAME, f"fusion/{place}")


def born(formed: MemoriesFormed, first: int = 0) -> list[Memory]:
    """The sentences of a summary as memories, in its order; ``first`` of the session stand before them."""
    return [
        Memory(
            memory_id=derive_id(formed.key, formed.session, NAME, index),
            session=formed.session,
            index=first + index,
            speaker=draft.speaker,
            text=draft.text,
            evidence=draft.evidence,
            at=draft.at,
            known_from=formed.known_from,
            made_by=formed.made_by,
        )
        for index, draft in enumerate(formed.drafts)
    ]


def insights_of(proposals: Iterable[InsightsProposed], known_from: datetime) -> list[tuple[Memory, InsightsProposed]]:
    """The insights of a session as memories, turn by turn, each with the proposal that it comes from."""
    found: list[tuple[Memory, InsightsProposed]] = []
    for event in proposals:
        for place, insight in enumerate(event.insights):
            memory = Memory(
                memory_id=insight_id(event.key, event.session, event.turn, place),
                session=event.session,
                index=len(found),
                speaker=insight.speaker,
                text=insight.text,
                evidence=insight.evidence,
                at=max(line.at for line in insight.evidence),
                known_from=known_from,
                origin=MemoryOrigin.INSIGHT,
                made_by=event.made_by,
            )
            found.append((memory, event))
    return found


def fused(old: Memory, new: Memory, text: str, place: tuple[str, int, int], made_by: Provenance) -> Memory:
    """The one memory that stands for both; ``place``: conversation key, number of the fusion, index in the session."""
    key, number, index = place
    lines = {line.utterance_id: line for line in (*old.evidence, *new.evidence)}
    evidence = tuple(sorted(lines.values(), key=lambda line: line.at))
    return new.model_copy(
        update={
            "memory_id": fusion_id(key, new.session, number),
            "index": index,
            "text": text,
            "evidence": evidence,
            "at": max(line.at for line in evidence),
            "origin": MemoryOrigin.FUSION,
            "made_by": made_by,
        }
    )


@lru_cache(maxsize=16_384)  # every session asks for the memories of all before it again
def plain(text: str) -> str:
    """The text as it is compared for sameness: letters and digits only, case folded."""
    return " ".join("".join(char if char.isalnum() else " " for char in text.casefold()).split()) or text


def saying_id(memory: Memory) -> str:
    """The same for memories of the same speaker in the same words."""
    return content_digest(f"{memory.speaker}\n{plain(memory.text)}".encode())


def speakers_of(stats: MemoryStats, memories: Iterable[Memory]) -> tuple[str, ...]:
    """All whom memories are about or rest on, in order of appearance, bounded."""
    fresh = (name for memory in memories for name in (memory.speaker, *(line.speaker for line in memory.evidence)))
    return tuple(dict.fromkeys((*stats.speakers, *fresh)))[:MAX_SPEAKERS]


def build_point(
    key: str, memory: Memory, vector: Vectors, words: list[str], settings: UpdateSettings, seq: int | None = None
) -> Point:
    """The index entry of a memory; ``vector`` has shape (dimensions,), ``words`` are its terms without names.

    ``seq`` is the session that changed it last; None: that of its birth.
    """
    return Point(
        collection=Collection.MEMORIES,
        id=memory.memory_id,
        key=key,
        born=memory.session,
        seq=memory.session if seq is None else seq,
        text=memory.text,
        dense=vector.astype("<f4").tobytes(),
        sparse=document_vector(words, settings.average_terms),
    )


def memory_writes(memories: Iterable[Memory]) -> list[Write]:
    """The documents of memories that changed, and what becomes of their rows in the current view."""
    return [write for memory in memories for write in _writes_of(memory)]


def _writes_of(memory: Memory) -> list[Write]:
    writes: list[Write] = [Put.of(MEMORIES, memory.memory_id, memory)]
    if memory.ending is None:
        held = Held(session=memory.session, index=memory.index, speaker=memory.speaker)
        writes.append(Put.of(CURRENT, memory.memory_id, held))
        writes.append(Put.of(SAID, saying_id(memory), Saying(memory_id=memory.memory_id)))
    elif memory.session < memory.ending.session:
        writes.append(Drop(table=CURRENT, id=memory.memory_id))
    return writes


def step_of(change: Change) -> Step:
    """A change as the history keeps it."""
    memory = change.memory
    by, at = None, memory.at
    if change.kind in {ChangeKind.SUPERSEDED, ChangeKind.RETIRED} and memory.ending is not None:
        by, at = memory.ending.by, memory.ending.at
    elif change.kind is ChangeKind.REINFORCED:
        by, at = memory.reinforced[-1].by, memory.reinforced[-1].at
    elif change.kind is ChangeKind.SUSPECTED:
        by = memory.suspected[-1].by
    return Step(kind=change.kind, memory_id=memory.memory_id, by=by, at=at, because=change.because)


def index_entry(document: str) -> IndexEntry:
    """What the index must say of a memory's document: its point is of the session that changed it last."""
    memory = Memory.from_json(document)
    endings = () if memory.ending is None else (memory.ending,)
    changed = max([memory.session, *(note.session for note in (*endings, *memory.reinforced, *memory.suspected))])
    return IndexEntry(memory.memory_id, memory.text, changed, changed)


TABLES = StageTables(
    digested=(MEMORIES, CURRENT, TERMS, STATS, CHANGES, SAID),
    indexed=(Indexed(Collection.MEMORIES, MEMORIES, index_entry),),
)
