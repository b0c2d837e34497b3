"""Builds memories, their documents and their index entries from a session's input."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from eunoe.schemas.base import SpokenTime, Time, Value
from eunoe.schemas.decisions import Collection, Drop, Point, Put, Write
from eunoe.schemas.events import Provenance
from eunoe.schemas.identity import content_digest, derive_id
from eunoe.schemas.memory import Change, ChangeKind, InsightsProposed, MemoriesFormed, Memory, MemoryOrigin
from eunoe.schemas.model_ports import Vectors
from eunoe.workers.text.caches import cached_by_length
from eunoe.workers.text.expiry import expiry_of
from eunoe.workers.text.kinds import kind_of
from eunoe.workers.text.names import first_speakers
from eunoe.workers.text.same_words import same_words
from eunoe.workers.text.terms import document_vector
from eunoe.workers.update.settings import UpdateSettings
from eunoe.workers.update.tables import CURRENT, MEMORIES, NAME, SAID

MAX_MERGED_EVIDENCE = 32
"""Maximum of older lines that a merged memory rests on: the latest."""


class CurrentRef(Value):
    """The entry of a current memory in table `CURRENT`."""

    session: int
    index: int
    speaker: str


class TextRef(Value):
    """The latest memory with the same speaker and words, in table `SAID`."""

    memory_id: str


class MemoryFrequency(Value):
    """The number of memories of a conversation that contain a term."""

    memories: int


class MemoryStats(Value):
    """Statistics of a conversation's memories."""

    memories: int = 0
    """All memories ever added, current or not."""
    session: int = 0
    """The last applied session."""
    known_from: Time | None = None
    """Log time at which the last session that brought memories was closed."""
    speakers: tuple[str, ...] = ()
    holding: dict[str, int]
    """Speaker → number of current memories."""


class Step(Value):
    """A change as the history keeps it; the memory itself is in its document."""

    kind: ChangeKind
    memory_id: str
    by: str | None = None
    """The id of the memory that caused it, if any."""
    at: SpokenTime
    """Event time."""
    because: str = ""


class SessionSteps(Value):
    """A session's changes, in order, in table `CHANGES`."""

    session: int
    known_from: Time
    steps: tuple[Step, ...] = ()
    speakers: int = 0
    """The number of speakers known then: their names are left out of its memories' vectors."""
    made_by: Provenance | None = None
    """The model or rules that decided the operations; `None` if there was no pair."""


def session_row(session: int) -> str:
    """The id of a session's `SessionSteps`, sortable by number."""
    return f"{session:09d}"


def insight_id(key: str, session: int, turn: int, place: int) -> str:
    """The id of the memory made from insight ``place`` (from 0) of a turn."""
    return derive_id(key, session, NAME, f"insight/{turn}/{place}")


@dataclass(frozen=True, slots=True)
class FusionPlace:
    """The place of a memory that a session makes of two others."""

    key: str
    """Conversation key."""
    session: int
    number: int
    """Its number among all that the session makes so, from 0."""
    index: int
    """Its index among the memories that the session adds."""

    @property
    def memory_id(self) -> str:
        """The id of the memory."""
        return derive_id(self.key, self.session, NAME, f"fusion/{self.number}")

    def after(self, others: int) -> "FusionPlace":
        """The place of the memory before which so many ``others`` are made, from this one on."""
        return replace(self, number=self.number + others, index=self.index + others)


def summary_memories(formed: MemoriesFormed, first: int = 0) -> list[Memory]:
    """The sentences of a summary as memories, in order; their indices begin at ``first``."""
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
            kind=draft.kind,
            expires_at=draft.expires_at,
        )
        for index, draft in enumerate(formed.drafts)
    ]


def insights_of(proposals: Iterable[InsightsProposed], known_from: datetime) -> list[tuple[Memory, InsightsProposed]]:
    """The insights of a session as memories in the order of turns, each with its proposal."""
    found: list[tuple[Memory, InsightsProposed]] = []
    for event in proposals:
        for place, insight in enumerate(event.insights):
            at, kind = max(line.at for line in insight.evidence), kind_of(insight.text)
            memory = Memory(
                memory_id=insight_id(event.key, event.session, event.turn, place),
                session=event.session,
                index=len(found),
                speaker=insight.speaker,
                text=insight.text,
                evidence=insight.evidence,
                at=at,
                known_from=known_from,
                origin=MemoryOrigin.INSIGHT,
                made_by=event.made_by,
                kind=kind,
                expires_at=expiry_of(insight.text, at, kind),
            )
            found.append((memory, event))
    return found


