"""Erasures that clients of `eunoe up` ask for: carried out without a command, also when the eraser is killed."""

import asyncio
import json
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from eunoe.deploy.clients.live_settings import live_settings
from eunoe.deploy.gateway.keys import GATEWAY_KEY
from eunoe.deploy.generations.erase.retention import outdated, plan_retention, run_retention
from eunoe.deploy.generations.erase.run import Eraser
from eunoe.deploy.local.notice import NOTICE
from eunoe.schemas.erasure import ErasureRequest
from eunoe.schemas.memory import DerivedReason
from eunoe.streams.http_client import HttpMemoryClient
from eunoe.workers.stores.erasures.sqlite_ledger import SqliteErasures
from tests.broker.test_erase import digest, end, said, sessions, told
from tests.broker.test_followed_erasures import notices
from tests.support import command
from tests.support.in_memory import START
from tests.support.pipeline import Pipeline, sealed_pipeline

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(400)]

C = "/v1/conversations/mine"


def client_of(home: Pipeline) -> httpx.AsyncClient:
    data = home.cwd / ".eunoe"
    url = json.loads((data / NOTICE).read_text())["gateway"]
    key = (data / GATEWAY_KEY).read_text().strip()
    return httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=90)


async def ended(client: httpx.AsyncClient, where: str) -> dict:
    """The erasure at an address, once it is done or refused."""
    found: dict = {}

    async def over() -> bool:
        found.update((await client.get(where)).json())
        return found["state"] in ("done", "refused")

    await command.until(over)
    return found


@pytest.mark.embedded("asks the gateway of `eunoe up`")
async def test_what_a_client_asks_to_erase_is_erased(standalone: Pipeline, tmp_path: Path) -> None:
    async with standalone.up():
        await standalone.produce(*sessions("mine"))
        await standalone.remembered(2, "mine")
        async with client_of(standalone) as client:
            plan = await client.post(f"{C}/erasure-plans", json={"utterance_ids": ["u0"]})
            assert plan.status_code == 200, plan.text
            assert (plan.json()["utterances"], plan.json()["places"]["redis:update/memories"] > 0) == (1, True)
            ghost = await client.post(f"{C}/erasure-plans", json={"utterance_ids": ["ghost"]})
            assert (ghost.status_code, "ghost" in ghost.json()["detail"]) == (409, True)
            keys = standalone.cwd / ".eunoe" / "keys" / "store.sqlite"
            shutil.copy(keys, tmp_path / "store.sqlite")
            asked = await client.post(f"{C}/erasures", json={"utterance_ids": ["u0"], "request_id": "e1"})
            done = await ended(client, asked.headers["location"])
            assert (done["state"], done["utterances"], done["utterance_ids"]) == ("done", 1, [])
            unknown = await client.post(f"{C}/erasures", json={"utterance_ids": ["ghost"]})
            refused = await ended(client, unknown.headers["location"])
            assert (refused["state"], "ghost" in refused["reason"]) == ("refused", True)
            again = await client.post(f"{C}/erasures", json={"utterance_ids": ["u0"]})
            assert (again.status_code, again.json()["detail"]) == (409, "erased already: u0")
            key = client.headers["Authorization"].removeprefix("Bearer ")
            async with HttpMemoryClient(str(client.base_url), key=key, conversation_id="mine") as memory:
                await memory.erase(["u1"])
            (*_, last) = (await client.get(f"{C}/erasures")).json()["erasures"]
            done = await ended(client, f"{C}/erasures/{last['request_id']}")
            assert (done["state"], done["utterances"]) == ("done", 1)
        assert not any("Zanzibar" in text for text in await told(standalone.settings, "mine"))
        (tmp_path / "receipt.json").write_text(json.dumps(done["receipt"]))
        checked = await standalone.eunoe("erase", "verify", str(tmp_path / "receipt.json"))
        assert (checked.code, "data keys: all destroyed" in checked.out) == (0, True), checked.out + checked.err
        shutil.copy(tmp_path / "store.sqlite", keys)
        restored = await standalone.eunoe("erase", "verify", str(tmp_path / "receipt.json"))
        assert (restored.code, "NOT DESTROYED" in restored.out) == (1, True), restored.out + restored.err


