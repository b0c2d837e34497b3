"""The check of Qdrant: version, key, collections and their counts."""

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

from eunoe.deploy.clients.bootstrap import open_qdrant
from eunoe.deploy.clients.shared import store_keys
from eunoe.deploy.doctor.findings import Findings
from eunoe.deploy.settings import Settings
from eunoe.schemas.decisions import Collection
from eunoe.schemas.errors import Refused, Unavailable
from eunoe.workers.stores.qdrant_rest import QdrantRest

LEAST_VERSION = (1, 16)
"""Conditional writes (``update_filter``) came with Qdrant 1.16."""


async def check_qdrant(settings: Settings, findings: Findings) -> None:
    """Add the version, and each collection with its points. Raises `Refused` for a wrong key, `Unavailable`."""
    keys = store_keys(settings)
    async with open_qdrant(settings) as client:
        with _naming_faults(client.address):
            await _version(client, findings)
            findings.step("collections")
            names = [keys.collection(collection) for collection in Collection]
            missing = [name for name in names if not await client.collection_exists(name)]
            for name in names:
                if name not in missing:
                    await _collection(client, name, findings)
    if len(missing) == len(names):
        findings.note(f"no collections of generation {keys.generation} yet: the first worker makes them")
    elif missing:
        findings.fault(f"collections missing: {', '.join(missing)}; derive memory again: `eunoe rebuild`")


async def _version(client: QdrantRest, findings: Findings) -> None:
    found = (await client.info()).version
    numbers = tuple(int(part) for part in found.split(".")[:2] if part.isdecimal())
    if len(numbers) == 2 and numbers < LEAST_VERSION:
        findings.fault(
            f"Qdrant {found} at {client.address} is too old: use {'.'.join(map(str, LEAST_VERSION))} or newer"
        )
    else:
        findings.ok(f"Qdrant {found} at {client.address}")


async def _collection(client: QdrantRest, name: str, findings: Findings) -> None:
    about = await client.get_collection(name)
    metadata = about.config.metadata or {}
    made = f", embedder {metadata['embedder']}" if "embedder" in metadata else ""
    status = str(getattr(about.status, "value", about.status))
    text = f"{name}: {about.points_count or 0} points, {status}{made}"
    if status == "red":
        findings.fault(text)
    else:
        findings.ok(text)


@contextmanager
def _naming_faults(address: str) -> Iterator[None]:
    """Translate the exceptions of the client into `Refused` and `Unavailable`."""
    try:
        yield
    except UnexpectedResponse as fault:
        if fault.status_code in {401, 403}:
            raise Refused(f"Qdrant at {address} refuses the key: set EUNOE_QDRANT_API_KEY") from None
        if fault.status_code == 404:
            raise Refused(f"{address} is no Qdrant: check EUNOE_QDRANT_URL") from None
        raise Unavailable(f"Qdrant at {address} said {fault.status_code}", "Qdrant") from None
    except (ResponseHandlingException, httpx.HTTPError, OSError) as fault:
        raise Unavailable(f"no answer from Qdrant at {address}", "Qdrant") from fault
    except (ApiException, ValueError):
        raise Refused(f"{address} is no Qdrant: check EUNOE_QDRANT_URL") from None
