"""A gateway in this process on real servers."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx

from eunoe.deploy.gateway.keys import KeyFile, KeyPlan, KeyScope, new_key
from eunoe.deploy.gateway.server import open_gateway, serving
from eunoe.deploy.settings import Settings
from tests.support.pipeline import Pipeline


def feed_begin(settings: Settings, partitions: Iterable[int]) -> str:
    """The place before the first event of a feed of these partitions, in the first generation."""
    feed = f"v1-{settings.log_epoch}" if settings.log_epoch else "v1"
    return f"{feed}:" + ",".join(f"{partition}:0" for partition in partitions)


def made_key(folder: Path, tenant: str = "default", scopes: frozenset[KeyScope] = frozenset(KeyScope)) -> str:
    """A new key in the file of keys in ``folder``."""
    secret, kept = new_key(KeyPlan(tenant, scopes), datetime.now(UTC))
    KeyFile(folder / "keys.json").add(kept)
    return secret


@dataclass(frozen=True)
class Served:
    """A gateway at an address, with its file of keys in a folder."""

    url: str
    folder: Path

    def key(self, tenant: str = "default", scopes: frozenset[KeyScope] = frozenset(KeyScope)) -> str:
        return made_key(self.folder, tenant, scopes)


@asynccontextmanager
async def served(settings: Settings, folder: Path) -> AsyncIterator[Served]:
    """A gateway on these servers."""
    own = settings.gateway.model_copy(update={"keys": folder / "keys.json", "shutdown_seconds": 3})
    async with (
        open_gateway(settings.model_copy(update={"gateway": own})) as app,
        serving(app, "127.0.0.1:0") as url,
    ):
        yield Served(url, folder)


@asynccontextmanager
async def replica(pipeline: Pipeline, folder: Path, tenant: str = "default") -> AsyncIterator[httpx.AsyncClient]:
    """A client, with a key of its own, of a gateway on the pipeline's servers."""
    async with served(pipeline.settings, folder) as gateway:
        headers = {"Authorization": f"Bearer {gateway.key(tenant)}"}
        async with httpx.AsyncClient(base_url=gateway.url, headers=headers, timeout=60) as client:
            yield client
