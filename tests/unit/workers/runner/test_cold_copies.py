"""Copies of records of conversations that are in the cold store: a log that is played back brings none of them back."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from eunoe.schemas.decisions import Ledger, Scope
from eunoe.schemas.errors import NewerVersion, SnapshotLost, Unavailable
from eunoe.schemas.events import Utterance
from eunoe.schemas.records import DeadLetterReason
from eunoe.streams.codec import encode
from eunoe.streams.memory_log import MemoryLog
from eunoe.streams.position import copy_headers, position
from eunoe.streams.record import Message, Record
from eunoe.streams.topics import Topic
from eunoe.workers.intake.stage import IntakeStage
from eunoe.workers.registry import STAGES
from eunoe.workers.runner.decider import RunnerSettings
from eunoe.workers.runner.inbound import LogPlace
from eunoe.workers.runner.metrics import StageMeter
from eunoe.workers.runner.outbox import Sender
from eunoe.workers.runner.parts import RunnerContext
from eunoe.workers.runner.runner import Runner
from eunoe.workers.stores.state.memory_store import MemoryStore
from tests.support.in_memory import Clock, Stores, letter_reasons, utterance
from tests.support.runner_bench import QUICK, Lease
from tests.unit.workers.runner.test_runs import SMALL

EPOCH = 2
KEY = b"default/c"


class Cold(MemoryStore):
    """One cold conversation, which a look at a ledger brings back."""

    def __init__(self, applied: int | None, *, fault: Unavailable | None = None) -> None:
        super().__init__()
        self.cold = applied
        self.fault = fault
        self.thawed = 0

    async def ledger(self, scope: Scope) -> Ledger:
        self._check()
        self.thawed += self.cold is not None
        found, self.cold = await super().ledger(scope), None
        return found

    async def cold_applied(self, scope: Scope) -> int | None:
        self._check()
        return self.cold

    def _check(self) -> None:
        if self.fault is not None:
            raise self.fault


class Started:
    """Intake in a log that begins with copies of an earlier one's records."""

    def __init__(self, store: Cold, settings: RunnerSettings = QUICK) -> None:
        self.store, self.meter, self.log = store, StageMeter(), MemoryLog(1, Clock())
        stores = Stores(state=store)
        sender = Sender(store, stores.index, stores.log_positions, self.log, self.meter)
        stage = IntakeStage(store, SMALL)
        self.runner = Runner(
            STAGES["intake"], stage, sender, store, LogPlace(EPOCH, 1), RunnerContext(settings=settings)
        )
        self._earlier = MemoryLog(1, Clock())

    def record(self, event: Utterance | bytes) -> Record:
        value = event if isinstance(event, bytes) else encode(event)
        return self.log.append(Message(Topic.CONVERSATIONS, KEY, value))

    def copy(self, event: Utterance | bytes) -> Record:
        value = event if isinstance(event, bytes) else encode(event)
        original = self._earlier.append(Message(Topic.CONVERSATIONS, KEY, value))
        return self.log.append(
            Message(Topic.CONVERSATIONS, KEY, value, headers=copy_headers(original, EPOCH - 1), partition=0)
        )

    async def handle(self, *records: Record) -> None:
        await self.runner.handle_batch(records, Lease())

    async def handle_apart(self, records: Sequence[Record]) -> None:
        for record in records:
            await self.runner.handle(record, Lease())

    @property
    def letters(self) -> list[DeadLetterReason]:
        return letter_reasons(self.log)


@pytest.mark.parametrize("apart", [False, True], ids=["batch", "one by one"])
async def test_copies_of_what_was_applied_leave_a_conversation_cold(apart: bool) -> None:
    started = Started(Cold(position(EPOCH - 1, 2)))
    records = [started.copy(utterance(number)) for number in (1, 2, 3)]
    await (started.handle_apart(records) if apart else started.handle(*records))
    assert (started.store.thawed, started.meter.ignored, started.meter.events) == (0, 3, 3)


@pytest.mark.parametrize("apart", [False, True], ids=["batch", "one by one"])
async def test_a_copy_of_what_was_not_applied_brings_it_back(apart: bool) -> None:
    started = Started(Cold(position(EPOCH - 1, 1)))
    records = [started.copy(utterance(number)) for number in (1, 2, 3)]
    await (started.handle_apart(records) if apart else started.handle(*records))
    assert started.store.thawed == 1


async def test_a_new_record_brings_it_back_without_a_look_at_the_snapshot_before() -> None:
    started = Started(Cold(position(EPOCH - 1, 0)))
    await started.handle(started.record(utterance(1)))
    assert started.store.thawed == 1
    assert started.meter.ignored == 0


async def test_copies_that_no_one_can_read_are_dead_letters_again() -> None:
    started = Started(Cold(position(EPOCH - 1, 1)))
    await started.handle(started.copy(b"{"), started.copy(utterance(2)))
    assert started.letters == [DeadLetterReason.NOT_JSON]
    assert started.store.thawed == 0


@pytest.mark.parametrize("apart", [False, True], ids=["batch", "one by one"])
async def test_a_conversation_whose_snapshot_is_lost_is_held(apart: bool) -> None:
    started = Started(Cold(position(EPOCH - 1, 1), fault=SnapshotLost("the snapshot is lost", "the cold store")))
    records = [started.copy(utterance(number)) for number in (1, 2)]
    await (started.handle_apart(records) if apart else started.handle(*records))
    assert started.letters == [DeadLetterReason.HELD] * 2


@pytest.mark.parametrize("apart", [False, True], ids=["batch", "one by one"])
async def test_a_conversation_that_a_newer_version_froze_waits_for_the_update(apart: bool) -> None:
    newer = NewerVersion("the snapshot is of a newer version")
    started = Started(Cold(position(EPOCH - 1, 0), fault=newer), replace(QUICK, retry_limit_s=0.0))
    records = [started.record(utterance(number)) for number in (1, 2)]
    await (started.handle_apart(records) if apart else started.handle(*records))
    assert started.letters == [DeadLetterReason.NEWER_VERSION] * 2, "each after the time that a server is waited for"
    started.store.fault = None
    await started.handle(started.record(utterance(3)))
    assert started.store.thawed == 1
