"""A worker that is stopped with a write in hand, and goes on after the receipt, brings nothing back."""

import signal
from collections.abc import Mapping
from urllib.parse import urlsplit

import numpy as np
import pytest

from eunoe.deploy.clients.bootstrap import open_qdrant
from eunoe.deploy.clients.shared import store_keys
from eunoe.deploy.generations.erase.run import Eraser
from eunoe.deploy.generations.erase.verify import verify_receipt
from eunoe.schemas.decisions import Collection
from eunoe.workers.stores.erasures.sqlite_ledger import SqliteErasures
from eunoe.workers.stores.redis.connection import Script
from eunoe.workers.stores.vectors.qdrant import QdrantIndex
from tests.broker.test_erase import digest, end, request, said, told
from tests.support.holding import Way, way_to
from tests.support.pipeline import Pipeline, sealed_pipeline

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(300)]

NAME = "mine"
COMMIT = Script.load("commit").sha.encode()
WRITES = {
    "an upsert of memories": ("EUNOE_QDRANT_URL", (b"PUT ", b".memories/points")),
    "an upsert of segments": ("EUNOE_QDRANT_URL", (b"PUT ", b".segments/points")),
    "a commit of update": ("EUNOE_REDIS_URL", (COMMIT, b"update")),
    "a commit of compress": ("EUNOE_REDIS_URL", (COMMIT, b"compress")),
}


async def vectors(pipeline: Pipeline) -> Mapping[str, bytes]:
    async with open_qdrant(pipeline.settings) as client:
        index = QdrantIndex(client, store_keys(pipeline.settings))
        return {point.id: point.dense for one in Collection for point in await index.points(one, f"default/{NAME}")}


@pytest.mark.parametrize("write", WRITES)
async def test_a_write_that_arrives_after_the_receipt_brings_nothing_back(pipeline: Pipeline, write: str) -> None:
    variable, words = WRITES[write]
    sealed = sealed_pipeline(pipeline)
    url = urlsplit(sealed.variables[variable])
    eraser = Eraser(
        sealed.settings.model_copy(update={"generation": "v1"}), SqliteErasures(pipeline.cwd / "ledger.sqlite")
    )
    async with way_to(url.hostname or "", url.port or 0) as way:
        by_way = url._replace(netloc=url.netloc.replace(f":{url.port}", f":{way.port}")).geturl()
        late = Pipeline(sealed.cwd, sealed.base, {**sealed.variables, variable: by_way})
        async with late.up() as worker:
            await sealed.produce(said(NAME, 1), end(NAME, 1))
            await sealed.remembered(1, NAME)
            first = await vectors(sealed)
            receipt = await _erased_meanwhile(sealed, way, words, eraser, worker)
            way.release()
            worker.send_signal(signal.SIGCONT)
            async with sealed.up():  # who is refused a commit ends
                await sealed.produce(said(NAME, 3), end(NAME, 3))
                await sealed.remembered(3, NAME)
            checked = await verify_receipt(eraser, receipt)
            assert checked.holds, checked.lines
            assert not any("Zanzibar" in text for text in await told(sealed.settings, NAME))
            left = await vectors(sealed)
            assert [_rounded(left[id_]) for id_ in first] == [_rounded(dense) for dense in first.values()]
            before = (await digest(sealed.settings, NAME)).state
    built = await sealed.eunoe("rebuild", "--into", "v2")
    assert built.code == 0, built.err
    rebuilt = sealed.settings.model_copy(update={"generation": "v2"})
    assert (await digest(rebuilt, NAME)).state == before
    again = await vectors(Pipeline(sealed.cwd, rebuilt, sealed.variables))
    assert sorted(map(_rounded, left.values())) == sorted(map(_rounded, again.values()))


async def _erased_meanwhile(
    pipeline: Pipeline, way: Way, words: tuple[bytes, ...], eraser: Eraser, worker: object
) -> bytes:
    """Say something more, erase it while the worker holds a write about it, and give the receipt."""
    way.hold(*words)
    await pipeline.produce(said(NAME, 0), end(NAME, 2))
    await way.held.wait()
    worker.send_signal(signal.SIGSTOP)  # type: ignore[attr-defined]
    erasure = await eraser.begin(request(NAME, "u0"))
    return (await eraser.carry_out(erasure)).to_json()


def _rounded(dense: bytes) -> list[float]:
    return [round(float(one), 4) for one in np.frombuffer(dense, "<f4")]
