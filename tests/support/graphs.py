"""Graphs of memories as one draws them, grown session by session in a store in memory."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from eunoe.schemas.decisions import Commit, Scope
from eunoe.schemas.events import Line, Provenance
from eunoe.schemas.memory import Memory
from eunoe.schemas.relations import Relation
from eunoe.workers.link.graph import NAME, AgeKey, Related, choose_links
from eunoe.workers.link.reads import read_stored_neighbours
from eunoe.workers.link.writes import graph_writes
from eunoe.workers.stores.state.memory_store import MemoryStore

KEY = "default/c"
START = datetime(2026, 1, 1, tzinfo=UTC)
MADE_BY = Provenance(code="drawn", model="drawn")


def order(name: str) -> AgeKey:
    """``3b`` is the second memory of session 3; the name is the id."""
    return AgeKey(int(name[:-1]), ord(name[-1]) - ord("a"), name)


class DrawnGraph:
    """A graph in a store."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.applied = 0

    async def session(
        self, *new: str, related: Sequence[tuple[str, str]] = (), relation: Relation = Relation.CAUSE
    ) -> tuple[tuple[str, str], ...]:
        """Add the next session's memories with their related pairs; returns the edges that Algorithm 1 makes."""
        known = await read_stored_neighbours(self.store, KEY, sorted({older for older, _ in related}))
        links = choose_links([_pair(edge, relation) for edge in related], known.roots)
        await self._grow(new, links)
        return tuple((link.older.memory_id, link.newer.memory_id) for link in links)

    async def lay(self, *new: str, edges: Iterable[tuple[str, str]]) -> None:
        """Add the next session's memories with just these edges: Algorithm 1 makes fewer."""
        await self._grow(new, [_pair(edge, Relation.CAUSE) for edge in edges])

    async def _grow(self, new: Sequence[str], links: Sequence[Related]) -> None:
        known = await read_stored_neighbours(self.store, KEY, sorted({link.older.memory_id for link in links}))
        writes = graph_writes([order(name) for name in new], links, known, MADE_BY)
        self.applied += 1
        commit = Commit(expect=self.applied - 1, applied=self.applied, writes=tuple(writes))
        assert await self.store.commit(Scope(NAME, KEY), commit)


def _pair(edge: tuple[str, str], relation: Relation) -> Related:
    return Related(order(edge[0]), order(edge[1]), relation)


def memory(name: str, text: str, speaker: str = "Ann", said: Sequence[str] = ()) -> Memory:
    """The memory ``name`` (see `order`), citing the lines ``said`` by the same speaker, or itself."""
    session, place, id_ = order(name)
    at = START + timedelta(days=session)
    lines = tuple(
        Line(utterance_id=f"{id_}-{number}", speaker=speaker, text=words, at=at)
        for number, words in enumerate(said or [text])
    )
    return Memory(
        memory_id=id_,
        session=session,
        index=place,
        speaker=speaker,
        text=text,
        evidence=lines,
        at=at,
        known_from=at,
        made_by=MADE_BY,
    )