def merged(old: Memory, new: Memory, text: str, place: FusionPlace, made_by: Provenance) -> Memory:
    """The memory that replaces both; kind and end are those of the new one."""
    return with_evidence(new, [old]).model_copy(
        update={
            "memory_id": place.memory_id,
            "index": place.index,
            "text": text,
            "origin": MemoryOrigin.FUSION,
            "made_by": made_by,
        }
    )


def with_evidence(memory: Memory, olds: Iterable[Memory]) -> Memory:
    """The memory resting on the evidence of ``olds`` too, in order of time; of much evidence on its own and the latest.

    Its time is that of the latest line.
    """
    own = {line.utterance_id: line for line in memory.evidence}
    older = {line.utterance_id: line for old in olds for line in old.evidence if line.utterance_id not in own}
    latest = sorted(older.values(), key=lambda line: line.at)[-MAX_MERGED_EVIDENCE:]
    evidence = tuple(sorted((*latest, *own.values()), key=lambda line: line.at))
    return memory.model_copy(update={"evidence": evidence, "at": max(line.at for line in evidence)})


# every session normalizes the memories of earlier ones again
@cached_by_length("sentences", len, 4, (200, 8_192), (2_000, 256))
def normalized(text: str) -> str:
    """The words of a text for comparison; the text itself where it has none."""
    return same_words(text) or text


def text_digest(memory: Memory) -> str:
    """A digest that is equal for memories of the same speaker with the same words."""
    return content_digest(f"{memory.speaker}\n{normalized(memory.text)}".encode())


def names_left_out(before: SessionSteps | None, speakers: Sequence[str], own: Iterable[Memory]) -> int:
    """Number of the first ``speakers`` that are known to a session whose new memories are ``own``.

    ``before``: its changes so far, for a late session; then as many as these knew, and up to the last of its own.
    """
    if before is None:
        return len(speakers)
    told = speakers_of((), own)
    return max([before.speakers, *(speakers.index(one) + 1 for one in told if one in speakers)])


def speakers_of(known: Sequence[str], memories: Iterable[Memory]) -> tuple[str, ...]:
    """The first speakers: those ``known``, then those of memories and of their evidence."""
    return first_speakers(known, *(memory.speakers for memory in memories))


def build_point(key: str, memory: Memory, vector: Vectors, words: list[str], settings: UpdateSettings) -> Point:
    """The index entry of a memory. ``vector`` has shape (dimensions,); ``words`` are its terms without names.

    It is of the session that changed the memory last, also where a late session adds it: Qdrant, which ignores a point
    of an earlier session, then takes one that is made again from the document.
    """
    return Point(
        collection=Collection.MEMORIES,
        id=memory.memory_id,
        key=key,
        born=memory.session,
        seq=changed_in(memory),
        text=memory.text,
        dense=vector.astype("<f4").tobytes(),
        sparse=document_vector(words, settings.average_terms),
    )


def memory_writes(memories: Iterable[Memory]) -> list[Write]:
    """The writes for changed memories and their entries in the current view."""
    return [write for memory in memories for write in _writes_of(memory)]


def _writes_of(memory: Memory) -> list[Write]:
    writes: list[Write] = [Put.of(MEMORIES, memory.memory_id, memory)]
    if memory.ending is None:
        held = CurrentRef(session=memory.session, index=memory.index, speaker=memory.speaker)
        writes.append(Put.of(CURRENT, memory.memory_id, held))
        writes.append(Put.of(SAID, text_digest(memory), TextRef(memory_id=memory.memory_id)))
    elif memory.session < memory.ending.session:
        writes.append(Drop(table=CURRENT, id=memory.memory_id))
    return writes


def step_of(change: Change) -> Step:
    """The change in the form that the history keeps."""
    memory = change.memory
    by, at = None, memory.at
    if change.kind in {ChangeKind.SUPERSEDED, ChangeKind.RETIRED} and memory.ending is not None:
        by, at = memory.ending.by, memory.ending.at
    elif change.kind is ChangeKind.REINFORCED:
        by, at = memory.reinforced[-1].by, memory.reinforced[-1].at
    elif change.kind is ChangeKind.SUSPECTED:
        by = memory.suspected[-1].by
    return Step(kind=change.kind, memory_id=memory.memory_id, by=by, at=at, because=change.because)


def changed_in(memory: Memory) -> int:
    """The session that changed a memory last; its point is of that session."""
    endings = () if memory.ending is None else (memory.ending,)
    sessions: list[int] = [note.session for note in (*endings, *memory.reinforced, *memory.suspected)]
    return max([memory.session, *sessions])
