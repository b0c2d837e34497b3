"""Compares a memory before and after an erasure: as it was carried out, or derived in memory without it."""

from dataclasses import replace

from eunoe.deploy.clients.shared import open_store
from eunoe.deploy.generations.erase.receipt import Receipt
from eunoe.deploy.generations.erase.run import Eraser
from eunoe.deploy.inspect.differences import GenerationDiff, Remembered, compare
from eunoe.deploy.inspect.remembered import read_remembered
from eunoe.schemas.decisions import Ledger
from eunoe.schemas.erasure import ErasedPart, Erasure, ErasureRequest
from eunoe.workers.derive.pipeline import TABLES, Deriver
from eunoe.workers.runner.failure_limit import FailureLimit
from eunoe.workers.runner.recorded_outcomes import RecordedOutcomes

ALL = 1_000_000
"""Differences of one kind that are shown: every one."""


async def erase_and_compare(eraser: Eraser, request: ErasureRequest) -> tuple[Receipt, GenerationDiff]:
    """Carry a request out; gives the receipt, and what of the live memory it changed. Raises as `Eraser.begin`.

    What was remembered meanwhile is among the changes.
    """
    before = await _live(eraser, request.key)
    receipt = await eraser.carry_out(await eraser.begin(request))
    return receipt, compare(before, await _live(eraser, request.key), ALL)


async def foresee(eraser: Eraser, request: ErasureRequest) -> tuple[Erasure, GenerationDiff]:
    """The entry that a request would make, and what of the live memory it would change. Raises as `Eraser.plan`.

    The conversation is derived in memory. Prompts that change are asked of the language model, and the answers
    recorded, so that the erasure itself need not ask again.
    """
    planned = await eraser.plan(request)
    part = ErasedPart.of([*await eraser.ledger.erasures(request.key), planned])
    assert part is not None
    before = await _live(eraser, request.key)
    return planned, compare(before, await _derived(eraser, part), ALL)


async def _live(eraser: Eraser, key: str) -> Remembered:
    async with open_store(eraser.settings) as store:
        return await read_remembered(store, key)


async def _derived(eraser: Eraser, part: ErasedPart) -> Remembered:
    """The memory of a conversation without what is erased, derived in memory."""
    settings, at = eraser.settings, 0
    async with eraser.opened(settings, part) as (clients, repairer):
        records, _ = await repairer.log.read(part.key)

        def one_more() -> None:
            nonlocal at
            at += 1
            eraser.report(part.key, at, len(records))

        runner = replace(settings.runner, failures=FailureLimit(share=1.0))
        deriver = Deriver(clients.dependencies, runner, RecordedOutcomes(clients.answers))
        derived = await deriver.derive(part.key, records, settings.log_epoch, one_more, part)
        store = deriver.set_up().store
        await store.swap(part.key, TABLES, derived.standing, Ledger())
        return await read_remembered(store, part.key)
