"""A short fault run: a few conversations, three faults; `make test-faults` runs all of them with two hundred."""

import signal

import pytest

from tests.faults.faults import FAULTS, REFERENCE
from tests.faults.load import Size, make_load
from tests.faults.run import Outcome, Trial, run_fault
from tests.faults.table import Row
from tests.faults.workers import Nursery

pytestmark = [
    pytest.mark.broker,
    pytest.mark.slow,
    pytest.mark.embedded("starts servers of its own, and harms them"),
    pytest.mark.timeout(900),
]

TRIAL = Trial(seed=7, size=Size(conversations=16))


async def test_what_is_remembered_under_faults_is_what_is_remembered_without() -> None:
    async with Nursery() as other, Nursery() as nursery:
        reference = await run_fault(REFERENCE, TRIAL, other, TRIAL.seed)
        outcomes = {"none": reference}
        for name in ("kill9", "redis-restart", "freeze-sealed", "erase"):
            outcomes[name] = await run_fault(FAULTS[name], TRIAL, nursery, TRIAL.seed)
    rows = [_row(name, outcome, reference) for name, outcome in outcomes.items()]
    assert [(row.fault, row.told) for row in rows if not row.good] == []
    assert len(reference.findings.digests) == TRIAL.size.conversations
    assert len(outcomes["erase"].erased) == 1
    assert outcomes["kill9"].ends[-signal.SIGKILL] >= 9, "each stage was killed"


def _row(name: str, outcome: Outcome, reference: Outcome) -> Row:
    row = Row(name)
    row.add(outcome, reference, TRIAL.load, TRIAL.seed)
    return row


def test_a_load_is_drawn_from_its_seed_and_asks_for_all_that_it_expects() -> None:
    one, two, other = make_load(1, TRIAL.size, 6), make_load(1, TRIAL.size, 6), make_load(2, TRIAL.size, 6)
    assert one == two
    assert one != other
    assert one.records == 16 * 2 * 4 + len(one.bad)
    for wave in one.waves:
        keys = [message.key for message in wave if message not in {bad.message for bad in one.bad}]
        assert len(keys) == len(set(keys)), "a wave holds at most one event of a conversation"
