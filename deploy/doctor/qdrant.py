"""The check of Qdrant: version, key, collections with their counts, writes, as its own client sees them."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from uuid import uuid4

import httpx
from qdrant_client import AsyncQdrantClient
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

from eunoe.deploy.clients.bootstrap import open_qdrant, usable_qdrant_url
from eunoe.deploy.clients.shared import open_redis, store_keys
from eunoe.deploy.doctor.findings import Findings
from eunoe.deploy.inspect.counted import counted
from eunoe.deploy.settings import Settings, reveal
from eunoe.schemas.decisions import Collection
from eunoe.schemas.errors import Refused, Unavailable
from eunoe.workers.stores.records.index_record import RedisIndexRecord, lost_reason
from eunoe.workers.stores.vectors.qdrant import QdrantIndex
from eunoe.workers.stores.vectors.qdrant_rest import qdrant_address

LEAST_VERSION = (1, 16)
"""Conditional writes (``update_filter``) came with Qdrant 1.16."""
TIMEOUT_S = 30
_SAID = 200
"""Characters of a refusal that are told."""


async def check_qdrant(settings: Settings, findings: Findings) -> None:
    """Add the version, each collection with its points, and whether it takes writes.

    Raises `Refused` for a wrong key, `Unavailable`.
    """
    keys = store_keys(settings)
    address = qdrant_address(usable_qdrant_url(settings))
    async with _opened(address, reveal(settings.qdrant_api_key)) as client:
        with _naming_faults(address):
            await _version(client, address, findings)
            findings.step("collections")
            names = [keys.collection(collection) for collection in Collection]
            missing = [name for name in names if not await client.collection_exists(name)]
            there = [name for name in names if name not in missing]
            for name in there:
                await _collection(client, name, findings)
            findings.step("writes")
            await check_writes(client, there, findings)
    findings.step("what was filled")
    if (lost := await _lost(settings, findings)) is not None:
        findings.fault(f"{lost}; until then all searches wait")
    elif len(missing) == len(names):
        findings.note(f"no collections of generation {keys.generation} yet: the first worker makes them")
    elif missing:
        findings.fault(f"collections missing: {', '.join(missing)}; run `eunoe reindex`")


async def _lost(settings: Settings, findings: Findings) -> str | None:
    """The reason why these are not the collections that the generation filled; `None` also where nobody can tell.

    Raises `Refused` where the vectors of one are not as its metadata says.
    """
    if settings.redis_url is None:
        return None
    keys = store_keys(settings)
    try:
        async with open_redis(settings) as redis:
            record = await RedisIndexRecord(redis, keys).read()
    except Unavailable as fault:
        findings.note(f"whether these are the collections that were filled cannot be seen: {fault}")
        return None
    async with open_qdrant(settings) as client:
        return lost_reason(record, await QdrantIndex(client, keys).identities())


@asynccontextmanager
async def _opened(address: str, api_key: str | None) -> AsyncIterator[AsyncQdrantClient]:
    # as `api_key` it would be a warning of Python for each http:// URL, also on loopback
    headers = {} if api_key is None else {"api-key": api_key}
    client = AsyncQdrantClient(address, metadata=headers, timeout=TIMEOUT_S, check_compatibility=False)
    try:
        yield client
    finally:
        await client.close()


async def _version(client: AsyncQdrantClient, address: str, findings: Findings) -> None:
    found = (await client.info()).version
    numbers = tuple(int(part) for part in found.split(".")[:2] if part.isdecimal())
    if len(numbers) == 2 and numbers < LEAST_VERSION:
        findings.fault(f"Qdrant {found} at {address} is too old: use {'.'.join(map(str, LEAST_VERSION))} or newer")
    else:
        findings.ok(f"Qdrant {found} at {address}")


async def _collection(client: AsyncQdrantClient, name: str, findings: Findings) -> None:
    about = await client.get_collection(name)
    metadata = about.config.metadata or {}
    made = f", embedder {metadata['embedder']}" if "embedder" in metadata else ""
    status = str(getattr(about.status, "value", about.status))
    text = f"{name}: {counted(about.points_count or 0, 'point')}, {status}{made}"
    if status == "red":
        findings.fault(text)
    else:
        findings.ok(text)


async def check_writes(client: AsyncQdrantClient, collections: Sequence[str], findings: Findings) -> None:
    """Delete a point that is nowhere: a write that changes nothing, and makes no collection."""
    for name in collections:
        try:
            await client.delete(name, [str(uuid4())], wait=True)
        except UnexpectedResponse as fault:
            said = fault.content.decode(errors="replace")[:_SAID]
            findings.fault(f"{name} refuses writes, and stages wait: {fault.status_code} {said}")
            return
    if collections:
        findings.ok("every collection takes writes")


@contextmanager
def _naming_faults(address: str) -> Iterator[None]:
    """Translate the exceptions of the client into `Refused` and `Unavailable`."""
    try:
        yield
    except UnexpectedResponse as fault:
        if fault.status_code in {401, 403}:
            raise Refused(f"Qdrant at {address} refuses the key: set EUNOE_QDRANT_API_KEY") from None
        if fault.status_code in range(300, 400):
            raise Refused(f"{address} redirects: set EUNOE_QDRANT_URL to the address that answers by itself") from None
        if fault.status_code == 404:
            raise Refused(f"{address} is no Qdrant: check EUNOE_QDRANT_URL") from None
        raise Unavailable(f"Qdrant at {address} said {fault.status_code}", "Qdrant") from None
    except (ResponseHandlingException, httpx.HTTPError, OSError) as fault:
        raise Unavailable(f"no answer from Qdrant at {address}", "Qdrant") from fault
    except (ApiException, ValueError):
        raise Refused(f"{address} is no Qdrant: check EUNOE_QDRANT_URL") from None
