"""Repairs while something of the same conversation is erased: what one of them derives never undoes the other."""

from collections.abc import Sequence

import pytest
from pydantic import SecretStr

from eunoe.deploy.clients.bootstrap import open_clients
from eunoe.deploy.clients.erasures import read_erased
from eunoe.deploy.generations.handled_log import HandledLog
from eunoe.deploy.generations.repair import Repairer
from eunoe.streams.record import Record
from eunoe.workers.stores.erasures.sqlite_ledger import SqliteErasures
from tests.broker.test_erase import sessions, told
from tests.support.pipeline import Pipeline, sealed_pipeline

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(400)]


def with_ledger(pipeline: Pipeline) -> Pipeline:
    """The same pipeline with a ledger of erasures, and without a key store."""
    ledger = str(pipeline.cwd / "ledger.sqlite")
    settings = pipeline.base.model_copy(update={"erasures": SecretStr(ledger)})
    return Pipeline(pipeline.cwd, settings, {**pipeline.variables, "EUNOE_ERASURES": ledger})


@pytest.mark.parametrize("kept", ["plain", "sealed"])
async def test_a_repair_that_an_erasure_has_overtaken_does_not_bring_back_what_was_erased(
    pipeline: Pipeline, kept: str
) -> None:
    given = sealed_pipeline(pipeline) if kept == "sealed" else with_ledger(pipeline)
    done: list[str] = []
    async with given.up():
        await given.produce(*sessions("mine"))
        await given.remembered(2, "mine")

        async def erase(_: Sequence[Record]) -> None:
            if not done:
                erased = await given.eunoe("erase", "mine", "--utterance", "u0")
                assert erased.code == 0, erased.err
                done.append(erased.out)

        async with open_clients(given.settings) as clients:
            repairer = Repairer(
                given.settings,
                clients,
                clients.transplants,
                HandledLog(given.settings, clients, given.settings.partitions),
                lambda: read_erased(given.settings),
                before_swap=erase,
            )
            repaired = await repairer.repair("default/mine")
        texts = await told(given.settings, "mine")
        assert len(texts) == repaired.memories > 0
        assert not any("Zanzibar" in text for text in texts)
        (given.cwd / "receipt.json").write_text(done[0])
        checked = await given.eunoe("erase", "verify", "receipt.json")
        assert checked.code == 0, checked.out + checked.err


async def test_no_repair_runs_in_the_midst_of_an_erasure(pipeline: Pipeline) -> None:
    sealed = sealed_pipeline(pipeline)
    async with sealed.up():
        await sealed.produce(*sessions("mine"))
        await sealed.remembered(2, "mine")
        assert await SqliteErasures(sealed.cwd / "ledger.sqlite").lease("an eraser", 8)  # and dies then
        repaired = await sealed.eunoe("repair", "mine")
        assert (repaired.code, "another process erases now" in repaired.err) == (0, True), repaired.err
