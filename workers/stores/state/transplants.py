"""Export and import of whole conversations, over a `RedisStore`."""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, starmap
from typing import Any, Final

from eunoe.schemas.decisions import Ledger, Scope
from eunoe.schemas.errors import Unavailable
from eunoe.schemas.keys import DataKey
from eunoe.schemas.ports import StoredConversation
from eunoe.workers.stores.documents.sealed_documents import Stored, outbox_group, parked_group, table_group
from eunoe.workers.stores.redis.connection import RedisClient, RedisConnection, Script
from eunoe.workers.stores.redis.keys import Keys
from eunoe.workers.stores.redis.staging import MAX_FIELDS, STAGED_MS, Staging, all_ended
from eunoe.workers.stores.state.ledger_fields import OUTBOX, SKIPPED
from eunoe.workers.stores.state.redis_store import RedisStore

_SWAP = Script.load("swap")
_FOUND_MORE: Final = -2
"""The answer of the script where another process has begun to write beside a place since the names were read."""


class RedisTransplants:
    """`Transplants` over a `RedisStore`."""

    def __init__(self, store: RedisStore, client: RedisClient, keys: Keys) -> None:
        self._store = store
        self._redis = RedisConnection(client)
        self._keys = keys

    async def export(self, key: str, tables: Mapping[str, Sequence[str]]) -> StoredConversation:
        """The stored state of a conversation; raises ``ValueError`` where an outbox is unsent."""
        scopes = {stage: Scope(stage, key) for stage in tables}
        ledgers = {stage: await self._store.ledger(scope) for stage, scope in scopes.items()}
        if unsent := [stage for stage, ledger in ledgers.items() if ledger.outbox is not None]:
            raise ValueError(f"{key}: unsent decisions of {', '.join(unsent)}")
        found = {
            (stage, table): await self._store.scan(stage, key, table) for stage in tables for table in tables[stage]
        }
        return StoredConversation(ledgers, found, {stage: await self._parked(scope) for stage, scope in scopes.items()})

    async def _parked(self, scope: Scope) -> dict[int, dict[str, str]]:
        numbers = await self._store.parked_numbers(scope)
        return {number: await self._store.parked(scope, number) for number in numbers}

    async def swap(
        self,
        key: str,
        tables: Mapping[str, Sequence[str]],
        standing: StoredConversation,
        expect: Ledger,
        others: Mapping[str, Ledger] = {},
    ) -> bool:
        """Replace the stored state of a conversation by ``standing``; returns whether it was still as expected.

        What is long is written beside its place first. Raises `Unavailable`.
        """
        hashes = await self._hashes(key, tables, standing)
        lists = {
            self._keys.parked_numbers(Scope(stage, key)): sorted(standing.parked.get(stage, {})) for stage in tables
        }
        stale = await self._stale(key, tables)
        first, *_ = tables
        staging = self._staging(Scope(first, key), expect)
        fences = (staging.fence, self._keys.stub(key), staging.listed)
        # no snapshot of the old state is named from now on: a freezing of it is refused, and what cleans up deletes it
        snapshots = (self._keys.freezing(key), self._keys.thawed(key))
        token = secrets.token_hex(8)
        staged = {name: self._keys.staged(name, token) for name, rows in hashes.items() if len(rows) > MAX_FIELDS}
        counts = [len(hashes[name]) for name in staged]
        is_same = await staging.write((beside, hashes[name].stored()) for name, beside in staged.items())
        done = _FOUND_MORE if is_same else 0
        while done == _FOUND_MORE:
            others_left = await staging.left() - set(staged.values())
            to_remove = (*snapshots, *hashes, *lists, *stale, *others_left)
            names = list(dict.fromkeys((*fences, *to_remove, *staged.values())))
            places = {name: place for place, name in enumerate(names, start=1)}
            words = [*self._expected(key, expect, others, places), len(counts), *counts]
            words += _to_write(hashes, staged, places)
            for name, numbers in lists.items():
                words += ["numbers", places[name], len(numbers), *numbers]
            done = int(await self._redis.run(_SWAP, names, words))
        if done < 0:
            raise Unavailable(f"writing {key} took longer than {STAGED_MS / 1000:.0f} s", self._redis.host)
        if not done:
            await staging.drop(staged.values())
        return bool(done)

    def _staging(self, first: Scope, expect: Ledger) -> Staging:
        """Writer of the state beside its place, while the ledger of the first stage is as it was read.

        The token tells of an erasure, too, which leaves the number as it is.
        """
        field = ("token", expect.token) if expect.token else ("applied", str(expect.applied or ""))
        return Staging(self._redis, self._keys.staged_names(first.key), self._keys.ledger(first), *field)

    def _expected(
        self, key: str, first: Ledger, others: Mapping[str, Ledger], places: Mapping[str, int]
    ) -> list[str | int | bytes]:
        """The words of the script with which it compares the ledgers."""
        words: list[str | int | bytes] = [first.applied, _outbox_number(first), len(others)]
        for stage, other in others.items():
            words += [places[self._keys.ledger(Scope(stage, key))], other.applied, _outbox_number(other), other.lates]
        return words

    async def _hashes(
        self, key: str, tables: Mapping[str, Sequence[str]], standing: StoredConversation
    ) -> "dict[str, _Rows]":
        """The hashes to write by name, empty ones included, sealed with the current key."""
        documents, data_key = self._store.documents, await self._store.documents.key(key)
        found: dict[str, _Rows] = {}
        for stage, names in tables.items():
            scope = Scope(stage, key)
            found[self._keys.ledger(scope)] = _Rows(
                self._ledger_row(scope, standing.ledgers.get(stage, Ledger()), data_key)
            )
            for table in names:
                rows = standing.tables.get((stage, table), {})
                found[self._keys.table(stage, key, table)] = _Rows(
                    rows, partial(documents.seal, data_key, table_group(stage, key, table))
                )
            for number, slots in standing.parked.get(stage, {}).items():
                found[self._keys.parked(scope, number)] = _Rows(
                    slots, partial(documents.seal, data_key, parked_group(scope, number))
                )
        return found

    def _ledger_row(self, scope: Scope, ledger: Ledger, key: DataKey | None) -> dict[str, Stored]:
        """The fields of a ledger; none for one of a stage that has decided nothing. `commit.lua` has the same names."""
        fields: dict[str, Stored] = {**_ledger_fields(ledger, self._store.new_token())}
        if (unsent := ledger.outbox) is not None:
            _, text = self._store.documents.seal(key, outbox_group(scope), "outbox", unsent.model_dump_json())
            fields[f"{OUTBOX}{unsent.number}"] = text
        return fields | ({"key": key.id} if key and fields else {})

    async def _stale(self, key: str, tables: Mapping[str, Sequence[str]]) -> list[str]:
        """The keys of events parked now, which the swap removes."""
        scopes = [Scope(stage, key) for stage in tables]
        numbers = await all_ended(map(self._store.parked_numbers, scopes))
        return [self._keys.parked(scope, one) for scope, own in zip(scopes, numbers, strict=True) for one in own]


