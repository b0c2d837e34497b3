"""Runs: what is decided and committed together is what one record after the other would have become."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunoe.schemas.decisions import Clear, Commit, Decision, Drop, Outbox, OutMessage, Put, Scope, Timer, Work, Write
from eunoe.schemas.errors import Unavailable
from eunoe.schemas.events import Ask, ConversationEvent, Erase
from eunoe.schemas.records import DeadLetterReason
from eunoe.streams.dead_letters import read_dead_letter
from eunoe.streams.memory_log import MemoryLog
from eunoe.streams.record import Message, Record, RecordPlace, Revoked
from eunoe.streams.topics import TOPICS, Topic
from eunoe.workers.derive.in_memory import as_message
from eunoe.workers.intake.settings import IntakeSettings
from eunoe.workers.intake.stage import IntakeStage
from eunoe.workers.intake.state import RING, SEEN
from eunoe.workers.registry import STAGES
from eunoe.workers.runner.backoff import Backoff
from eunoe.workers.runner.batches import MAX_BATCH_BYTES, fold_writes, join_outboxes, split_batch
from eunoe.workers.runner.decider import RunnerSettings
from eunoe.workers.runner.inbound import LogPlace, read_record
from eunoe.workers.runner.metrics import StageMeter
from eunoe.workers.runner.outbox import Sender
from eunoe.workers.runner.parts import RunnerContext
from eunoe.workers.runner.runner import Runner
from eunoe.workers.runner.skips import Skips, skip_name
from eunoe.workers.stores.state.memory_store import MemoryStore
from tests.support.in_memory import START, Clock, Stores, ended, letter_reasons, utterance
from tests.support.runner_bench import Lease

INTAKE, SPEC, PLACE = Scope("intake", "default/c"), STAGES["intake"], LogPlace(0, 1)
SMALL = IntakeSettings(max_utterances=3, remembered_ids=4, blend_unasked=True)
QUICK = RunnerSettings(attempts=1, retry_limit_s=1e9, backoff=Backoff(first=0.001))

tables, ids = st.sampled_from("tu"), st.sampled_from("abc")
writes = st.one_of(
    st.builds(Put, table=tables, id=ids, text=st.text(max_size=2)),
    st.builds(Drop, table=tables, id=ids),
    st.builds(Clear, table=tables),
)


class Desk:
    """Intake with stores and a log of its own."""

    def __init__(self, stage: Any = None) -> None:
        self.stores, self.log, self.meter = Stores(), MemoryLog(1, Clock()), StageMeter()
        stage = stage or IntakeStage(self.stores.state, SMALL)
        sender = Sender(self.stores.state, self.stores.index, self.stores.log_positions, self.log, self.meter)
        self.runner = Runner(SPEC, stage, sender, self.stores.state, PLACE, RunnerContext(settings=QUICK))

    def take(self, events: Sequence[ConversationEvent | bytes]) -> list[Record]:
        return [self.log.append(_message(event)) for event in events]

    def left(self) -> tuple[object, ...]:
        """All that stands anywhere."""
        out = {topic: [(r.key, r.value, r.headers) for r in self.log.records(topic)] for topic in TOPICS}
        tables = {name: dict(table) for name, table in self.stores.state._tables.items() if table}
        return out, tables, self.stores.log_positions._timers

    def letters(self) -> list[DeadLetterReason]:
        return letter_reasons(self.log)


def _message(event: ConversationEvent | bytes) -> Message:
    return Message(Topic.CONVERSATIONS, b"default/c", event) if isinstance(event, bytes) else as_message(event)


@st.composite
def talks(draw: st.DrawFn) -> list[ConversationEvent | bytes]:
    """Utterances (also repeated ones, with and without asks), ends, erasures, and what is no event."""
    talk: list[ConversationEvent | bytes] = []
    for place in range(draw(st.integers(1, 14))):
        kind = draw(st.sampled_from(["say", "say", "say", "ask", "again", "end", "erase", "broken"]))
        session = draw(st.sampled_from([None, "a", "b"]))
        number = draw(st.integers(1, 4)) if kind == "again" else place + 1
        if kind in ("say", "again"):
            talk.append(utterance(number, session_id=session))
        elif kind == "ask":
            again = draw(st.booleans())  # an utterance id with another text: it is refused, and answered
            ask = Ask(request_id=f"r{number}", record=draw(st.booleans()))
            talk.append(utterance(1 if again else number, f"Question {number}?", ask=ask))
        elif kind == "end":
            talk.append(ended(session))
        elif kind == "erase":
            talk.append(Erase(conversation_id="c", request_id=f"e{place}", at=START))
        else:
            talk.append(b"no json")
    return talk


@given(talk=talks(), cuts=st.sets(st.integers(1, 13)))
@settings(max_examples=200, deadline=None)
def test_runs_leave_what_one_record_after_the_other_leaves(
    talk: list[ConversationEvent | bytes], cuts: set[int]
) -> None:
    async def run() -> None:
        alone, together = Desk(), Desk()
        for record in alone.take(talk):
            await alone.runner.handle(record, Lease())
        records = together.take(talk)
        ends = [*sorted(cut for cut in cuts if cut < len(records)), len(records)]
        for begin, end in zip([0, *ends], ends, strict=False):
            await together.runner.handle_batch(records[begin:end], Lease())
        assert together.left() == alone.left()
        assert together.meter.events == alone.meter.events == len(talk)
        assert together.meter.ignored == alone.meter.ignored

    asyncio.run(run())


async def test_a_run_reads_together_which_ids_it_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    desk, read = Desk(), list[list[str]]()

    async def fetch(*words: Any, real: Any = desk.stores.state.fetch) -> Any:
        read.extend([list(words[3])] if words[2] == RING else [])
        return await real(*words)

    monkeypatch.setattr(desk.stores.state, "fetch", fetch)
    assert SMALL.remembered_ids == 4
    for numbers in (range(1, 3), range(3, 6), range(6, 9)):
        await desk.runner.handle_batch(desk.take([utterance(number) for number in numbers]), Lease())
    assert [sorted(ids) for ids in read if ids] == [["0"], ["1", "2", "3"]]
    assert sorted(await desk.stores.state.scan("intake", "default/c", SEEN)) == ["u5", "u6", "u7", "u8"]


@given(decisions=st.lists(st.lists(writes, max_size=5), max_size=5))
def test_folded_writes_leave_the_tables_that_all_of_them_leave(decisions: list[list[Write]]) -> None:
    made = [Decision(writes=tuple(row)) for row in decisions]
    whole, folded = MemoryStore(), MemoryStore()
    for decision in made:
        whole._write(INTAKE, Commit(expect=0, applied=1, writes=decision.writes))
    once = fold_writes(made)
    folded._write(INTAKE, Commit(expect=0, applied=1, writes=once))
    assert {name: table for name, table in whole._tables.items() if table} == {
        name: table for name, table in folded._tables.items() if table
    }
    places = [(write.table, getattr(write, "id", None)) for write in once]
    assert len(places) == len(set(places))


def test_a_joined_outbox_owes_everything_in_order_and_the_last_timer() -> None:
    def owes(number: int, *texts: str, timer: Timer | None = None) -> Outbox:
        messages = tuple(OutMessage(topic="t", key="k", text=text) for text in texts)
        return Outbox(number=number, partition=2, messages=messages, timer=timer)

    timer = Timer(after_utterance_id="u", since=datetime(2026, 1, 1, tzinfo=UTC))
    joined = join_outboxes([owes(3, "a", timer=timer), owes(5, "b", "c"), owes(8)])
    assert (joined.number, joined.partition, joined.timer) == (8, 2, timer)
    assert [message.text for message in joined.messages] == ["a", "b", "c"]


def split(*events: ConversationEvent | bytes) -> list[int]:
    records = Desk().take(events)
    return [len(run) for run in split_batch(records, SPEC, lambda record: read_record(record, SPEC, PLACE))]


def test_an_ask_ends_its_run_and_what_is_no_event_stands_alone() -> None:
    ask = utterance(2, ask=Ask(request_id="r"))
    assert split(utterance(1), ask, utterance(3), utterance(4)) == [2, 2]
    assert split(utterance(1), b"no json", utterance(3)) == [1, 0, 1]


def test_a_run_carries_so_many_bytes() -> None:
    text = "x" * (MAX_BATCH_BYTES // 8)
    sizes = split(*(utterance(number, text) for number in range(1, 11)))
    assert sizes == [7, 3]


class Failing(IntakeStage):
    """Fails at one utterance, and at any run that it is in."""

    async def decide_batch(self, works: Sequence[Work[Any]]) -> list[Decision]:
        if any(getattr(work.event, "utterance_id", "") == "u2" for work in works):
            raise RuntimeError("ailing")
        return await super().decide_batch(works)


async def test_where_a_run_fails_each_record_is_decided_for_itself(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    desk = Desk(Failing(desk.stores.state, SMALL))
    records = desk.take([utterance(1), utterance(2), utterance(3)])
    await desk.runner.handle_batch(records, Lease())
    assert desk.letters() == [DeadLetterReason.FAILED]
    assert (await desk.stores.state.ledger(INTAKE)).applied == read_number(records[-1])
    assert "ailing" in caplog.text


@pytest.mark.parametrize("since_begin", [True, False])
async def test_a_record_within_a_run_is_passed_over_undecided(*, since_begin: bool) -> None:
    """Also where an operator says so only while the run waits for a server."""
    desk = Desk()
    records = desk.take([utterance(1), utterance(2), utterance(3)])
    told = {skip_name(RecordPlace(Topic.CONVERSATIONS, 0, records[1].offset), 0): "passed over: too odd"}
    desk.runner._skips = Skips(_reasons=told if since_begin else {})

    class Told(Lease):
        async def pause(self, seconds: float) -> None:
            desk.runner._skips = Skips(_reasons=told)

    async def ledger(scope: Scope, *, real: Any = desk.stores.state.ledger) -> Any:
        if not desk.runner._skips._reasons:
            raise Unavailable("gone", "Redis")
        return await real(scope)

    desk.stores.state.ledger = ledger
    await desk.runner.handle_batch(records, Told())
    (letter,) = desk.log.records(Topic.DEAD_LETTERS)
    assert read_dead_letter(letter)[0].error == "passed over: too odd"
    assert set(await desk.stores.state.scan("intake", "default/c", SEEN)) == {"u1", "u3"}
    assert (await desk.stores.state.ledger(INTAKE)).applied == read_number(records[-1])


async def test_a_run_waits_for_a_server_that_is_away_and_is_committed_once() -> None:
    desk = Desk()
    away = 2

    async def commit(scope: Scope, commit: Commit, *, real: Any = desk.stores.state.commit) -> str | None:
        nonlocal away
        away -= 1
        if away >= 0:
            raise Unavailable("gone", "Redis")
        token: str | None = await real(scope, commit)
        return token

    desk.stores.state.commit = commit
    await desk.runner.handle_batch(desk.take([utterance(1), utterance(2), ended()]), Lease())
    assert desk.meter.commits == 1
    assert len(desk.log.records(Topic.SESSIONS)) == 1


class Taken(Lease):
    """A lease that ends at the first look at it."""

    @property
    def revoked(self) -> bool:
        return True

    @revoked.setter
    def revoked(self, revoked: bool) -> None: ...


async def test_a_rebalance_does_not_wait_for_what_of_a_run_is_not_begun() -> None:
    desk = Desk()
    asks = [utterance(number, ask=Ask(request_id=f"r{number}")) for number in (1, 3)]
    records = desk.take([asks[0], utterance(2), asks[1]])
    with pytest.raises(Revoked):
        await desk.runner.handle_batch(records, Taken())
    assert (await desk.stores.state.ledger(INTAKE)).applied == read_number(records[0])
    await desk.runner.handle_batch(records, Lease())
    assert (await desk.stores.state.ledger(INTAKE)).applied == read_number(records[-1])
    assert desk.meter.ignored == 1


def read_number(record: Record) -> int:
    arrival = read_record(record, SPEC, PLACE)
    return arrival.number
