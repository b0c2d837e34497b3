"""Stage `link`: adds new memories to the memory graph (THEANINE, section 2.1)."""

from collections.abc import Sequence

from eunoe.schemas.decisions import Collection, Decision, Put, Wait, Work
from eunoe.schemas.events import Provenance
from eunoe.schemas.memory import MemoriesChanged, Memory
from eunoe.schemas.model_ports import Embedder
from eunoe.schemas.ports import Hit, Search, StateStore, VectorIndex
from eunoe.workers.link.graph import STATS, Related, choose_links
from eunoe.workers.link.judge import CODE, Judge, RelationJudgement, RelationPair
from eunoe.workers.link.reads import read_link_stats, read_stored_neighbours
from eunoe.workers.link.settings import LinkSettings
from eunoe.workers.link.suspicions import suspected_pairs, with_suspicions
from eunoe.workers.link.writes import add_speakers, age_key, graph_writes, related_pairs, stats_after
from eunoe.workers.text.names import without_names
from eunoe.workers.update.reads import read_memories, updated_session


class LinkStage:
    """Owns the memory graph of a conversation.

    Reads the texts of memories of earlier sessions whether they are current or not, so that no later session changes a
    decision.
    """

    def __init__(
        self, store: StateStore, index: VectorIndex, embedder: Embedder, judge: Judge, settings: LinkSettings
    ) -> None:
        self._store = store
        self._index = index
        self._embedder = embedder
        self._judge = judge
        self._settings = settings

    async def decide(self, work: Work[MemoriesChanged]) -> Decision | Wait:
        """Decide the graph documents that change; raises `Unavailable` as its ports do.

        `Wait` where the store lost the session's memories and `update` has not written them again. Somebody may have
        forged the event: then they never come, and the conversation is held.
        """
        event = work.event
        updated = await updated_session(self._store, work.key)
        if updated < event.session:
            return Wait(f"update has applied {updated}, not yet {event.session}", holds=True)
        new = sorted(event.added, key=lambda memory: memory.order)
        stats = await read_link_stats(self._store, work.key)
        pairs = await self._pairs(work.key, event.session, new, add_speakers(stats.speakers, new))
        judgement = await self._judged(pairs)
        related = with_suspicions(related_pairs(pairs, judgement), suspected_pairs(event))
        # a late session's memory may be in the graph already, with an edge to a newer one
        entered = {memory.memory_id for memory in new} if work.late else set()
        known = await read_stored_neighbours(
            self._store, work.key, sorted(entered | {pair.older.memory_id for pair in related})
        )
        links: tuple[Related, ...] = choose_links(related, known.roots)
        writes = graph_writes([age_key(memory) for memory in new], links, known, judgement.made_by)
        after = stats_after(stats, work.state_session, new, links, judgement.made_by)
        return Decision(writes=(*writes, Put.of(STATS, STATS, after)), skipped=event.partial)

    async def _judged(self, pairs: Sequence[RelationPair]) -> RelationJudgement:
        return await self._judge.judge(pairs) if pairs else RelationJudgement((), Provenance(code=CODE, model="none"))

    async def _pairs(
        self, key: str, session: int, new: Sequence[Memory], speakers: Sequence[str]
    ) -> list[RelationPair]:
        """Each new memory with its top-j memories of earlier sessions, best first (Algorithm 1, line 5)."""
        if not new or session == 1:
            return []
        hits = await self._associative(key, session, new, speakers)
        ids = sorted({hit.id for row in hits for hit in row})
        known = {memory.memory_id: memory for memory in await read_memories(self._store, key, ids)}
        return [
            RelationPair(known[hit.id], memory, hit.score)
            for memory, row in zip(new, hits, strict=True)
            for hit in row
            if hit.id in known
        ]

    async def _associative(
        self, key: str, session: int, new: Sequence[Memory], speakers: Sequence[str]
    ) -> list[list[Hit]]:
        vectors = await self._embedder.embed([without_names(memory.text, speakers) for memory in new])
        searches = [
            Search(
                Collection.MEMORIES,
                key,
                self._settings.associative,
                dense=vector.astype("<f4").tobytes(),
                born_before=session,
            )
            for vector in vectors
        ]
        return await self._index.search(searches)
