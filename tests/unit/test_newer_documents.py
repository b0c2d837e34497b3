"""State that a newer version wrote, met by an older process in a rolling upgrade: it waits, and loses nothing."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from eunoe.schemas.base import Value
from eunoe.schemas.decisions import Decision, Outbox, Outcome, Work
from eunoe.schemas.records import DeadLetterReason
from eunoe.schemas.versions import ContractError
from eunoe.streams.record import Revoked
from tests.support.runner_bench import QUICK, Bench, Lease, Script, closed


class Kept(Value):
    """A document as this version knows it."""

    count: int


class NewerKept(Kept):
    """The same as the next version writes it."""

    colour: str


class Reads(Script):
    """A stage that reads a document before it decides; ``texts`` are those that it finds, one after the other."""

    def __init__(self, *texts: bytes) -> None:
        super().__init__(Decision())
        self.texts = list(texts)

    async def decide(self, work: Work[Any]) -> Outcome:
        Kept.from_json(self.texts.pop(0) if len(self.texts) > 1 else self.texts[0])
        return await super().decide(work)


NEWER = NewerKept(count=1, colour="red").to_json()


async def test_a_document_with_a_field_that_is_not_known_waits_for_the_deploy():
    stage = Reads(NEWER, NEWER, NEWER, NEWER, Kept(count=1).to_json())
    bench = Bench(stage)
    await bench.handle(closed(1))
    assert (await bench.applied(), bench.letters()) == (1, [])
    assert len(stage.asked) == 1


async def test_it_gives_way_to_a_rebalance():
    bench = Bench(Reads(NEWER))
    with pytest.raises(Revoked):
        await bench.runner.handle(bench.record(closed(1)), Lease(pauses=4))
    assert (await bench.applied(), bench.letters(), bench.out()) == (0, [], [])


async def test_where_no_deploy_comes_the_event_is_a_dead_letter_and_its_session_is_not_skipped():
    bench = Bench(Reads(NEWER), settings=replace(QUICK, retry_limit_s=0.0))
    await bench.handle(closed(1))
    assert (await bench.applied(), bench.letters(), bench.out()) == (0, [DeadLetterReason.NEWER_VERSION], [])


async def test_a_document_that_is_wrong_otherwise_fails_as_before():
    bench = Bench(Reads(b'{"count": "many"}'))
    await bench.handle(closed(1))
    assert (await bench.applied(), bench.letters()) == (1, [DeadLetterReason.FAILED])


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
