"""`eunoe erase` as people run it: killed at random moments and finished, and repeated after a restore of old data."""

import asyncio
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from eunoe.deploy.clients.shared import open_redis, store_keys
from eunoe.deploy.generations.erase import finishing
from eunoe.deploy.generations.erase.files import rewrite_files
from eunoe.deploy.generations.erase.receipt import NotCovered
from eunoe.deploy.generations.erase.run import Eraser
from eunoe.schemas.errors import Unavailable
from eunoe.schemas.memory import DerivedReason
from eunoe.workers.stores.erasures.sqlite_ledger import SqliteErasures
from tests.broker.test_erase import digest, end, request, said, sessions, told
from tests.broker.test_followed_erasures import notices
from tests.broker.test_repair_beside_erasures import with_ledger
from tests.support import command
from tests.support.byte_search import needles, search_files
from tests.support.pipeline import Pipeline, sealed_pipeline

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(400)]

KILLS = 8
LONGEST_S = 4.0
"""An erasure of a short conversation takes less on an idle machine, with the start of the process."""


async def erase_and_kill(pipeline: Pipeline, words: list[str], after_s: float) -> int:
    """Run `eunoe erase`, kill it after so long; returns its exit code."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        process = await command.start(["erase", *words], pipeline.cwd, pipeline.variables, nowhere, nowhere)
    finally:
        os.close(nowhere)
    try:
        return await asyncio.wait_for(process.wait(), after_s)
    except TimeoutError:
        process.kill()
        return await process.wait()


@pytest.mark.parametrize("seed", [1, 2])
async def test_an_erasure_that_is_killed_at_random_moments_is_finished_by_a_replay(
    pipeline: Pipeline, seed: int
) -> None:
    chance, sealed = random.Random(seed), sealed_pipeline(pipeline)
    ledger = SqliteErasures(pipeline.cwd / "ledger.sqlite")
    async with sealed.up():
        await sealed.produce(*sessions("mine"), *sessions("other"))
        for name in ("mine", "other"):
            await sealed.remembered(2, name)
        untouched = (await digest(sealed.settings, "other")).sha256
        words = ["mine", "--utterance", "u0"]
        for _ in range(KILLS):
            await erase_and_kill(sealed, words, chance.uniform(0.2, LONGEST_S))
            words = ["replay"] if await ledger.erasures() else words
        replayed = await sealed.eunoe("erase", "replay", "--json")
        assert replayed.code == 0, replayed.err
        if not await ledger.done():  # killed each time before it began
            assert (await sealed.eunoe("erase", *words)).code == 0
        (done,) = await ledger.done()
        (pipeline.cwd / "receipt.json").write_text(done.receipt)
        checked = await sealed.eunoe("erase", "verify", "receipt.json")
        assert checked.code == 0, checked.out + checked.err
        assert set(await notices(sealed)) == {("mine", DerivedReason.ERASED)}
        assert not any("Zanzibar" in text for text in await told(sealed.settings, "mine"))
        assert (await digest(sealed.settings, "other")).sha256 == untouched
        before = (await digest(sealed.settings, "mine")).state
    built = await sealed.eunoe("rebuild", "--into", "v2")
    assert built.code == 0, built.err
    rebuilt = sealed.settings.model_copy(update={"generation": "v2"})
    assert (await digest(rebuilt, "mine")).state == before


@pytest.mark.embedded("puts back files of the embedded stack")
async def test_data_restored_from_before_an_erasure_is_refused_until_it_is_erased_again(
    standalone: Pipeline, tmp_path: Path
) -> None:
    data, yesterday = standalone.cwd / ".eunoe", tmp_path / "yesterday"
    async with standalone.up():
        await standalone.produce(*sessions("mine"))
        (standalone.cwd / "events.jsonl").unlink()
        await standalone.remembered(2, "mine")
    for folder in ("valkey", "qdrant"):
        shutil.copytree(data / folder, yesterday / folder)
    async with standalone.up():
        erased = await standalone.eunoe("erase", "mine", "--utterance", "u0")
        assert erased.code == 0, erased.err
    for folder in ("valkey", "qdrant"):
        shutil.rmtree(data / folder)
        shutil.move(yesterday / folder, data / folder)
    refused = await standalone.eunoe("up")
    (line,) = refused.err.strip().splitlines()
    assert refused.code == 2, line
    assert "`eunoe erase replay`" in line
    assert "`eunoe up --no-workers`" in line
    async with standalone.servers():
        replayed = await standalone.eunoe("erase", "replay")
        assert replayed.code == 0, replayed.err
    async with standalone.up():
        assert not any("Zanzibar" in text for text in await told(standalone.settings, "mine"))
        await standalone.produce(said("mine", 6), end("mine", 3))
        (standalone.cwd / "events.jsonl").unlink()
        await standalone.remembered(3, "mine")
        (tmp_path / "receipt.json").write_text(replayed.out)
        checked = await standalone.eunoe("erase", "verify", str(tmp_path / "receipt.json"))
        assert checked.code == 0, checked.out
    assert search_files([data], needles({"a word": "Zanzibar"}, {})) == {}


@pytest.mark.embedded("the state of one server")
async def test_an_erasure_that_redis_lost_again_has_no_receipt_and_is_repeated(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = with_ledger(pipeline)
    ledger = SqliteErasures(own.cwd / "ledger.sqlite")
    async with own.up():
        await own.produce(*sessions("mine"))
        await own.remembered(2, "mine")
    async with open_redis(own.settings) as redis:
        names = [name async for name in redis.scan_iter(match=store_keys(own.settings).generation_pattern())]
        before = {name: await redis.dump(name) for name in names}

        async def lose(*given: Any) -> tuple[NotCovered, ...]:
            """A failover to a replica that lacks the last writes."""
            for name, content in before.items():
                await redis.restore(name, 0, content, replace=True)
            return await rewrite_files(*given)

        eraser = Eraser(own.settings, ledger)
        erasure = await eraser.begin(request("mine", "u0"))
        monkeypatch.setattr(finishing, "rewrite_files", lose)
        with pytest.raises(Unavailable, match="has lost what the erasure wrote"):
            await eraser.carry_out(erasure)
        assert any("Zanzibar" in text for text in await told(own.settings, "mine"))
        assert (await ledger.done(), await eraser.unfinished()) == ([], [erasure])
        monkeypatch.setattr(finishing, "rewrite_files", rewrite_files)
        await eraser.carry_out(erasure)
    assert (len(await ledger.done()), await eraser.unfinished()) == (1, [])
    assert not any("Zanzibar" in text for text in await told(own.settings, "mine"))
