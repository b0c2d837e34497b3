"""The difference that `eunoe unsay` shows, and the lease under which one eraser works."""

import asyncio

import pytest

from eunoe.deploy.cli.unsay import difference_document
from eunoe.deploy.generations.erase.loop import alone
from eunoe.deploy.inspect.differences import Example, GenerationDiff, Tally
from eunoe.schemas.errors import Refused, Unavailable
from tests.support.command import until
from tests.support.memory.erasures import MemoryErasures


def test_a_difference_names_what_went_came_and_changed() -> None:
    examples = (
        Example("a/c", "Ann lives in Oslo", None),
        Example("a/c", None, "Ann lives in Rome"),
        Example("a/c", "Ann has a boat [superseded]", "Ann has a boat [holds]"),
    )
    found = GenerationDiff(1, 0, (2, 2), {"memories": Tally(2, 2, 1, 1, 1, examples), "segments": Tally(3, 3)})
    assert difference_document(found) == {
        "memories": {
            "went": ["Ann lives in Oslo"],
            "came": ["Ann lives in Rome"],
            "changed": [{"before": "Ann has a boat [superseded]", "after": "Ann has a boat [holds]"}],
        }
    }


async def test_the_right_to_erase_is_kept_while_the_work_runs_and_given_back() -> None:
    ledger = MemoryErasures()
    async with alone(ledger, seconds=0.2):
        owner, ends = ledger._lease

        async def renewed_past_its_end() -> bool:
            return ledger._lease[1] > ends + 0.2

        await until(renewed_past_its_end)
        assert ledger._lease[0] == owner
        assert not await ledger.lease("another", 1)
    assert await ledger.lease("another", 1)


async def test_a_fault_of_the_work_passes_as_it_is() -> None:
    ledger = MemoryErasures()
    with pytest.raises(Refused, match="no such utterance"):
        async with alone(ledger):
            raise Refused("no such utterance")
    assert await ledger.lease("another", 1)


async def test_an_eraser_that_lost_the_right_stops() -> None:
    ledger = MemoryErasures()

    async def work() -> None:
        async with alone(ledger, seconds=0.2):
            ledger._lease = ("another", float("inf"))
            await asyncio.Event().wait()

    with pytest.raises(Unavailable, match="another process erases now"):
        await asyncio.wait_for(work(), 20)
