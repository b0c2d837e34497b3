"""Export and import of whole conversations, over a `RedisStore`."""

from collections.abc import Mapping, Sequence

from eunoe.schemas.decisions import Ledger, Scope
from eunoe.schemas.keys import DataKey
from eunoe.schemas.ports import StoredConversation
from eunoe.workers.stores.connection import RedisClient, RedisConnection, Script
from eunoe.workers.stores.keys import Keys
from eunoe.workers.stores.redis import OUTBOX, SKIPPED, RedisStore
from eunoe.workers.stores.sealed_documents import DocumentGroup, Stored, outbox_group, parked_group, table_group

_SWAP = Script.load("swap")


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
        """Replace the stored state of a conversation by ``standing``; returns whether it was still as expected."""
        documents = await self._documents(key, tables, standing)
        lists = {
            self._keys.parked_numbers(Scope(stage, key)): sorted(standing.parked.get(stage, {})) for stage in tables
        }
        stale = await self._stale(key, tables)
        first, *_ = tables
        fences = (self._keys.ledger(Scope(first, key)), self._keys.stub(key))
        # no snapshot of the old state is named from now on: a freezing of it is refused, and what cleans up deletes it
        snapshots = (self._keys.freezing(key), self._keys.thawed(key))
        names = list(dict.fromkeys((*fences, *snapshots, *documents, *lists, *stale)))
        places = {name: place for place, name in enumerate(names, start=1)}
        words: list[str | int | bytes] = [expect.applied, _outbox_number(expect), len(others)]
        for stage, other in others.items():
            ledger_name = self._keys.ledger(Scope(stage, key))
            words += [places[ledger_name], other.applied, _outbox_number(other), other.lates]
        for name, rows in documents.items():
            words += ["hash", places[name], 2 * len(rows), *(word for row in rows.items() for word in row)]
        for name, numbers in lists.items():
            words += ["numbers", places[name], len(numbers), *numbers]
        return bool(await self._redis.run(_SWAP, names, words))

    async def _documents(
        self, key: str, tables: Mapping[str, Sequence[str]], standing: StoredConversation
    ) -> dict[str, Mapping[str, Stored]]:
        """The hashes to write, empty ones included: name → field → value, sealed with the current key."""
        documents, data_key = self._store.documents, await self._store.documents.key(key)

        def sealed(group: DocumentGroup, rows: Mapping[str, str]) -> dict[str, Stored]:
            return dict(documents.seal(data_key, group, id_, text) for id_, text in rows.items())

        found: dict[str, Mapping[str, Stored]] = {}
        for stage, names in tables.items():
            scope = Scope(stage, key)
            found[self._keys.ledger(scope)] = self._ledger_row(scope, standing.ledgers.get(stage, Ledger()), data_key)
            for table in names:
                rows = standing.tables.get((stage, table), {})
                found[self._keys.table(stage, key, table)] = sealed(table_group(stage, key, table), rows)
            for number, slots in standing.parked.get(stage, {}).items():
                found[self._keys.parked(scope, number)] = sealed(parked_group(scope, number), slots)
        return found

    def _ledger_row(self, scope: Scope, ledger: Ledger, key: DataKey | None) -> dict[str, Stored]:
        """The fields of a ledger; none for one of a stage that has decided nothing. `commit.lua` has the same names."""
        fields: dict[str, Stored] = {**_ledger_fields(ledger, self._store.new_token())}
        if (unsent := ledger.outbox) is not None:
            _, text = self._store.documents.seal(key, outbox_group(scope), "outbox", unsent.model_dump_json())
            fields |= {f"{OUTBOX}{unsent.number}": text, "outbox_number": str(unsent.number)}
        return fields | ({"key": key.id} if key and fields else {})

    async def _stale(self, key: str, tables: Mapping[str, Sequence[str]]) -> list[str]:
        """The keys of events parked now, which the swap removes."""
        scopes = [Scope(stage, key) for stage in tables]
        return [
            self._keys.parked(scope, number) for scope in scopes for number in await self._store.parked_numbers(scope)
        ]


def _outbox_number(ledger: Ledger) -> int | str:
    return "" if ledger.outbox is None else ledger.outbox.number


def _ledger_fields(ledger: Ledger, token: str) -> dict[str, str]:
    """The fields of a ledger. Its token is a new one: decisions from what stood there before are refused."""
    if not ledger.has_decided:
        return {}
    skipped = {f"{SKIPPED}{number}": "1" for number in ledger.skipped}
    lates = {"lates": str(ledger.lates)} if ledger.lates else {}
    return {"applied": str(ledger.applied), "token": token, **lates, **skipped}
