"""Keeps vertices of the memory graph until sessions are linked again: asks go along the same chains of memories."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from eunoe.schemas.decisions import Scope
from eunoe.schemas.documents import read_document
from eunoe.schemas.ports import StateStore
from eunoe.workers.link.graph import NAME, VERTICES, Vertex
from eunoe.workers.text.caches import CacheBySize

ReadVertices = Callable[[Sequence[str]], Awaitable[dict[str, Vertex]]]
"""Reads the vertices of memories, by their ids; memories that are not in the graph are left out."""

_ENTRY_BYTES = 450
"""Of a vertex beside its text: its id, its key, and their places."""


@dataclass(slots=True)
class VertexCache:
    """A least-recently-used cache of vertices, each valid until the next commit of `link` to its conversation.

    A timeline is read level by level, and each level that is not known takes a round trip: some twenty of an ask's
    forty. One more tells that nothing was committed since. ``max_bytes`` 0: nothing is kept.
    """

    max_bytes: int = 0
    """The most that it holds; a vertex takes some 650 bytes."""
    _kept: CacheBySize[tuple[str, str, str], str] = field(init=False)

    def __post_init__(self) -> None:
        """Begin empty."""
        self._kept = CacheBySize(self.max_bytes, "vertices")

    async def reader(self, store: StateStore, key: str) -> ReadVertices:
        """A reader of a conversation's vertices, as they are now or later. Raises `Unavailable`, as the reader does."""
        token = (await store.ledger(Scope(NAME, key))).token if self.max_bytes else ""

        async def read(ids: Sequence[str]) -> dict[str, Vertex]:
            texts = {id_: text for id_ in ids if (text := self._kept.get((key, token, id_))) is not None}
            if missing := [id_ for id_ in ids if id_ not in texts]:
                rows = await store.fetch(NAME, key, VERTICES, missing)
                fresh = {id_: row for id_, row in zip(missing, rows, strict=True) if row is not None}
                texts |= fresh
                if token:  # what was read after a commit is newer than the token tells, but never older
                    for id_, row in fresh.items():
                        self._kept.put((key, token, id_), row, _ENTRY_BYTES + len(row))
            return {id_: read_document(Vertex, texts[id_], key) for id_ in ids if id_ in texts}

        return read
