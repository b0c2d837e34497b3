"""The runner under crashes, zombies and redelivery at every step: the same memory as an undisturbed run."""

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from eunoe.schemas.decisions import Decision, Outcome, Work
from eunoe.schemas.events import Ask, ConversationEvent, SessionClosed
from eunoe.schemas.memory import InsightsProposed
from eunoe.schemas.records import DeadLetterReason
from eunoe.schemas.replies import Reply
from eunoe.streams.codec import decode
from eunoe.streams.dead_letters import read_dead_letter
from eunoe.streams.record import Message
from eunoe.streams.retries import retry_message
from eunoe.streams.topics import Topic
from eunoe.workers.derive.in_memory import as_message
from eunoe.workers.stage import Stage
from tests.support.blend import ByPrompt
from tests.support.in_memory import START, ended, utterance
from tests.support.schedule import EVERY_TURN, PATIENT, Plant

QUICK_SEEDS = 20
"""Seeds that `make test` runs; the rest are marked `slow`."""
QUICK_ROLLBACK_SEEDS = 3
"""The same of the rollbacks, whose runs are longer."""
SEEDS = int(os.environ.get("PROTOCOL_SEEDS", "100"))
ROLLBACK_SEEDS = SEEDS
HELD = {DeadLetterReason.HELD}
"""What may become of a conversation until its stage reads again."""
TALK = ["the dog ran off again", "I moved to Lyon in May", "my knee still hurts", "we baked bread", "the exam is over"]


def conversation(name: str, choose: random.Random, sessions: int = 4) -> list[ConversationEvent]:
    events: list[ConversationEvent] = []
    number = 0
    for _ in range(sessions):
        for _ in range(choose.randint(0, 4)):
            number += 1
            ask = Ask(request_id=f"r{number}", record=choose.random() < 0.7) if choose.random() < 0.4 else None
            events.append(utterance(number, choose.choice(TALK), conversation=name, ask=ask))
        events.append(ended(conversation=name, at=START + timedelta(minutes=len(events))))
    return events


def whole_log(seed: int) -> list[ConversationEvent]:
    choose = random.Random(seed)
    queues = [conversation(name, choose) for name in "abc"]
    log: list[ConversationEvent] = []
    while any(queues):
        log.append(choose.choice([queue for queue in queues if queue]).pop(0))
    return log


async def run(seed: int, faults: float, ailment: "Ailment | None" = None, *, rollbacks: float = 0.0) -> Plant:
    settings = EVERY_TURN if seed % 4 > 1 else PATIENT
    wrap = ailment.wrap if ailment else lambda name, stage: stage
    plant = Plant(seed * 7 + round(faults * 1000), settings, ByPrompt() if seed % 2 else None, wrap)
    for event in whole_log(seed):
        plant.log.append(as_message(event))
    await plant.run(faults=faults, until=1500, rollbacks=rollbacks)
    return plant


def memory(plant: Plant) -> dict[str, object]:
    """State, points and distinct messages; replies without what they happened to know when they were given."""
    state = {
        repr(scope): (ledger.applied, sorted(ledger.skipped)) for scope, ledger in plant.stores.state._ledgers.items()
    }
    tables = {repr(name): dict(table) for name, table in plant.stores.state._tables.items() if table}
    for name in list(tables):
        if "cited" in name:
            tables[name] = dict.fromkeys(tables[name], "")
    points = {
        id_: (point.seq, point.text)
        for collection in plant.stores.index._points.values()
        for id_, point in collection.items()
    }
    return {"state": state, "tables": tables, "points": points}


def differences(one: dict[str, object], other: dict[str, object]) -> list[str]:
    """What differs, by name: a whole state as pytest would lay it out takes minutes."""
    flat, against = dict(_flat(one)), dict(_flat(other))
    return sorted(name for name in flat.keys() | against.keys() if flat.get(name) != against.get(name))


def _flat(state: dict[str, object], before: str = "") -> Iterator[tuple[str, object]]:
    for name, part in state.items():
        if isinstance(part, dict):
            yield from _flat(part, f"{before}{name} ")
        else:
            yield f"{before}{name}", part


def _seeds(count: int, quick: int) -> list[object]:
    """``count`` seeds for a test, from 0; those from ``quick`` on are slow."""
    return [pytest.param(seed, marks=[pytest.mark.slow] if seed >= quick else []) for seed in range(count)]


@dataclass(frozen=True)
class Undisturbed:
    """What an undisturbed run ends in."""

    memory: dict[str, object]
    requests: set[str]
    proposals: dict[tuple[str, int], str]


_UNDISTURBED: dict[int, Undisturbed] = {}


async def undisturbed_run(seed: int) -> Undisturbed:
    """The end of a seed's undisturbed run, which several tests compare with."""
    if seed not in _UNDISTURBED:
        plant = await run(seed, 0.0)
        assert dead_letters(plant) == 0
        assert list(proposals(plant)) == asked_turns(plant)
        _UNDISTURBED[seed] = Undisturbed(memory(plant), requests(plant), proposals(plant))
    return _UNDISTURBED[seed]


