"""Checks a receipt against the servers."""

from time import time

from eunoe.deploy.clients.bootstrap import Clients
from eunoe.deploy.clients.data_keys import open_key_store
from eunoe.deploy.clients.key_checks import keys_not_destroyed
from eunoe.deploy.generations.erase.places import count_places
from eunoe.deploy.generations.erase.receipt import Receipt, read_receipt, subject_of
from eunoe.deploy.generations.erase.run import Eraser
from eunoe.deploy.inspect.counted import counted
from eunoe.deploy.settings import Settings
from eunoe.schemas.base import Value
from eunoe.schemas.erasure import Count, Erasure, erased_parts
from eunoe.schemas.errors import Refused
from eunoe.workers.derive.index_audit import Disagreement, compare_index
from eunoe.workers.registry import MEMORY_STAGES, STAGES


class FoundAgain(Value):
    """Traces of erased utterances in one generation."""

    generation: str
    documents: tuple[Count, ...] = ()
    stray_points: int = 0
    """Points of the vector index that no document stands behind: a late worker has written them."""
    snapshots: int = 0
    """Files of the conversation in the cold store that the state store does not name: they came late, too."""

    @property
    def places(self) -> tuple[str, ...]:
        """Findings in words, for people."""
        documents = [f"{one.count} in {one.place}" for one in self.documents if one.count]
        points = [counted(self.stray_points, "stray point")] if self.stray_points else []
        snapshots = [f"{counted(self.snapshots, 'stray snapshot')} in the cold store"] if self.snapshots else []
        return (*documents, *points, *snapshots)

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found."""
        return not self.places


class Checked(Value):
    """The result of a check."""

    receipt: Receipt
    found: tuple[FoundAgain, ...]
    keys_back: tuple[str, ...] = ()
    """Ids of data keys that the receipt calls destroyed, and that the key store has, or does not know; the servers were
    not looked at then."""

    @property
    def holds(self) -> bool:
        """Whether nothing of what was erased was found."""
        return all(one.is_clean for one in self.found) and not self.keys_back

    @property
    def lines(self) -> list[str]:
        """The result for people."""
        erased = counted(self.receipt.utterances, "utterance")
        told = [f"receipt {self.receipt.request_id}: signature good, {erased} erased"]
        told += [f"generation {one.generation}: {', '.join(one.places) or 'nothing found'}" for one in self.found]
        if self.receipt.keys:
            back = f"{len(self.keys_back)} NOT DESTROYED: {', '.join(self.keys_back)}"
            told.append(f"{counted(len(self.receipt.keys), 'data key')}: {back if self.keys_back else 'all destroyed'}")
        told += [f"not covered: {one.place}: {one.why}; until {one.until}" for one in self.receipt.not_covered]
        if self.keys_back:
            told.append("the key store is another one, or an older copy: run `eunoe keys replay`, then look again")
        if any(one.documents or one.stray_points for one in self.found):
            told.append("FOUND AGAIN: run `eunoe erase replay`, or `eunoe repair CONVERSATION`")
        if any(one.snapshots for one in self.found):
            told.append(
                "FOUND AGAIN: workers that run delete the snapshots within EUNOE_COLD__SWEEP_SECONDS; then look again"
            )
        return told


async def verify_receipt(eraser: Eraser, text: bytes) -> Checked:
    """Look again in every generation; returns what was found, and has the workers delete stray snapshots.

    Raises `Refused` for what is no receipt of this deployment, `Unavailable`.
    """
    receipt = read_receipt(text, await eraser.ledger.secret())
    erasure = await _erasure_of(eraser, receipt)
    part = erased_parts(await eraser.ledger.erasures(erasure.key))[erasure.key]
    keys_back = await _not_destroyed(eraser.settings, receipt)
    if keys_back:  # a store that went back may lack keys, too, that what remains is sealed with
        return Checked(receipt=receipt, found=(), keys_back=keys_back)
    found = []
    for settings in await eraser.generations():
        async with eraser.opened(settings, part) as (clients, _):
            counts = await count_places(clients, part, whole=False)
            documents = tuple(one for one in counts if not one.place.startswith("qdrant:"))
            specs = {name: STAGES[name] for name in MEMORY_STAGES}
            findings = await compare_index(clients.store, clients.index, part.key, specs)
            stray = sum(one.kind in (Disagreement.UNKNOWN, Disagreement.OTHER_TEXT) for one in findings)
            one = FoundAgain(generation=settings.names.generation, documents=documents, stray_points=stray)
            found.append(one.model_copy(update={"snapshots": await _stray_snapshots(clients, part.key)}))
    return Checked(receipt=receipt, found=tuple(found))


async def _stray_snapshots(clients: Clients, key: str) -> int:
    """Count a conversation's snapshots that nothing names, and note them for the next sweep of a worker."""
    found = await clients.store.cold.unnamed(key)
    if found:
        await clients.erased_snapshots.note(key, time())
    return len(found)


async def _not_destroyed(settings: Settings, receipt: Receipt) -> tuple[str, ...]:
    """The data keys of a receipt without a tombstone. Raises `Refused` where no key store is set, `Unavailable`."""
    if not receipt.keys:
        return ()
    async with open_key_store(settings) as store:
        return tuple(await keys_not_destroyed(store, [key.id for key in receipt.keys]))


async def _erasure_of(eraser: Eraser, receipt: Receipt) -> Erasure:
    for erasure in await eraser.ledger.erasures():
        if erasure.request_id == receipt.request_id and subject_of(erasure) == receipt.subject:
            return erasure
    raise Refused(f"receipt {receipt.request_id}: the ledger of erasures has no such entry: it is an old copy")
