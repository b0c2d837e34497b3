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
from eunoe.workers.respond.stage import CITED
from eunoe.workers.respond.stage import NAME as RESPOND

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
    key, naming, found = part.key, Naming(part), dict[str, int]()
    for stage, tables in {**TABLES, RESPOND: (CITED,)}.items():
        for table in tables:
            if (stage, table) not in _NUMBERS:
                rows = await clients.store.scan(stage, key, table)
                found[f"redis:{stage}/{table}"] = len(rows) if whole else _naming(rows, naming)
    for stage in TABLES:
        scope = Scope(stage, key)
        outbox = (await clients.store.ledger(scope)).outbox
        told = outbox is not None and (whole or naming.names_in(outbox))
        found[f"redis:{stage}!outbox"] = int(told)
        for number in await clients.store.parked_numbers(scope):
            slots = await clients.store.parked(scope, number)
            found[f"redis:{stage}!parked"] = len(slots) if whole else _naming(slots, naming)
    for collection in Collection:
        found[f"qdrant:{collection.value}"] = len(await clients.index.seqs(collection, key))
    return tuple(Count(place=place, count=count) for place, count in found.items() if count)


def _naming(rows: Mapping[str, str], naming: Naming) -> int:
    return sum(naming.is_erased(id_) or naming.names(text) for id_, text in rows.items())
