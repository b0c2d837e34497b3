"""The runner under crashes, zombies and redelivery at every step: the same memory as an undisturbed run."""

import os
from dataclasses import replace

import pytest

from eunoe.schemas.records import DeadLetterReason
from eunoe.streams.dead_letters import read_dead_letter
from eunoe.streams.record import Message
from eunoe.streams.retries import retry_message
from eunoe.streams.topics import Topic
from tests.support.schedule import Faults, Plant
from tests.support.schedule_runs import (
    Ailment,
    dead_letters,
    differences,
    memory,
    proposals,
    requests,
    run,
    twin,
    undisturbed_run,
)

QUICK_SEEDS = 5
"""Seeds that `make test` runs; the rest are marked `slow`."""
QUICK_ROLLBACK_SEEDS = 3
"""The same of the rollbacks, whose runs are longer."""
SEEDS = int(os.environ.get("PROTOCOL_SEEDS", "100"))
ROLLBACK_SEEDS = SEEDS
HELD = {DeadLetterReason.HELD}
"""What may become of a conversation until its stage reads again."""


def _seeds(count: int, quick: int) -> list[object]:
    """``count`` seeds for a test, from 0; those from ``quick`` on are slow."""
    return [pytest.param(seed, marks=[pytest.mark.slow] if seed >= quick else []) for seed in range(count)]


@pytest.mark.parametrize("seed", _seeds(SEEDS, QUICK_SEEDS))
async def test_a_disturbed_run_ends_in_the_same_memory(seed: int):
    undisturbed = await undisturbed_run(seed)
    for faults in (0.01, 0.04):
        disturbed = await run(seed, Faults(faults))
        assert disturbed.crashes > 0 or faults < 0.02
        assert differences(memory(twin(disturbed)), undisturbed.memory) == []
        assert dead_letters(disturbed.log) == 0
        assert requests(disturbed.log) == undisturbed.requests
        assert proposals(disturbed.log) == undisturbed.proposals


@pytest.mark.parametrize("seed", _seeds(ROLLBACK_SEEDS, QUICK_ROLLBACK_SEEDS))
async def test_a_store_that_goes_back_under_living_workers_loses_nothing(seed: int):
    undisturbed = await undisturbed_run(seed)
    for faults in (0.0, 0.01):
        disturbed = await run(seed, Faults(faults, rollbacks=0.004))
        differing = differences(memory(twin(disturbed)), undisturbed.memory)
        # what was answered is not answered again only to write down that it was
        assert [name for name in differing if "respond" not in name] == []
        assert {read_dead_letter(letter)[0].reason for letter in disturbed.log.records(Topic.DEAD_LETTERS)} <= HELD
        assert requests(disturbed.log, once=False) == undisturbed.requests
        assert proposals(disturbed.log) == undisturbed.proposals


def set_aside(plant: Plant) -> dict[tuple[str, str, int], Message]:
    """What sends each dead letter back, in the order of conversations and sessions."""
    found = {}
    for record in plant.log.records(Topic.DEAD_LETTERS):
        letter, _ = read_dead_letter(record)
        place = (letter.stage, letter.key or "", letter.number or 0)
        found[place] = retry_message(letter, replace(record, topic=letter.topic))
    return dict(sorted(found.items()))


async def run_with_late_sessions(seed: int, stage: str, faults: float) -> Plant:
    ailment = Ailment(stage)
    plant = await run(seed, Faults(faults), ailment)
    ailment.mended = True
    for message in set_aside(plant).values():
        plant.log.append(message)
    await plant.run(Faults(faults))
    return plant


@pytest.mark.parametrize("stage", ["segment", "compress", "summarize", "update", "link", "tree"])
@pytest.mark.parametrize("seed", _seeds(max(1, SEEDS // 25), max(1, QUICK_SEEDS // 25)))
async def test_late_sessions_are_held_to_the_same(seed: int, stage: str):
    undisturbed = await run_with_late_sessions(seed, stage, 0.0)
    disturbed = await run_with_late_sessions(seed, stage, 0.03)
    assert list(set_aside(disturbed)) == list(set_aside(undisturbed))
    assert {letter[0] for letter in set_aside(undisturbed)} <= {stage}
    assert differences(memory(twin(disturbed)), memory(twin(undisturbed))) == []
    skipped = [ledger.skipped for scope, ledger in twin(disturbed).state._ledgers.items() if scope.stage != "blend"]
    assert not any(skipped)
