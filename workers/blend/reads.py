"""Reads of memories for a dialogue, and of the stage's own proposals."""

from collections.abc import Collection as Ids
from collections.abc import Sequence

from eunoe.schemas.base import Value
from eunoe.schemas.decisions import Collection
from eunoe.schemas.events import Insight, Line
from eunoe.schemas.memory import Memory
from eunoe.schemas.model_ports import Embedder
from eunoe.schemas.ports import Hit, Search, StateStore, VectorIndex
from eunoe.workers.blend.settings import BlendSettings
from eunoe.workers.blend.turn import LATEST, speakers_of
from eunoe.workers.stage import StageTables
from eunoe.workers.text.names import without_names
from eunoe.workers.update.reads import read_memories

NAME = "blend"
TURNS = "turns"
TABLES = StageTables(digested=(TURNS,))


class TurnInsights(Value):
    """The insights proposed by one turn of a session."""

    session: int
    """The place of the session among all that were opened."""
    insights: tuple[Insight, ...]


async def read_proposals(store: StateStore, key: str) -> dict[str, TurnInsights]:
    """The proposals of open sessions by row, in the order of turns; perhaps also of sessions that have closed."""
    rows = await store.scan(NAME, key, TURNS)
    return {row: TurnInsights.from_json(text) for row, text in sorted(rows.items())}


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

        Memories are taken as of the beginning of the session; those in ``spent`` are left out.
        """
        hits = await self._search(key, session, question, lines)
        ids = sorted({hit.id for row in hits for hit in row} - set(spent))
        held = {m.memory_id: m for m in await read_memories(self._store, key, ids) if was_current_before(m, session)}
        chosen = {id_ for row in hits for id_ in _first(row, held, self._settings.retrieved)}
        return tuple(sorted((held[id_] for id_ in chosen), key=lambda memory: memory.order))

    async def _search(self, key: str, session: int, question: str, lines: Sequence[Line]) -> list[list[Hit]]:
        speakers = speakers_of(lines)
        said = " ".join(line.text for line in lines[-LATEST:])
        vectors = await self._embedder.embed([without_names(text, speakers) for text in (question, said)])
        limit = max(self._settings.searched, self._settings.retrieved)
        return await self._index.search(
            [
                Search(Collection.MEMORIES, key, limit, dense=vector.astype("<f4").tobytes(), born_before=session)
                for vector in vectors
            ]
        )


def _first(hits: Sequence[Hit], held: Ids[str], limit: int) -> list[str]:
    return [hit.id for hit in hits if hit.id in held][:limit]
