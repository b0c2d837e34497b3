"""Collections that are gone, or that another deployment made under the same names, while a generation goes on."""

import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from pydantic import SecretStr

from eunoe.deploy.clients.bootstrap import open_qdrant
from eunoe.deploy.clients.shared import open_redis, open_store, store_keys
from eunoe.deploy.doctor.findings import Findings, Level
from eunoe.deploy.doctor.qdrant import check_qdrant
from eunoe.deploy.generations.reindex import reindex
from eunoe.deploy.settings import Settings
from eunoe.schemas.decisions import Collection, Point
from eunoe.schemas.errors import Misconfigured, Refused, Unavailable
from eunoe.schemas.ports import Search
from eunoe.workers.derive.index_guard import SERVER, GuardedIndex, IndexGuard
from eunoe.workers.models.local.embedding import WordLlamaEmbedder
from eunoe.workers.registry import STAGES
from eunoe.workers.stores.records.generations import forget_generation
from eunoe.workers.stores.records.index_record import RedisIndexRecord
from eunoe.workers.stores.vectors.qdrant import QdrantIndex
from eunoe.workers.stores.vectors.qdrant_rest import UnexpectedStatus
from tests.support.session import SessionServers

pytestmark = pytest.mark.broker

LENGTH = 256
POINT = Point(
    collection=Collection.MEMORIES,
    id="6a0f4b0e-50c1-5d7d-9d3b-0a4f2f4f7a11",
    key="acme/c1",
    born=1,
    seq=1,
    text="Ann moved.",
    dense=np.eye(1, LENGTH, dtype="<f4").tobytes(),
)


class Deployment:
    """A generation whose collections were filled, and what others see of it."""

    def __init__(self, settings: Settings, index: QdrantIndex, guard: IndexGuard, record: RedisIndexRecord) -> None:
        self.settings, self.index, self.guard, self.record = settings, index, guard, record
        self.guarded = GuardedIndex(index, guard)

    async def remove(self) -> None:
        for collection in Collection:
            await self.index._client.delete_collection(self.index._keys.collection(collection))

    async def replace(self, embedder: str, length: int) -> None:
        """As another deployment without a record of its own does, or a restored snapshot of its."""
        await self.remove()
        await self.index.prepare(embedder, length)

    async def told(self) -> list[str]:
        findings = Findings("qdrant")
        await check_qdrant(self.settings, findings)
        return [one.text for one in findings.found if one.level is not Level.OK]


@pytest.fixture
async def deployment(servers: SessionServers) -> AsyncIterator[Deployment]:
    settings = Settings(
        redis_url=SecretStr(servers.redis_url),
        qdrant_url=servers.qdrant_url,
        prefix=f"foreign-{secrets.token_hex(6)}",
    )
    keys, embedder = store_keys(settings), WordLlamaEmbedder()
    async with AsyncExitStack() as closing:
        closing.push_async_callback(embedder.aclose)
        redis = await closing.enter_async_context(open_redis(settings))
        store = await closing.enter_async_context(open_store(settings))
        index = QdrantIndex(await closing.enter_async_context(open_qdrant(settings)), keys)
        record = RedisIndexRecord(redis, keys)
        guard = IndexGuard(index, record, store, embedder, STAGES, keys.collection)
        made = Deployment(settings, index, guard, record)
        assert await made.told() == ["no collections of generation v1 yet: the first worker makes them"]
        await guard.open()
        assert await made.told() == []
        yield made
        await made.remove()
        await forget_generation(redis, keys)


async def test_the_doctor_tells_of_collections_that_are_gone_or_not_the_ones_that_were_filled(
    deployment: Deployment,
) -> None:
    await deployment.remove()
    (told,) = await deployment.told()
    assert "are gone; run `eunoe reindex`" in told
    await deployment.replace("another", 4)
    (told,) = await deployment.told()
    assert "are new; run `eunoe reindex`" in told


async def test_a_write_into_the_collection_of_another_deployment_waits_and_other_faults_are_no_wait(
    deployment: Deployment,
) -> None:
    await deployment.guarded.upsert([POINT])
    wrong = POINT.model_copy(update={"dense": np.eye(1, 4, dtype="<f4").tobytes()})
    with pytest.raises(UnexpectedStatus, match="400"):
        await deployment.guarded.upsert([wrong])
    await deployment.replace("another", 4)
    with pytest.raises(Unavailable, match="are new; run `eunoe reindex`") as found:
        await deployment.guarded.upsert([POINT])
    assert found.value.server == SERVER


async def test_a_search_in_the_collection_of_another_deployment_waits_and_other_faults_are_no_wait(
    deployment: Deployment,
) -> None:
    asked = Search(Collection.MEMORIES, POINT.key, 5, dense=POINT.dense)
    with pytest.raises(UnexpectedStatus, match="400"):
        await deployment.guarded.search([replace(asked, dense=POINT.dense[:16])])
    await deployment.replace("another", 4)
    with pytest.raises(Unavailable, match="are new; run `eunoe reindex`") as found:
        await deployment.guarded.search([asked])
    assert found.value.server == SERVER


async def test_a_collection_made_by_hand_with_copied_marks_is_named_at_start_and_waited_for_meanwhile(
    deployment: Deployment,
) -> None:
    rest, name = deployment.index._client, deployment.index._keys.collection(Collection.MEMORIES)
    found = await rest.collection(name)
    assert found is not None
    await rest.delete_collection(name)
    await rest.create_collection(name, 384, found.metadata)
    said = f"the Qdrant collection {name} has vectors of 384 numbers .*, though its metadata says vectors of 256"
    for request in (
        deployment.guard.open(),
        deployment.guarded.upsert([POINT]),
        deployment.guarded.search([Search(Collection.MEMORIES, POINT.key, 5, dense=POINT.dense)]),
        deployment.told(),
    ):
        with pytest.raises(Misconfigured, match=f"{said}.* Delete it .* run `eunoe reindex`"):
            await request
    await rest.delete_collection(name)
    (told,) = await deployment.told()
    assert "are gone; run `eunoe reindex`" in told


async def test_reindex_says_whose_collections_may_stand_there(deployment: Deployment) -> None:
    await deployment.replace("another", 4)
    await deployment.guard.check()
    clients = SimpleNamespace(
        index=deployment.index,
        index_record=deployment.record,
        guard=deployment.guard,
        dependencies=SimpleNamespace(embedder=deployment.guard.embedder),
    )
    with pytest.raises(
        Refused, match=r"with the embedder another \(4 dimensions\).* an EUNOE_PREFIX .* delete"
    ) as told:
        await reindex(deployment.settings, cast("Any", clients), lambda *_: None)
    assert "rebuild" not in str(told.value)
