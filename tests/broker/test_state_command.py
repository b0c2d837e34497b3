"""`eunoe state` as people call it: counts, hashes, and an index that disagrees."""

import pytest

from eunoe.deploy.clients.bootstrap import open_qdrant
from eunoe.deploy.clients.shared import store_keys
from eunoe.deploy.demo.bundled import CONVERSATION
from eunoe.schemas.decisions import Collection
from eunoe.workers.stores.vectors.qdrant import QdrantIndex
from tests.support.pipeline import Pipeline

pytestmark = [pytest.mark.broker, pytest.mark.timeout(700)]

NAME = "mina-and-jonas"
KEY = f"default/{NAME}"


async def _lose_a_point(pipeline: Pipeline) -> str:
    """Take one memory's point out of the index; returns its id."""
    settings = pipeline.settings
    async with open_qdrant(settings) as client:
        index = QdrantIndex(client, store_keys(settings))
        lost = min(await index.seqs(Collection.MEMORIES, KEY))
        await index.remove(Collection.MEMORIES, KEY, [lost])
    return lost


async def test_state_tells_counts_and_hashes_and_finds_a_point_that_is_missing(pipeline: Pipeline) -> None:
    async with pipeline.up():
        await pipeline.produce(*CONVERSATION.read_text().splitlines(keepends=True))
        view = await pipeline.remembered(5, NAME)
        one = await pipeline.eunoe("state", NAME, "--json", timeout_s=200)
        assert one.code == 0, one.err
        assert one.json["agrees"] is True
        (told,) = one.json["conversations"]
        assert (told["key"], told["counts"]["compress/segments"]) == (KEY, len(view.segments))
        assert (told["disagreements"], told["unfinished"]) == ([], [])

        hashes = await pipeline.eunoe("state", "--all", "--digest", timeout_s=200)
        own, whole = hashes.out.splitlines()
        assert own == f"{told['sha256']}  {KEY}"
        assert whole == f"{one.json['sha256']}  all 1 conversation"
        lost = await _lose_a_point(pipeline)
        bad = await pipeline.eunoe("state", NAME, timeout_s=200)
        assert bad.code == 1
        assert f"missing: {KEY}: memories {lost}" in bad.err
        assert "eunoe repair" in bad.err
