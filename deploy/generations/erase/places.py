"""Counts, place by place, what in the stores tells of erased utterances."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from eunoe.deploy.clients.bootstrap import Clients
from eunoe.schemas.base import MAX_ID_CHARS
from eunoe.schemas.decisions import Collection, Outbox, Scope
from eunoe.schemas.erasure import Count, ErasedPart
from eunoe.workers.derive.pipeline import TABLES
from eunoe.workers.intake.erased import ERASED
from eunoe.workers.intake.state import HEAD
from eunoe.workers.respond.tables import CITED
from eunoe.workers.respond.tables import NAME as RESPOND
from eunoe.workers.stores.redis.staging import all_ended

_NUMBERS = frozenset({("intake", HEAD), ("intake", ERASED)})
"""Tables that a wholly erased conversation keeps: its numbers, and the hashes of ids that are not taken again."""


@dataclass(slots=True)
class Naming:
    """Finds the ids of erased utterances in documents."""

    part: ErasedPart
    _known: dict[str, bool] = field(default_factory=dict)

    def names(self, text: str) -> bool:
        """Whether a JSON text, or a text that is none, holds the id of an erased utterance."""
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        return any(self.is_erased(one) for one in _strings(value))

    def names_in(self, outbox: Outbox) -> bool:
        """Whether an outbox holds the id of an erased utterance; each of its messages is a JSON text of its own."""
        texts = (message.value.decode(errors="replace") for message in outbox.messages)
        return self.names(outbox.model_dump_json()) or any(map(self.names, texts))

    def is_erased(self, id_: str) -> bool:
        """Whether it is the id of an erased utterance."""
        if len(id_) > MAX_ID_CHARS:
            return False
        if id_ not in self._known:
            self._known[id_] = self.part.hashed(id_) in self.part.refused
        return self._known[id_]


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, part in value.items():
            yield name
            yield from _strings(part)
    elif isinstance(value, list):
        for part in value:
            yield from _strings(part)


async def count_places(clients: Clients, part: ErasedPart, *, whole: bool) -> tuple[Count, ...]:
    """Traces of erased utterances in a generation, by place; 0 is left out.

    The documents that name one of them and all points of the conversation; with ``whole`` all of its documents.
    Raises `Unavailable`.
    """
    places = _Places(clients, part.key, Naming(part), whole=whole)
    tables = [(stage, table) for stage, own in {**TABLES, RESPOND: (CITED,)}.items() for table in own]
    looks = (
        *(places.in_table(*one) for one in tables if one not in _NUMBERS),
        *map(places.in_outbox, TABLES),
        *map(places.in_parked, TABLES),
        *map(places.in_index, Collection),
    )
    return tuple(one for one in await all_ended(looks) if one.count)


@dataclass(frozen=True, slots=True)
class _Places:
    """Looks at the places of a conversation, which are taken together: servers answer several at a time."""

    clients: Clients
    key: str
    naming: Naming
    whole: bool

    async def in_table(self, stage: str, table: str) -> Count:
        rows = await self.clients.store.scan(stage, self.key, table)
        return Count(place=f"redis:{stage}/{table}", count=self._told(rows))

    async def in_outbox(self, stage: str) -> Count:
        outbox = (await self.clients.store.ledger(Scope(stage, self.key))).outbox
        told = outbox is not None and (self.whole or self.naming.names_in(outbox))
        return Count(place=f"redis:{stage}!outbox", count=int(told))

    async def in_parked(self, stage: str) -> Count:
        store, scope = self.clients.store, Scope(stage, self.key)
        slots = [await store.parked(scope, number) for number in await store.parked_numbers(scope)]
        return Count(place=f"redis:{stage}!parked", count=sum(map(self._told, slots)))

    async def in_index(self, collection: Collection) -> Count:
        points = await self.clients.index.seqs(collection, self.key)
        return Count(place=f"qdrant:{collection.value}", count=len(points))

    def _told(self, rows: Mapping[str, str]) -> int:
        if self.whole:
            return len(rows)
        return sum(self.naming.is_erased(id_) or self.naming.names(text) for id_, text in rows.items())
