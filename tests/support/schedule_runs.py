"""Runs of a schedule over a few conversations, and what they end in."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from eunoe.schemas.decisions import Decision, Outcome, Work
from eunoe.schemas.events import Ask, ConversationEvent, SessionClosed
from eunoe.schemas.memory import InsightsProposed
from eunoe.schemas.replies import Reply
from eunoe.streams.codec import decode
from eunoe.streams.memory_log import MemoryLog
from eunoe.streams.topics import Topic
from eunoe.workers.stage import Stage
from eunoe.workers.stores.vectors.memory_index import MemoryIndex
from tests.support.blend import ByPrompt
from tests.support.in_memory import START, Stores, ended, utterance
from tests.support.schedule import EVERY_TURN, PATIENT, Faults, Plant
from tests.support.schedule_stores import TABLES, StoreServers, TwinServers

NONE = Faults()
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


async def run(
    seed: int, faults: Faults, ailment: "Ailment | None" = None, servers: StoreServers | None = None
) -> Plant:
    settings = EVERY_TURN if seed % 4 > 1 else PATIENT
    wrap = ailment.wrap if ailment else lambda name, stage: stage
    plant = Plant(seed * 7 + round(faults.crashes * 1000), settings, ByPrompt() if seed % 2 else None, wrap, servers)
    plant.say(whole_log(seed))
    await plant.run(faults)
    return plant


def twin(plant: Plant) -> Stores:
    """What the twin of a server holds."""
    assert isinstance(plant.servers, TwinServers)
    return plant.servers.held


def memory(stores: Stores) -> dict[str, object]:
    """State, points and distinct messages; replies without what they happened to know when they were given."""
    state = {repr(scope): (ledger.applied, sorted(ledger.skipped)) for scope, ledger in stores.state._ledgers.items()}
    tables = {repr(name): dict(table) for name, table in stores.state._tables.items() if table}
    for name in list(tables):
        if "cited" in name:
            tables[name] = dict.fromkeys(tables[name], "")
    return {"state": state, "tables": tables, "points": points(stores.index)}


async def remembered(plant: Plant) -> dict[str, object]:
    """State and points, of real servers, too; ledgers of single requests are not among it."""
    found: dict[str, object] = {}
    for key in plant.conversations():
        stored = await plant.servers.transplants.export(key, TABLES)
        ledgers = {stage: (ledger.applied, sorted(ledger.skipped)) for stage, ledger in stored.ledgers.items()}
        tables = {
            f"{stage}/{table}": dict.fromkeys(rows, "") if table == "cited" else dict(rows)
            for (stage, table), rows in stored.tables.items()
        }
        found[key] = {"ledgers": ledgers, "parked": stored.parked, **tables}
    return {**found, "points": points(plant.servers.index)}


def points(index: MemoryIndex) -> dict[str, tuple[int, str]]:
    """Number and text of each point."""
    return {point.id: (point.seq, point.text) for point in index.all_points()}


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

    async def decide(self, work: Work[Any]) -> Outcome:
        outcome = await self.inner.decide(work)
        ill = not self.ailment.mended and random.Random(f"{work.key} {work.number}").random() < 0.34
        if ill and isinstance(outcome, Decision):
            raise RuntimeError("ailing")
        return outcome


@dataclass(frozen=True)
class Undisturbed:
    """What an undisturbed run ends in."""

    memory: dict[str, object]
    remembered: dict[str, object]
    requests: set[str]
    proposals: dict[tuple[str, int], str]


_UNDISTURBED: dict[int, Undisturbed] = {}


async def undisturbed_run(seed: int) -> Undisturbed:
    """The end of a seed's undisturbed run, which several tests compare with."""
    if seed not in _UNDISTURBED:
        plant = await run(seed, NONE)
        assert dead_letters(plant.log) == 0
        assert list(proposals(plant.log)) == asked_turns(plant.log)
        _UNDISTURBED[seed] = Undisturbed(
            memory(twin(plant)), await remembered(plant), requests(plant.log), proposals(plant.log)
        )
    return _UNDISTURBED[seed]


def dead_letters(log: MemoryLog) -> int:
    return len(log.records(Topic.DEAD_LETTERS))


def requests(log: MemoryLog, *, once: bool = True) -> set[str]:
    """The requests that were answered; each has one reply id, though it may be delivered twice.

    Without ``once`` it may be answered in another way, as where the store lost that it was answered.
    """
    replies = [decode(record.value) for record in log.records(Topic.REPLIES)]
    answered: dict[str, set[str]] = {}
    for reply in replies:
        assert isinstance(reply, Reply)
        answered.setdefault(f"{reply.key} {reply.request_id}", set()).add(reply.model_dump_json())
    assert not once or all(len(texts) == 1 for texts in answered.values()), "a request was answered in two ways"
    return set(answered)


def proposals(log: MemoryLog) -> dict[tuple[str, int], str]:
    """What every asked turn proposed to memory; it may be delivered twice, but never in two ways."""
    found: dict[tuple[str, int], set[str]] = {}
    for record in log.records(Topic.MEMORIES):
        event = decode(record.value)
        if isinstance(event, InsightsProposed):
            assert event.known_session == event.session - 1
            found.setdefault((event.key, event.turn), set()).add(event.model_dump_json())
    assert all(len(texts) == 1 for texts in found.values()), "a turn proposed in two ways"
    return {turn: texts.pop() for turn, texts in sorted(found.items())}


def asked_turns(log: MemoryLog) -> list[tuple[str, int]]:
    """The turns that closed sessions list: each was answered with a proposal."""
    events = [decode(record.value) for record in log.records(Topic.SESSIONS)]
    return sorted({(event.key, turn) for event in events if isinstance(event, SessionClosed) for turn in event.turns})