@pytest.mark.parametrize("seed", _seeds(SEEDS, QUICK_SEEDS))
async def test_a_disturbed_run_ends_in_the_same_memory(seed: int):
    undisturbed = await undisturbed_run(seed)
    for faults in (0.01, 0.04):
        disturbed = await run(seed, faults)
        assert disturbed.crashes > 0 or faults < 0.02
        assert differences(memory(disturbed), undisturbed.memory) == []
        assert dead_letters(disturbed) == 0
        assert requests(disturbed) == undisturbed.requests
        assert proposals(disturbed) == undisturbed.proposals


@pytest.mark.parametrize("seed", _seeds(ROLLBACK_SEEDS, QUICK_ROLLBACK_SEEDS))
async def test_a_store_that_goes_back_under_living_workers_loses_nothing(seed: int):
    undisturbed = await undisturbed_run(seed)
    for faults in (0.0, 0.01):
        disturbed = await run(seed, faults, rollbacks=0.004)
        differing = differences(memory(disturbed), undisturbed.memory)
        # what was answered is not answered again only to write down that it was
        assert [name for name in differing if "respond" not in name] == []
        assert {read_dead_letter(letter)[0].reason for letter in disturbed.log.records(Topic.DEAD_LETTERS)} <= HELD
        assert requests(disturbed, once=False) == undisturbed.requests
        assert proposals(disturbed) == undisturbed.proposals


@dataclass
class Ailment:
    """A stage that fails at every third session, until it is mended."""

    stage: str
    mended: bool = False

    def wrap(self, name: str, stage: Stage) -> Stage:
        return _Ailing(self, stage) if name == self.stage else stage


@dataclass
class _Ailing:
    ailment: Ailment
    inner: Stage

    async def decide(self, work: Work) -> Outcome:
        outcome = await self.inner.decide(work)
        ill = not self.ailment.mended and random.Random(f"{work.key} {work.number}").random() < 0.34
        if ill and isinstance(outcome, Decision):
            raise RuntimeError("ailing")
        return outcome


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
    plant = await run(seed, faults, ailment)
    ailment.mended = True
    for message in set_aside(plant).values():
        plant.log.append(message)
    await plant.run(faults=faults, until=1500)
    return plant


@pytest.mark.parametrize("stage", ["segment", "compress", "summarize", "update", "link", "tree"])
@pytest.mark.parametrize("seed", _seeds(max(1, SEEDS // 25), max(1, QUICK_SEEDS // 25)))
async def test_late_sessions_are_held_to_the_same(seed: int, stage: str):
    undisturbed = await run_with_late_sessions(seed, stage, 0.0)
    disturbed = await run_with_late_sessions(seed, stage, 0.03)
    assert list(set_aside(disturbed)) == list(set_aside(undisturbed))
    assert {letter[0] for letter in set_aside(undisturbed)} <= {stage}
    assert differences(memory(disturbed), memory(undisturbed)) == []
    skipped = [ledger.skipped for scope, ledger in disturbed.stores.state._ledgers.items() if scope.stage != "blend"]
    assert not any(skipped)


def dead_letters(plant: Plant) -> int:
    return len(plant.log.records(Topic.DEAD_LETTERS))


def requests(plant: Plant, *, once: bool = True) -> set[str]:
    """The requests that were answered; each has one reply id, though it may be delivered twice.

    Without ``once`` it may be answered in another way, as where the store lost that it was answered.
    """
    replies = [decode(record.value) for record in plant.log.records(Topic.REPLIES)]
    answered: dict[str, set[str]] = {}
    for reply in replies:
        assert isinstance(reply, Reply)
        answered.setdefault(f"{reply.key} {reply.request_id}", set()).add(reply.model_dump_json())
    assert not once or all(len(texts) == 1 for texts in answered.values()), "a request was answered in two ways"
    return set(answered)


def proposals(plant: Plant) -> dict[tuple[str, int], str]:
    """What every asked turn proposed to memory; it may be delivered twice, but never in two ways."""
    found: dict[tuple[str, int], set[str]] = {}
    for record in plant.log.records(Topic.MEMORIES):
        event = decode(record.value)
        if isinstance(event, InsightsProposed):
            assert event.known_session == event.session - 1
            found.setdefault((event.key, event.turn), set()).add(event.model_dump_json())
    assert all(len(texts) == 1 for texts in found.values()), "a turn proposed in two ways"
    return {turn: texts.pop() for turn, texts in sorted(found.items())}


def asked_turns(plant: Plant) -> list[tuple[str, int]]:
    """The turns that closed sessions list: each was answered with a proposal."""
    events = [decode(record.value) for record in plant.log.records(Topic.SESSIONS)]
    return sorted({(event.key, turn) for event in events if isinstance(event, SessionClosed) for turn in event.turns})
