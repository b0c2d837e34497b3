"""State that a newer version wrote, met by an older process in a rolling upgrade: it waits, and loses nothing."""

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any, Literal

import pytest
from pydantic import ValidationError

from eunoe.schemas.base import Value
from eunoe.schemas.decisions import Decision, Outbox, Outcome, Work
from eunoe.schemas.documents import read_document
from eunoe.schemas.errors import NewerVersion
from eunoe.schemas.events import Ask
from eunoe.schemas.records import DeadLetterReason
from eunoe.schemas.replies import Reply
from eunoe.schemas.versions import ContractError, waiting_for_newer
from eunoe.streams.dead_letters import read_dead_letter
from eunoe.streams.record import Revoked
from eunoe.streams.retries import retry_message
from eunoe.streams.topics import Topic
from tests.support.in_memory import letter_reasons, make_pipeline, utterance
from tests.support.runner_bench import QUICK, Bench, Lease, Script, closed


class Kept(Value):
    """A document as this version knows it."""

    count: int


class NewerKept(Kept):
    """The same as the next version writes it."""

    colour: str


class Colour(StrEnum):
    """An enumeration as this version knows it."""

    RED = "red"


class Painted(Value):
    """A document with a word of an enumeration, alone and in another type's way."""

    colour: Colour
    mixed: Literal["none", "all"] = "none"


class Reads(Script):
    """A stage that reads a document before it decides; ``texts`` are those that it finds, one after the other."""

    def __init__(self, *texts: str) -> None:
        super().__init__(Decision())
        self.texts = list(texts)

    async def decide(self, work: Work[Any]) -> Outcome:
        read_document(Kept, self.texts.pop(0) if len(self.texts) > 1 else self.texts[0], work.key)
        return await super().decide(work)


NEWER = NewerKept(count=1, colour="red").model_dump_json()


async def test_a_document_with_a_field_that_is_not_known_waits_for_the_deploy():
    stage = Reads(NEWER, NEWER, NEWER, NEWER, Kept(count=1).model_dump_json())
    bench = Bench(stage)
    await bench.handle(closed(1))
    assert (await bench.applied(), bench.letters()) == (1, [])
    assert len(stage.asked) == 1


@pytest.mark.parametrize("text", [b'{"colour": "blue"}', b'{"colour": "red", "mixed": "some"}'])
def test_a_word_that_an_enumeration_lacks_is_of_a_newer_version(text: bytes):
    with pytest.raises(NewerVersion), waiting_for_newer("a document"):
        Painted.from_json(text)


@pytest.mark.parametrize("text", [b'{"colour": 1}', b'{"colour": null}', b'{"mixed": "all"}', b'{"colour": ["blue"]}'])
def test_what_is_no_word_is_wrong_in_any_version(text: bytes):
    with pytest.raises(ValidationError), waiting_for_newer("a document"):
        Painted.from_json(text)


async def test_it_gives_way_to_a_rebalance():
    bench = Bench(Reads(NEWER))
    with pytest.raises(Revoked):
        await bench.runner.handle(bench.record(closed(1)), Lease(pauses=4))
    assert (await bench.applied(), bench.letters(), bench.out()) == (0, [], [])


async def test_where_no_deploy_comes_the_event_is_a_dead_letter_and_its_session_is_not_skipped():
    bench = Bench(Reads(NEWER), settings=replace(QUICK, retry_limit_s=0.0))
    await bench.handle(closed(1))
    assert (await bench.applied(), bench.letters(), bench.out()) == (0, [DeadLetterReason.NEWER_VERSION], [])


async def test_a_document_that_is_wrong_otherwise_holds_its_conversation():
    bench = Bench(Reads('{"count": "many"}'))
    await bench.handle(closed(1))
    assert (await bench.applied(), bench.letters()) == (0, [DeadLetterReason.HELD])


async def test_what_a_newer_version_left_to_send_waits_too(monkeypatch: pytest.MonkeyPatch):
    bench = Bench(Script(Decision()))
    ledger, calls = bench.stores.state.ledger, []

    async def newer_outbox(scope: Any) -> Any:
        calls.append(scope)
        if len(calls) < 3:
            Outbox.from_json(b'{"colour": "red"}')
        return await ledger(scope)

    monkeypatch.setattr(bench.stores.state, "ledger", newer_outbox)
    await bench.handle(closed(1))
    assert (await bench.applied(), bench.letters()) == (1, [])


@pytest.mark.parametrize("fault", [ValueError("no"), ContractError(DeadLetterReason.INVALID, "no")])
async def test_other_faults_outside_a_decision_are_not_taken_for_it(fault: Exception, monkeypatch: pytest.MonkeyPatch):
    bench = Bench(Script(Decision()))

    async def broken(scope: Any) -> Any:
        raise fault

    monkeypatch.setattr(bench.stores.state, "ledger", broken)
    with pytest.raises(type(fault)):
        await bench.handle(closed(1))


def test_the_fault_that_pydantic_raises_is_the_one_meant():
    with pytest.raises(ValidationError, match="extra_forbidden"):
        Kept.from_json(NEWER)


class Waiting:
    """A stage that meets what a newer version wrote, until it is updated."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.updated = inner, False

    async def decide(self, work: Work[Any]) -> Outcome:
        if not self.updated:
            read_document(Kept, NEWER, work.key)
        outcome: Outcome = await self.inner.decide(work)
        return outcome

    async def decide_batch(self, works: Sequence[Work[Any]]) -> Sequence[Decision]:
        if not self.updated:
            read_document(Kept, NEWER, works[0].key)
        decisions: Sequence[Decision] = await self.inner.decide_batch(works)
        return decisions


async def test_an_ask_that_waited_in_vain_is_answered_when_it_is_sent_back():
    """No error was sent in its place, as for one that failed, and no stage waits for it."""
    stages: dict[str, Waiting] = {}

    def wrap(name: str, stage: object) -> object:
        stages[name] = Waiting(stage)
        stages[name].updated = name != "respond"
        return stages[name]

    pipeline = make_pipeline(runner_settings=replace(QUICK, retry_limit_s=0.0), wrap=wrap)
    await pipeline.produce(utterance(1, "Where do I live?", ask=Ask(request_id="r", record=False)))
    (record,) = pipeline.log.records(Topic.DEAD_LETTERS)
    letter, _ = read_dead_letter(record)
    assert (letter.reason, pipeline.events(Topic.REPLIES)) == (DeadLetterReason.NEWER_VERSION, [])
    stages["respond"].updated = True
    for _again in range(2):
        await pipeline.log.publish([retry_message(letter, replace(record, topic=letter.topic))])
        await pipeline.run_until_idle()
    (reply,) = pipeline.events(Topic.REPLIES)
    assert isinstance(reply, Reply)
    assert (reply.request_id, reply.error) == ("r", None)


async def test_events_that_wait_together_are_no_failure_of_the_stage(caplog: pytest.LogCaptureFixture):
    def wrap(_name: str, stage: object) -> object:
        return Waiting(stage)

    made = make_pipeline(runner_settings=replace(QUICK, retry_limit_s=0.0), wrap=wrap)
    pipeline = replace(made, in_batches=True)
    await pipeline.produce(*(utterance(number, "I live in Oslo.") for number in range(1, 4)))
    assert set(letter_reasons(pipeline.log)) == {DeadLetterReason.NEWER_VERSION}
    assert "stage failed" not in caplog.text
