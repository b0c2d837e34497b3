"""Erasures on real servers: interrupted at any call, they are finished; nothing brings back what was erased."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from eunoe.deploy.clients.shared import open_store
from eunoe.deploy.generations.erase.loop import work_off
from eunoe.deploy.generations.erase.run import Eraser
from eunoe.deploy.generations.erase.verify import verify_receipt
from eunoe.deploy.generations.handled_log import Unhandled
from eunoe.deploy.settings import Settings
from eunoe.schemas.erasure import ErasureRequest
from eunoe.schemas.errors import Refused
from eunoe.schemas.events import SessionEnded, Utterance
from eunoe.workers.registry import MEMORY_STAGES, STAGES
from eunoe.workers.stores.erasures.sqlite_ledger import SqliteErasures
from eunoe.workers.stores.redis.connection import RedisConnection
from eunoe.workers.update.reads import all_memories
from tests.support.in_memory import START
from tests.support.pipeline import Pipeline
from tests.support.whole_state import StateDigest, read_digest

pytestmark = [pytest.mark.broker, pytest.mark.timeout(500)]

TEXTS = (
    "I moved to Zanzibar last week and I work as a nurse at the hospital now.",
    "My sister Clara is getting married in June and I am invited.",
    "I sold my boat and I bought a small house by the harbour in Bergen.",
    "My dentist in Bergen hurts me, so I look for another one in spring.",
)
SPECS = {name: STAGES[name] for name in MEMORY_STAGES}


def said(name: str, number: int) -> str:
    event = Utterance(
        conversation_id=name, utterance_id=f"u{number}", speaker="Ann", text=TEXTS[number % len(TEXTS)], at=START
    )
    return event.model_dump_json() + "\n"


def end(name: str, number: int) -> str:
    return SessionEnded(conversation_id=name, at=START + timedelta(minutes=number)).model_dump_json() + "\n"


def sessions(name: str) -> list[str]:
    return [said(name, 0), said(name, 1), end(name, 1), said(name, 2), said(name, 3), end(name, 2)]


def request(name: str, *ids: str) -> ErasureRequest:
    return ErasureRequest(
        request_id=f"erase-{name}-{len(ids)}", key=f"default/{name}", at=datetime.now(UTC), utterance_ids=ids
    )


async def digest(settings: Settings, name: str) -> StateDigest:
    async with open_store(settings) as store:
        return await read_digest(store, f"default/{name}", SPECS)


async def told(settings: Settings, name: str) -> list[str]:
    async with open_store(settings) as store:
        return [memory.text for memory in await all_memories(store, f"default/{name}")]


class Killed(BaseException):
    """The process ends here."""


@contextmanager
def killed_at(call: int) -> Iterator[None]:
    """Each command or script counts; the process ends before number ``call``."""
    calls = 0

    def counted(method: Any) -> Any:
        async def run(self: RedisConnection, *args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls >= call:
                raise Killed
            return await method(self, *args, **kwargs)

        return run

    with pytest.MonkeyPatch.context() as patch:
        for name in ("run", "command"):
            patch.setattr(RedisConnection, name, counted(getattr(RedisConnection, name)))
        yield


def eraser_of(pipeline: Pipeline, path: Path) -> Eraser:
    """An eraser with a ledger of its own."""
    settings = pipeline.settings.model_copy(update={"erasures": SecretStr(str(path)), "generation": "v1"})
    return Eraser(settings, SqliteErasures(path))


async def two_told(pipeline: Pipeline) -> None:
    """Two sessions of each of two conversations, remembered."""
    await pipeline.produce(*sessions("mine"), *sessions("other"))
    await pipeline.remembered(2, "mine")
    await pipeline.remembered(2, "other")


@pytest.mark.slow
async def test_an_erasure_that_is_killed_again_and_again_is_finished(pipeline: Pipeline, tmp_path: Path):
    eraser = eraser_of(pipeline, tmp_path / "ledger.sqlite")
    settings, ledger = eraser.settings, eraser.ledger
    async with pipeline.up():
        await two_told(pipeline)
        assert any("Zanzibar" in text for text in await told(settings, "mine"))
        untouched = (await digest(settings, "other")).sha256
        with pytest.raises(Refused, match="no such utterance"):
            await eraser.plan(request("mine", "u0", "ghost"))
        assert await ledger.erasures() == []
        erasure = await eraser.begin(request("mine", "u0"))
        for call in (3, 20, 45, 80, 110):
            with killed_at(call), pytest.raises((Killed, BaseExceptionGroup)):
                await eraser.carry_out(erasure)
        assert await eraser.unfinished() == [erasure]
        receipt = await eraser.carry_out(erasure)
        assert await eraser.unfinished() == []
        assert all(one.after == 0 for one in receipt.places if one.place.startswith("redis:"))
        assert any(one.before for one in receipt.places if one.place == "redis:update/memories")
        assert not any("Zanzibar" in text for text in await told(settings, "mine"))
        assert (await verify_receipt(eraser, receipt.to_json())).holds
        assert (await digest(settings, "other")).sha256 == untouched
        with pytest.raises(Refused, match="signature"):
            await verify_receipt(eraser, receipt.to_json().replace(b'"utterances":1', b'"utterances":2'))

        whole = await eraser.carry_out(await eraser.begin(request("other")))
        assert whole.remains[0].memories == 0
        assert await told(settings, "other") == []
        # a producer's retry is not taken, and both go on with their numbers
        await pipeline.produce(said("mine", 0), said("mine", 6), end("mine", 3), said("other", 6), end("other", 3))
        mine, other = await pipeline.remembered(3, "mine"), await pipeline.remembered(3, "other")
        assert [line.utterance_id for one in mine.segments if one.session == 3 for line in one.lines] == ["u6"]
        assert [(one.session, [line.utterance_id for line in one.lines]) for one in other.segments] == [(3, ["u6"])]
        before = [(await digest(settings, name)).state for name in ("mine", "other")]

    built = await pipeline.eunoe("rebuild", "--into", "v2", EUNOE_ERASURES=str(tmp_path / "ledger.sqlite"))
    assert built.code == 0, built.err
    rebuilt = settings.model_copy(update={"generation": "v2"})
    assert [(await digest(rebuilt, name)).state for name in ("mine", "other")] == before
    refused = await pipeline.eunoe("repair", "mine")
    assert (refused.code, "EUNOE_ERASURES" in refused.err) == (2, True)


async def test_what_was_accepted_before_a_request_goes_though_intake_handles_it_later(
    pipeline: Pipeline, tmp_path: Path
):
    eraser = eraser_of(pipeline, tmp_path / "ledger.sqlite")
    settings, ledger = eraser.settings, eraser.ledger
    async with pipeline.up():
        await two_told(pipeline)
    await pipeline.produce(said("mine", 4), said("other", 4), said("other", 5))
    await ledger.request(request("mine"))
    await ledger.request(request("other", "u4"))
    outcome = await work_off(replace(eraser, intake_s=0.5))
    assert (outcome.receipts, outcome.refused, type(outcome.waiting)) == ([], [], Unhandled)
    async with pipeline.up():
        outcome = await work_off(replace(eraser, intake_s=30))
        assert [receipt.utterances for receipt in outcome.receipts] == [5, 1]
        assert (outcome.refused, outcome.waiting) == ([], None)
        assert await told(settings, "mine") == []
