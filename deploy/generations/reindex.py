"""Fills the vector index of a generation again from the state store, while its workers go on."""

import asyncio
import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from eunoe.deploy.clients.bootstrap import Clients, open_qdrant
from eunoe.deploy.clients.shared import open_redis, open_store, store_keys
from eunoe.deploy.inspect.counted import counted
from eunoe.deploy.progress import ReportProgress
from eunoe.deploy.settings import Settings
from eunoe.schemas.base import write_time
from eunoe.schemas.decisions import Scope
from eunoe.schemas.errors import Refused, StateLost, Unavailable
from eunoe.schemas.model_ports import Embedder
from eunoe.schemas.versions import waiting_for_newer
from eunoe.workers.derive.index_audit import Disagreement, compare_index, missing_entries
from eunoe.workers.registry import STAGES
from eunoe.workers.stores.records.index_record import RedisIndexRecord, lost_reason
from eunoe.workers.stores.vectors.qdrant import QdrantIndex

log = logging.getLogger(__name__)

AT_ONCE: Final = 8
"""Conversations handled at once; few, to leave the servers to the workers."""
_PHASE: Final = "conversations"


@dataclass(frozen=True, slots=True)
class Reindexed:
    """The result of a reindex."""

    generation: str
    was_lost: bool
    """Whether searches waited for it: Qdrant had come back without its data."""
    conversations: int
    """Those that were looked at, without the lost ones."""
    restored: int
    """Conversations that lacked points, or had outdated ones."""
    points: int
    """Points written."""
    lost: int = 0
    """Conversations whose snapshot is lost: `eunoe repair` writes their points."""


async def reindex(settings: Settings, clients: Clients, report: ReportProgress) -> Reindexed:
    """Write the points that Qdrant lacks; where it lost its data, searches wait until all are there.

    Conversations whose snapshot is lost are held, and left out. May be interrupted and repeated. ``report`` is called
    after each group of conversations. Raises `Unavailable` when a server is down, or when Qdrant loses its data
    meanwhile.
    """
    index, record, embedder = clients.index, clients.index_record, clients.dependencies.embedder
    was_lost = clients.guard.lost is not None
    if was_lost:
        await record.begin(write_time(datetime.now(UTC)))
    await _prepare(index, embedder, was_lost=was_lost)
    filled = await index.identities()
    keys = await clients.store.conversations()
    written: list[int | None] = []
    for at in range(0, len(keys), AT_ONCE):
        group = keys[at : at + AT_ONCE]
        written += await asyncio.gather(*(_restored(clients, key) for key in group))
        report(_PHASE, at + len(group), len(keys))
    if await index.identities() != filled:
        raise Unavailable("Qdrant lost its data again while it was filled: run `eunoe reindex` again", "Qdrant")
    if was_lost:
        await record.finish(filled)
    points = [count for count in written if count]
    lost = written.count(None)
    return Reindexed(settings.names.generation, was_lost, len(keys) - lost, len(points), sum(points), lost)


async def _prepare(index: QdrantIndex, embedder: Embedder, *, was_lost: bool) -> None:
    """Make the collections that are missing; raises `Refused` where another deployment's stand in their place."""
    try:
        await index.prepare(embedder.name, embedder.dimensions)
    except Refused as fault:
        if not was_lost:
            raise
        made_by = str(fault).partition(": ")[0]
        raise Refused(
            f"this generation did not fill what stands under its names in Qdrant now: {made_by}. If another deployment"
            " uses it, give one of the two an EUNOE_PREFIX or a Qdrant of its own; else delete the collections, and run"
            " `eunoe reindex` again"
        ) from fault


async def _restored(clients: Clients, key: str) -> int | None:
    """`restore`, or `None` where the state of the conversation is lost, which no other one waits for."""
    try:
        with waiting_for_newer(key):
            return await restore(clients, key)
    except StateLost as fault:
        log.warning("%s", fault)
        return None


async def restore(clients: Clients, key: str) -> int:
    """Write the points that a conversation lacks, or that say something else; returns their number.

    Points of later sessions, which the workers write meanwhile, stay. Raises `Unavailable`.
    """
    findings = await compare_index(clients.store, clients.index, key, STAGES)
    wanted = {finding.id for finding in findings if finding.kind is not Disagreement.UNKNOWN}
    collections = {finding.collection for finding in findings}
    written = 0
    for spec in STAGES.values():
        if spec.restore_points and any(indexed.collection in collections for indexed in spec.tables.indexed):
            # read before the documents: an erasure between the two refuses the points
            fence = (await clients.store.ledger(Scope(spec.name, key))).lates
            made = await spec.restore_points(clients.dependencies, key)
            points = [point for point in made if point.id in wanted]
            await clients.index.upsert(points, fence)
            written += len(points)
    return written


async def check_index_there(settings: Settings) -> None:
    """Raise `Refused` where Qdrant lost the index of a generation, `Unavailable` when a server is down."""
    name, keys = settings.names.generation, store_keys(settings)
    async with open_redis(settings) as redis, open_qdrant(settings) as client:
        found = await QdrantIndex(client, keys).identities()
        if reason := lost_reason(await RedisIndexRecord(redis, keys).read(), found):
            raise Refused(f"{name}: {reason}".replace("`eunoe reindex`", _command(name)))


async def check_index_whole(settings: Settings) -> None:
    """Raise `Refused` where the index of a generation lacks points of any conversation; reads all of them.

    Raises `Unavailable` when a server is down.
    """
    await check_index_there(settings)
    name, keys = settings.names.generation, store_keys(settings)
    async with open_store(settings) as store, open_qdrant(settings) as client:
        index = QdrantIndex(client, keys)
        lacking, points = 0, 0
        conversations = await store.conversations()
        for at in range(0, len(conversations), AT_ONCE):
            group = conversations[at : at + AT_ONCE]
            for missing in await asyncio.gather(*(missing_entries(store, index, key, STAGES) for key in group)):
                lacking, points = lacking + bool(missing), points + len(missing)
    if lacking:
        told = f"{counted(points, 'point')} of {counted(lacking, 'conversation')}"
        raise Refused(f"{name}: Qdrant lacks {told}: run {_command(name)} first")


def _command(name: str) -> str:
    return f"`EUNOE_GENERATION={name} eunoe reindex`"