async def test_of_two_erasers_one_works_and_a_killed_one_is_followed_by_the_next(pipeline: Pipeline) -> None:
    sealed = sealed_pipeline(pipeline)
    ledger = SqliteErasures(pipeline.cwd / "ledger.sqlite")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    async with sealed.up():
        await sealed.produce(*sessions("mine"), *sessions("other"))
        for name in ("mine", "other"):
            await sealed.remembered(2, name)
        for name in ("mine", "other"):
            await ledger.request(
                ErasureRequest(request_id="e1", key=f"default/{name}", at=START, utterance_ids=("u0",))
            )
        words = ["erase", "serve", "--poll", "0.2"]
        first = await command.start(words, sealed.cwd, sealed.variables, nowhere, nowhere)
        second = None

        async def begun() -> bool:
            return bool(await ledger.erasures())

        async def done() -> bool:
            return len(await ledger.done()) == 2

        try:
            await command.until(begun)
            second = await command.start(words, sealed.cwd, sealed.variables, nowhere, nowhere)
            first.kill()
            await command.until(done)
        finally:
            os.close(nowhere)
            for one in (first, second):
                if one is not None:
                    one.kill()
                    await asyncio.wait_for(one.wait(), 30)
        for name in ("mine", "other"):
            assert not any("Zanzibar" in text for text in await told(sealed.settings, name))
        once = await sealed.eunoe("erase", "serve", "--once")
        assert once.code == 0, once.err


async def test_unsaying_shows_the_difference_that_its_dry_run_foretold(pipeline: Pipeline) -> None:
    sealed = sealed_pipeline(pipeline)
    async with sealed.up():
        await sealed.produce(*sessions("mine"))
        await sealed.remembered(2, "mine")
        words = ["unsay", "mine", "--utterance", "u0", "--json"]
        foretold = json.loads((await sealed.eunoe(*words, "--dry-run")).out)
        assert (foretold["receipt"], foretold["utterances"]) == (None, 1)
        assert any("Zanzibar" in text for text in foretold["difference"]["memories"]["went"])
        assert any("Zanzibar" in text for text in await told(sealed.settings, "mine"))
        unsaid = await sealed.eunoe(*words)
        assert unsaid.code == 0, unsaid.err
        found = json.loads(unsaid.out)
        assert found["difference"] == foretold["difference"]
        assert "Zanzibar" not in json.dumps(found["receipt"])
        again = await sealed.eunoe("unsay", "mine", "--utterance", "u0")
        assert (again.code, "already erased: u0" in again.err) == (2, True)
        shown = await sealed.eunoe("unsay", "mine", "--utterance", "u3", "--dry-run")
        assert "default/mine: 1 utterance would be erased" in shown.out
        assert await notices(sealed) == [("mine", DerivedReason.ERASED)], "what is only shown is told to nobody"


async def test_retention_erases_old_sessions_once_and_a_rebuild_leaves_them_out(pipeline: Pipeline) -> None:
    sealed = sealed_pipeline(pipeline)
    ledger = SqliteErasures(sealed.cwd / "ledger.sqlite")
    async with sealed.up():
        await sealed.produce(*sessions("mine"))
        await sealed.remembered(2, "mine")
        assert (await sealed.eunoe("retention", "set", "30")).code == 0
        shown = json.loads((await sealed.eunoe("retention", "show", "--json")).out)
        assert (shown["policies"], len(shown["changes"])) == ({"default": 30}, 1)
        none = await sealed.eunoe("retention", "run", "--json")
        assert (none.code, none.out.strip()) == (0, "[]")
        eraser = Eraser(await live_settings(sealed.settings), ledger)
        later = datetime.now(UTC) + timedelta(days=31)
        assert len(await plan_retention(eraser, await outdated(eraser, later))) == 1
        assert await ledger.erasures() == []
        (receipt,) = (await run_retention(eraser, later)).receipts
        assert (receipt.level, receipt.utterances) == ("retention", 4)
        assert (await run_retention(eraser, later + timedelta(days=1))).receipts == []
        assert await told(sealed.settings, "mine") == []
        assert await notices(sealed) == [("mine", DerivedReason.ERASED)]
        await sealed.produce(said("mine", 6), end("mine", 3))
        await sealed.remembered(3, "mine")
        assert (await sealed.eunoe("retention", "remove")).code == 0
        assert (await run_retention(eraser, later + timedelta(days=90))).receipts == []
        before = (await digest(sealed.settings, "mine")).state
    built = await sealed.eunoe("rebuild", "--into", "v2")
    assert built.code == 0, built.err
    rebuilt = sealed.settings.model_copy(update={"generation": "v2"})
    assert (await digest(rebuilt, "mine")).state == before
