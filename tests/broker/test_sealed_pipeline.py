"""Sealing switched on in a pipeline that has stored plain text: the same memory, and no word of it in clear."""

import json
from base64 import b64encode

import pytest
from pydantic import SecretStr

from eunoe.deploy.clients.data_keys import open_data_keys
from eunoe.deploy.clients.shared import open_redis, store_keys
from eunoe.deploy.settings.sections import KeySettings
from eunoe.schemas.keys import Destruction
from eunoe.streams.sealed.records import SEALED_HEADER, SEALED_TOPICS
from eunoe.streams.topics import Topic
from tests.broker.test_rebuild import LINES, NAME, digest, small_talk
from tests.broker.test_sealed_erasure import empty_door
from tests.support.pipeline import Pipeline

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(500)]

KEK = b64encode(bytes(range(32))).decode()
WORDS = (b"baker", b"Leo sings", b"left town")


def with_keys(pipeline: Pipeline) -> Pipeline:
    store = str(pipeline.cwd / "keys.sqlite")
    settings = pipeline.base.model_copy(update={"keys": KeySettings(store=SecretStr(store), kek=SecretStr(KEK))})
    return Pipeline(pipeline.cwd, settings, {**pipeline.variables, "EUNOE_KEYS__STORE": store, "EUNOE_KEYS__KEK": KEK})


async def state_of(pipeline: Pipeline, conversation: str) -> bytes:
    """All bytes that Redis holds of a conversation."""
    found = b""
    async with open_redis(pipeline.settings) as redis:
        async for name in redis.scan_iter(match=store_keys(pipeline.settings).generation_pattern()):
            if f"{{default/{conversation}}}".encode() in name and await redis.type(name) == b"hash":
                found += b"".join(part for row in (await redis.hgetall(name)).items() for part in row)
    return found


async def test_memory_is_the_same_and_no_word_of_it_is_in_clear(pipeline: Pipeline) -> None:
    async with pipeline.up():
        await pipeline.produce(*small_talk(0))
        await pipeline.remembered(2, "c0")
    found = await state_of(pipeline, "c0")
    assert all(word in found for word in WORDS)  # the search sees
    plain = {topic: len(await pipeline.records(topic)) for topic in SEALED_TOPICS - {Topic.LOG}}
    sealed = with_keys(pipeline)
    async with sealed.up():
        await sealed.produce(*LINES, *small_talk(0, 1), *small_talk(1))
        for name, sessions in ((NAME, 5), ("c0", 4), ("c1", 2)):
            await sealed.remembered(sessions, name)
        before = await digest(sealed)
        for into, more in (("v2", ()), ("v3", ("--from-stage", "update"))):
            result = await sealed.eunoe("rebuild", "--into", into, "--json", *more, timeout_s=200)
            assert result.code == 0, result.err
            assert await digest(sealed, EUNOE_GENERATION=into) == before
        # what was plain is sealed, too; from then on the sealed log alone gives the same memory
        done = await sealed.eunoe("topics", "seal", "--yes", "--json")
        assert (done.code, json.loads(done.out)["sealed"]) == (0, len(small_talk(0))), done.err
        again = await sealed.eunoe("topics", "seal", "--yes")
        assert (again.code, "0 records sealed" in again.out) == (0, True)
    await empty_door(sealed)
    dry = await sealed.eunoe("rebuild", "--into", "v4", "--dry-run", "--json")
    assert (dry.code, dry.json["conversations"]) == (0, len(before) - 1), dry.err
    result = await sealed.eunoe("rebuild", "--into", "v4", "--json", timeout_s=200)
    assert (result.code, await digest(sealed, EUNOE_GENERATION="v4")) == (0, before)
    result = await sealed.eunoe("repair", "c0", "--json", timeout_s=200, EUNOE_GENERATION="v4")
    assert (result.code, await digest(sealed, EUNOE_GENERATION="v4")) == (0, before), result.err
    refused = await pipeline.eunoe("topics", "seal", "--yes")
    assert (refused.code, "EUNOE_KEYS__STORE" in refused.err) == (2, True)
    found = await state_of(sealed, "c1")
    assert len(found) > 5_000
    assert not any(word in found for word in WORDS)
    for topic, count in plain.items():
        records = await sealed.records(topic)
        assert sum(SEALED_HEADER in record.headers for record in records) == len(records) - count
    assert await sealed.records(Topic.DEAD_LETTERS) == []


async def test_a_destroyed_key_is_passed_over_and_a_lost_store_is_waited_for(pipeline: Pipeline) -> None:
    sealed = with_keys(pipeline)
    async with sealed.up():
        await sealed.produce(*small_talk(1), *small_talk(2))
        for name in ("c1", "c2"):
            await sealed.remembered(2, name)
        before = await digest(sealed)
    result = await pipeline.eunoe("state", "--all", "--digest")
    assert (result.code, "EUNOE_KEYS__STORE" in result.err) == (69, True)
    assert len(result.err.splitlines()) == 1
    others = Pipeline(sealed.cwd, sealed.base, {**sealed.variables, "EUNOE_KEYS__KEK": b64encode(bytes(32)).decode()})
    other = await others.eunoe("state", "--all", "--digest")
    assert (other.code, "not made with this operator's key" in other.err) == (2, True)
    assert len(other.err.splitlines()) == 1
    async with open_data_keys(sealed.settings) as keys:
        assert keys is not None
        await keys.destroy((await keys.current("default/c1")).id, Destruction.ERASED)
    read = await sealed.eunoe("state", "--all", "--digest", "--log-times")
    after = dict(reversed(line.split("  ", 1)) for line in read.out.splitlines())
    assert after["default/c2"] == before["default/c2"]
    assert after["default/c1"] != before["default/c1"]
    assert (read.code, "default/c2" in read.err) == (1, False)  # the index still has its points, and says so
