"""Erasures while generations are made and promoted: refused in one line, or done in all of them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from eunoe.deploy.clients.shared import open_redis
from eunoe.deploy.generations.erase.data_keys import KeyChange
from eunoe.deploy.generations.erase.loop import alone
from eunoe.deploy.generations.erase.run import Eraser
from eunoe.deploy.generations.rebuild import reading
from eunoe.deploy.generations.rebuild import run as rebuilds
from eunoe.deploy.generations.rebuild.plan import RebuildPlan
from eunoe.deploy.generations.rebuild.progress import ProgressLine
from eunoe.streams.log_reader import read_both
from eunoe.streams.record import Record
from eunoe.streams.topics import Topic
from eunoe.workers.stores.erasures.sqlite_ledger import SqliteErasures
from eunoe.workers.stores.records.generations import Generation, GenerationState, RedisGenerations
from tests.broker.test_erase import digest, request, sessions, told
from tests.support import command
from tests.support.pipeline import Pipeline, sealed_pipeline

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(400)]

MADE = Generation(name="v2", state=GenerationState.BUILDING, made_at=datetime(2026, 1, 1, tzinfo=UTC), source="v1")


async def test_while_a_generation_is_made_no_erasure_begins(pipeline: Pipeline) -> None:
    sealed = sealed_pipeline(pipeline)
    ledger = SqliteErasures(sealed.cwd / "ledger.sqlite")
    async with sealed.up(), open_redis(sealed.settings) as redis:
        await sealed.produce(*sessions("mine"))
        await sealed.remembered(2, "mine")
        book = RedisGenerations(redis, sealed.settings.prefix)
        for state in (GenerationState.BUILDING, GenerationState.MOVING, GenerationState.PARTIAL):
            await book.write(MADE.model_copy(update={"state": state}))
            refused = await sealed.eunoe("erase", "mine", "--utterance", "u0")
            assert (refused.code, refused.err.count("\n")) == (2, 1), refused.err
            assert "generation v2" in refused.err
        await book.write(MADE.model_copy(update={"state": GenerationState.BUILT}))
        refused = await sealed.eunoe("erase", "mine", "--utterance", "u0")
        assert (refused.code, refused.err.count("\n")) == (2, 1), refused.err
        assert all(words in refused.err for words in ("generation v2: topics missing", "`eunoe drop v2`"))
        assert await ledger.erasures() == []
        await ledger.request(request("mine", "u0"))
        waiting = await sealed.eunoe("erase", "serve", "--once")
        assert (waiting.code, await ledger.erasures(), await ledger.refusals()) == (2, [], [])
        assert any("Zanzibar" in text for text in await told(sealed.settings, "mine"))
        await book.forget("v2")
        done = await sealed.eunoe("erase", "serve", "--once")
        assert done.code == 0, done.err
        assert not any("Zanzibar" in text for text in await told(sealed.settings, "mine"))


async def test_an_erasure_beside_a_rebuild_and_a_promotion_reaches_all_generations(pipeline: Pipeline) -> None:
    sealed = sealed_pipeline(pipeline)
    async with sealed.up():
        await sealed.produce(*sessions("mine"), *sessions("other"))
        for name in ("mine", "other"):
            await sealed.remembered(2, name)
        untouched = (await digest(sealed.settings, "other")).sha256
        rebuilding = asyncio.create_task(sealed.eunoe("rebuild", "--into", "v2"))
        await erased(sealed, "u0")
        built = await rebuilding
        assert built.code == 0, built.err
        async with sealed.up(EUNOE_GENERATION="v2"):
            promoting = asyncio.create_task(sealed.eunoe("promote", "v2"))
            await erased(sealed, "u2")
            promoted = await promoting
            assert promoted.code == 0, promoted.err
        for generation in ("v1", "v2"):
            own = sealed.settings.model_copy(update={"generation": generation})
            texts = await told(own, "mine")
            assert texts
            assert not any(word in text for text in texts for word in ("Zanzibar", "boat"))
            assert (await digest(own, "other")).sha256 == untouched


async def test_a_rebuild_that_comes_into_an_erasure_keeps_what_is_left_of_the_conversation(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sealed, has_read, erased_now = sealed_pipeline(pipeline), asyncio.Event(), asyncio.Event()
    made, rebuilding = rebuilds._derive, list[asyncio.Task[rebuilds.Rebuilt]]()

    async def when_erased(*given: Any) -> ProgressLine:
        has_read.set()
        await erased_now.wait()
        return await made(*given)

    async def begin_rebuild(change: KeyChange, records: Sequence[Record]) -> None:
        if not rebuilding:
            plan = RebuildPlan("v2", workers=1)
            rebuilding.append(asyncio.create_task(rebuilds.rebuild(sealed.settings, plan, lambda _: None)))
            await command.until(waits_or_has_read, 60)
        await sealing_anew(change, records)

    async def waits_or_has_read() -> bool:
        return has_read.is_set() or "another process erases now" in caplog.text

    sealing_anew = KeyChange.seal_anew
    for name, value in sealed.variables.items():  # its processes have the environment of this one
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(rebuilds, "_derive", when_erased)
    monkeypatch.setattr(reading, "read_both", without_door)
    monkeypatch.setattr(KeyChange, "seal_anew", begin_rebuild)
    ledger = SqliteErasures(sealed.cwd / "ledger.sqlite")
    async with sealed.up():
        await sealed.produce(*sessions("mine"))
        await sealed.remembered(2, "mine")
        eraser = Eraser(sealed.settings, ledger)
        async with alone(ledger):
            await eraser.carry_out(await eraser.begin(request("mine", "u0")))
        erased_now.set()
        assert (await rebuilding[0]).made.conversations == 1
        left = await told(sealed.settings, "mine")
        assert left
        assert await told(sealed.settings.model_copy(update={"generation": "v2"}), "mine") == left


async def test_no_partitions_change_in_the_midst_of_an_erasure(pipeline: Pipeline) -> None:
    sealed = sealed_pipeline(pipeline)
    async with sealed.up():
        assert await SqliteErasures(sealed.cwd / "ledger.sqlite").lease("an eraser", 8)  # and dies then
        changed = await sealed.eunoe("topics", "repartition", "6", "--yes")
        assert (changed.code, "another process erases now" in changed.err) == (0, True), changed.err


async def test_where_the_first_generation_was_dropped_erasures_go_on(pipeline: Pipeline) -> None:
    sealed = sealed_pipeline(pipeline)
    async with sealed.up():
        await sealed.produce(*sessions("mine"))
        await sealed.remembered(2, "mine")
    built = await sealed.eunoe("rebuild", "--into", "v2")
    assert built.code == 0, built.err
    async with sealed.up(EUNOE_GENERATION="v2"):
        promoted = await sealed.eunoe("promote", "v2")
        assert promoted.code == 0, promoted.err
    dropped = await sealed.eunoe("drop", "v1", "--yes")
    assert dropped.code == 0, dropped.err
    left = await sealed.eunoe("generations", "--json")
    assert [one["name"] for one in left.json] == ["v2"]
    refused = await sealed.eunoe("promote", "v1")
    assert (refused.code, "no generation v1" in refused.err) == (2, True)
    done = await sealed.eunoe("erase", "mine", "--utterance", "u0")
    assert done.code == 0, done.err
    assert [one["generation"] for one in done.json["remains"]] == ["v2"]


async def test_no_generation_is_dropped_in_the_midst_of_an_erasure(pipeline: Pipeline) -> None:
    sealed = sealed_pipeline(pipeline)
    ledger = SqliteErasures(sealed.cwd / "ledger.sqlite")
    async with sealed.servers():
        assert (await sealed.eunoe("rebuild", "--into", "v2")).code == 0
    assert await ledger.lease("an eraser", 8)  # and dies then
    dropped = await sealed.eunoe("drop", "v2", "--yes")
    assert (dropped.code, "another process erases now" in dropped.err) == (0, True), dropped.err


async def without_door(*given: Any) -> AsyncIterator[Record]:
    """The log when all has left the door."""
    async for record in read_both(*given):
        if record.topic == Topic.LOG:
            yield record


async def erased(pipeline: Pipeline, utterance_id: str) -> None:
    """Erase, again and again while that is refused because a generation is being made."""
    last, begun = command.Finished(0, "", ""), False

    async def done() -> bool:
        nonlocal last, begun
        begun = begun or "it has begun now" in last.err
        words = ("erase", "replay") if begun else ("erase", "mine", "--utterance", utterance_id)
        last = await pipeline.eunoe(*words)
        assert last.code in (0, 2), last.err
        return last.code == 0

    await command.until(done, 120, lambda: last.err)
