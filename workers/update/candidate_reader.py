"""Reads the memories that a session's sentences are judged against."""

from collections.abc import Collection as Ids
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eunoe.schemas.decisions import Collection
from eunoe.schemas.documents import read_document
from eunoe.schemas.memory import Memory
from eunoe.schemas.model_ports import Embedder
from eunoe.schemas.ports import Search, StateStore, VectorIndex
from eunoe.workers.link.reads import linked_session, read_neighbours
from eunoe.workers.stores.vectors.depths import depths
from eunoe.workers.text.names import without_names
from eunoe.workers.update.candidates import all_pairs, choose_pairs, fits, pair_up, restates
from eunoe.workers.update.lifecycle import Lifecycle
from eunoe.workers.update.memories import TextRef, text_digest
from eunoe.workers.update.operator import OperationPair
from eunoe.workers.update.reads import current_ids, holding_ids, latest_current, read_current, read_memories
from eunoe.workers.update.settings import UpdateSettings
from eunoe.workers.update.tables import NAME, SAID

OVERSAMPLE = 4
"""Factor of hits requested first over hits wanted: the index also holds ended memories, and those of others."""


class LinksMissing(Exception):
    """Stage `link` has not applied the session whose links are needed."""


@dataclass(frozen=True, slots=True)
class CandidateReader:
    """Reads for one session of one conversation; all methods raise `Unavailable` if a server is unavailable."""

    store: StateStore
    index: VectorIndex
    embedder: Embedder
    settings: UpdateSettings
    key: str
    before: int
    """Only memories of sessions before this one are searched: the applied session, or for a late one the next to come.
    """

    async def read(self, life: Lifecycle, ids: Sequence[str]) -> list[Memory]:
        """The known ones of these memories, as changed so far in this session; loads new ones into ``life``."""
        missing = [id_ for id_ in dict.fromkeys(ids) if life.get(id_) is None]
        life.load(await read_memories(self.store, self.key, missing))
        return [memory for id_ in dict.fromkeys(ids) if (memory := life.get(id_)) is not None]

    async def said_before(self, memories: Sequence[Memory]) -> list[str]:
        """The ids of the latest memories with the same speaker and words."""
        wanted = sorted({text_digest(memory) for memory in memories})
        rows = await self.store.fetch(NAME, self.key, SAID, wanted) if wanted else []
        return [read_document(TextRef, row, self.key).memory_id for row in rows if row is not None]

    async def restating(self, life: Lifecycle, replaced: Sequence[str]) -> list[str]:
        """The current memories, one link away, that only restate one of ``replaced``.

        Raises `LinksMissing` until the links of the last session are stored.
        """
        near = await self.near(life, replaced)
        olds = {memory.memory_id: memory for memory in await self.read(life, replaced)}
        pairs = ((olds[id_], memory) for id_, linked in near.items() if id_ in olds for memory in linked)
        return list(dict.fromkeys(m.memory_id for old, m in pairs if restates(old, m, self.settings)))

    async def reached(self, life: Lifecycle, insights: Sequence[Memory]) -> list[OperationPair]:
        """The current memories one link away from what each insight superseded, each paired with that insight.

        Raises `LinksMissing` as `restating` does.
        """
        found: dict[tuple[str, str], OperationPair] = {}
        for insight in insights:
            near = await self.near(life, life.superseded_by(insight.memory_id))
            olds = sorted((m for linked in near.values() for m in linked), key=lambda memory: memory.order)
            pairs = (OperationPair(old, insight) for old in olds if old.speaker == insight.speaker)
            found |= {pair.ids: pair for pair in pairs}
        return list(found.values())

    async def near(self, life: Lifecycle, ids: Sequence[str]) -> dict[str, list[Memory]]:
        """Memory id → the current memories of earlier sessions one link away; raises `LinksMissing` as `restating`."""
        around = await self._neighbours(ids)
        return {id_: self._holding(life, await self.read(life, near)) for id_, near in sorted(around.items())}

    async def pairs(
        self, life: Lifecycle, sentences: Sequence[Memory], holding: Mapping[str, int], speakers: Sequence[str]
    ) -> tuple[list[OperationPair], bool]:
        """All pairs with current memories if one prompt holds them; else the pairs with similar and linked ones.

        Beside them: whether they are all. ``holding``: speaker → number of current memories before this session. The
        session's insights count as memories.
        Raises `LinksMissing` as `restating` does.
        """
        own = [memory for memory in life.current if life.was_added(memory.memory_id)]
        if sentences and all_pairs(sentences, holding) <= self.settings.max_pairs:
            held = await self.read(life, await current_ids(self.store, self.key))
            every = pair_up(sentences, [*self._holding(life, held), *own])
            if fits(every, self.settings):
                return every, True
        ranked = await self._ranked(life, sentences, holding, speakers)
        mine = {s.memory_id: [m for m in own if m.speaker == s.speaker] for s in sentences}
        said = _by_digest(m for m in life.current if not life.was_added(m.memory_id))
        same = {s.memory_id: said.get(text_digest(s), []) for s in sentences}
        joined = {id_: _once([*same[id_], *mine[id_], *ranked[id_]]) for id_ in ranked}
        return choose_pairs(sentences, joined, self.settings), not sentences

    async def alike(
        self, life: Lifecycle, latest: int, holding: Mapping[str, int], speakers: Sequence[str]
    ) -> list[tuple[Memory, Memory]]:
        """The latest current memories of earlier sessions, each paired with its most similar ones.

        Of those only that are current in ``life`` and older than this session. ``latest``: the most of them;
        ``holding`` as for `pairs`.
        """
        newest = await latest_current(self.store, self.key, self.before - 1, latest, holding)
        memories = self._holding(life, await self.read(life, newest[::-1]))
        hits = await self._similar(memories, holding, speakers)
        await self.read(life, [id_ for ids in hits.values() for id_ in ids])
        pairs = ((memory, life.get(id_)) for memory in memories for id_ in hits[memory.memory_id])
        return [(memory, near) for memory, near in pairs if near is not None and self._holding(life, [near])]

    def _holding(self, life: Lifecycle, memories: Sequence[Memory]) -> list[Memory]:
        return [
            memory for memory in memories if life.is_current(memory.memory_id) and not life.was_added(memory.memory_id)
        ]

    async def _ranked(
        self, life: Lifecycle, sentences: Sequence[Memory], holding: Mapping[str, int], speakers: Sequence[str]
    ) -> dict[str, list[Memory]]:
        """Sentence id → current memories of its speaker: similar ones, best first, then those linked to them."""
        hits = await self._similar(sentences, holding, speakers)
        near = await self._neighbours({id_ for ids in hits.values() for id_ in ids}) if self.settings.linked else {}
        linked = list(dict.fromkeys(id_ for ids in near.values() for id_ in ids))
        held = await self._read_held(life, [id_ for ids in hits.values() for id_ in ids], linked)
        ranked: dict[str, list[Memory]] = {}
        for sentence in sentences:
            ids = hits[sentence.memory_id]
            around = dict.fromkeys([*ids, *(id_ for hit in ids for id_ in near.get(hit, ()))])
            found = [held[id_] for id_ in around if id_ in held]
            ranked[sentence.memory_id] = [m for m in found if m.speaker == sentence.speaker]
        return ranked

    async def _read_held(self, life: Lifecycle, hits: Sequence[str], linked: Sequence[str]) -> dict[str, Memory]:
        """Id → memory of earlier sessions, for those that are current in ``life``; ``hits`` were before this session.

        What has ended of those ``linked`` to them is not read.
        """
        similar = set(hits)
        unknown = [id_ for id_ in linked if life.get(id_) is None and id_ not in similar]
        ended = set(unknown) - await holding_ids(self.store, self.key, unknown)
        known = await self.read(life, [*hits, *(id_ for id_ in linked if id_ not in ended)])
        return {memory.memory_id: memory for memory in self._holding(life, known)}

    async def _similar(
        self, sentences: Sequence[Memory], holding: Mapping[str, int], speakers: Sequence[str]
    ) -> dict[str, list[str]]:
        """Sentence id → the most similar memories of its speaker that were current before this session, best first.

        ``holding`` as for `pairs`. Where most hits are ended, or of others, the search goes deeper.
        """
        if not sentences:
            return {}
        vectors = await self.embedder.embed([without_names(sentence.text, speakers) for sentence in sentences])
        found: dict[str, list[str]] = {}
        left = list(zip(sentences, vectors, strict=True))
        for limit in depths(self.settings.similar * OVERSAMPLE):
            rows = await self._search([vector for _, vector in left], limit)
            held = await read_current(self.store, self.key, list(dict.fromkeys(id_ for row in rows for id_ in row)))
            lacking = []
            for (sentence, vector), row in zip(left, rows, strict=True):
                own = [id_ for id_ in row if id_ in held and held[id_].speaker == sentence.speaker]
                found[sentence.memory_id] = own[: self.settings.similar]
                if len(row) == limit and len(own) < min(self.settings.similar, holding.get(sentence.speaker, 0)):
                    lacking.append((sentence, vector))
            left = lacking
            if not left:
                break
        return found

    async def _search(self, vectors: Sequence[NDArray[np.float32]], limit: int) -> list[list[str]]:
        searches = [
            Search(Collection.MEMORIES, self.key, limit, dense=vector.astype("<f4").tobytes(), born_before=self.before)
            for vector in vectors
        ]
        return [[hit.id for hit in row] for row in await self.index.search(searches)]

    async def _neighbours(self, ids: Ids[str]) -> dict[str, list[str]]:
        if not ids:
            return {}
        linked = await linked_session(self.store, self.key)
        if linked < self.before - 1:
            raise LinksMissing(f"link has applied {linked}, not yet {self.before - 1}")
        return await read_neighbours(self.store, self.key, sorted(ids))


def _by_digest(memories: Iterable[Memory]) -> dict[str, list[Memory]]:
    """Digest of speaker and words → the memories that have it, in order."""
    found: dict[str, list[Memory]] = {}
    for memory in memories:
        found.setdefault(text_digest(memory), []).append(memory)
    return found


def _once(memories: Sequence[Memory]) -> list[Memory]:
    return list({memory.memory_id: memory for memory in memories}.values())
