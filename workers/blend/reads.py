"""Reads of memories for a dialogue, and of the stage's own proposals."""

from collections.abc import Collection as Ids
from collections.abc import Sequence
from itertools import chain

from eunoe.schemas.base import Value
from eunoe.schemas.decisions import Collection
from eunoe.schemas.documents import read_document
from eunoe.schemas.events import Insight, Line
from eunoe.schemas.memory import Memory
from eunoe.schemas.model_ports import Embedder, Vectors
from eunoe.schemas.ports import Hit, Search, StateStore, VectorIndex
from eunoe.workers.blend.settings import BlendSettings
from eunoe.workers.blend.tables import NAME, TURNS
from eunoe.workers.blend.turn import LATEST, speakers_of
from eunoe.workers.stores.vectors.depths import depths
from eunoe.workers.text.names import without_names
from eunoe.workers.update.reads import read_memories


class TurnInsights(Value):
    """The insights proposed by one turn of a session."""

    session: int
    """The place of the session among all that were opened."""
    insights: tuple[Insight, ...]


async def read_proposals(store: StateStore, key: str) -> dict[str, TurnInsights]:
    """The proposals of open sessions by row, in the order of turns; perhaps also of sessions that have closed."""
    rows = await store.scan(NAME, key, TURNS)
    return {row: read_document(TurnInsights, text, key) for row, text in sorted(rows.items())}


def was_current_before(memory: Memory, session: int) -> bool:
    """Whether it was added before the session and no earlier session ended it; later sessions do not matter."""
    return memory.session < session and (memory.ending is None or memory.ending.session >= session)


class Recall:
    """Search among the memories of earlier sessions (CREEM, section 3.1)."""

    def __init__(self, store: StateStore, index: VectorIndex, embedder: Embedder, settings: BlendSettings) -> None:
        self._store = store
        self._index = index
        self._embedder = embedder
        self._settings = settings

    async def past(
        self, key: str, session: int, question: str, lines: Sequence[Line], spent: Ids[str]
    ) -> tuple[Memory, ...]:
        """The best memories for the question and for the last two utterances, without duplicates, oldest first.

        Memories are taken as of the beginning of the session; those in ``spent`` are left out. Where most hits ended
        before it, the search goes deeper.
        """
        vectors = await self._vectors(question, lines)
        seen: set[str] = set(spent)
        held: dict[str, Memory] = {}
        rows: list[list[str]] = []
        for limit in depths(max(self._settings.searched, self._settings.retrieved)):
            hits = await self._search(key, session, vectors, limit)
            fresh = sorted({hit.id for row in hits for hit in row} - seen)
            seen |= set(fresh)
            known = await read_memories(self._store, key, fresh)
            held |= {memory.memory_id: memory for memory in known if was_current_before(memory, session)}
            rows = [_first(row, held, self._settings.retrieved) for row in hits]
            if all(
                len(ids) == self._settings.retrieved or len(row) < limit for ids, row in zip(rows, hits, strict=True)
            ):
                break
        return tuple(sorted((held[id_] for id_ in set(chain.from_iterable(rows))), key=lambda memory: memory.order))

    async def _vectors(self, question: str, lines: Sequence[Line]) -> Vectors:
        speakers = speakers_of(lines)
        said = " ".join(line.text for line in lines[-LATEST:])
        return await self._embedder.embed([without_names(text, speakers) for text in (question, said)])

    async def _search(self, key: str, session: int, vectors: Vectors, limit: int) -> list[list[Hit]]:
        return await self._index.search(
            [
                Search(Collection.MEMORIES, key, limit, dense=vector.astype("<f4").tobytes(), born_before=session)
                for vector in vectors
            ]
        )


def _first(hits: Sequence[Hit], held: Ids[str], limit: int) -> list[str]:
    return [hit.id for hit in hits if hit.id in held][:limit]