def _to_write(
    hashes: "Mapping[str, _Rows]", staged: Mapping[str, str], places: Mapping[str, int]
) -> Iterator[str | int | bytes]:
    """The words of the script about the hashes: all of a short one; of a long one where it is staged."""
    for name, rows in hashes.items():
        if name in staged:
            yield from ("staged", places[name], 1, places[staged[name]])
        else:
            yield from ("hash", places[name], 2 * len(rows), *chain.from_iterable(rows.stored()))


def _as_it_is(id_: str, value: Stored) -> tuple[str, Stored]:
    return id_, value


@dataclass(frozen=True, slots=True)
class _Rows:
    """A hash to write."""

    rows: Mapping[str, Stored]
    store: Callable[[str, Any], tuple[str, Stored]] = _as_it_is
    """Gives the field and the value as they are stored."""

    def __len__(self) -> int:
        return len(self.rows)

    def stored(self) -> Iterator[tuple[str, Stored]]:
        """Fields and values as they are stored, each made when it is asked for."""
        return starmap(self.store, self.rows.items())


def _outbox_number(ledger: Ledger) -> int | str:
    return "" if ledger.outbox is None else ledger.outbox.number


def _ledger_fields(ledger: Ledger, token: str) -> dict[str, str]:
    """The fields of a ledger. Its token is a new one: decisions from what stood there before are refused."""
    if not ledger.has_decided:
        return {}
    skipped = {f"{SKIPPED}{number}": "1" for number in ledger.skipped}
    lates = {"lates": str(ledger.lates)} if ledger.lates else {}
    return {"applied": str(ledger.applied), "token": token, **lates, **skipped}
