"""Conversations that talk and ask beside whatever else is in the log, and what must be true of them and of all else."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import psutil

from eunoe.deploy.clients.bootstrap import open_qdrant
from eunoe.deploy.clients.shared import open_store, store_keys
from eunoe.schemas.decisions import Rejection
from eunoe.schemas.events import Ask, ConversationEvent
from eunoe.schemas.records import DeadLetter, DeadLetterReason
from eunoe.schemas.versions import ContractError
from eunoe.streams.client import Connection, MemoryClient
from eunoe.streams.dead_letters import read_dead_letter
from eunoe.streams.lag import lag
from eunoe.streams.record import Record
from eunoe.streams.topics import Topic
from eunoe.workers.derive.in_memory import InMemoryPipeline
from eunoe.workers.intake.settings import IntakeSettings
from eunoe.workers.models.local.embedding import WordLlamaEmbedder
from eunoe.workers.registry import STAGES, StageSettings
from eunoe.workers.runner.inbound import LogPlace, read_record
from eunoe.workers.stores.vectors.qdrant import QdrantIndex
from tests.support.command import until
from tests.support.in_memory import START, ended, utterance
from tests.support.pipeline import PARTITIONS, Pipeline
from tests.support.whole_state import read_states
from tests.support.wire import Sent

Identity = tuple[str, str, int, int]
"""Stage, topic, partition and offset of a dead letter."""
Letter = tuple[DeadLetter, bytes]
QUESTION = "Where did my sister move?"
ASK_S = 90.0
"""Longest wait for one reply."""


@dataclass
class Bystanders:
    """Conversations of two people; each wave is a sentence of some of them, and a question of every one."""

    pipeline: Pipeline
    count: int
    connection: Connection
    answered: int = 0
    events: list[ConversationEvent] = field(default_factory=list)
    """What they said and asked, in the order of each."""
    _said: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._said = [0] * self.count

    def name(self, number: int) -> str:
        """The id of a conversation."""
        return f"bystander-{number}"

    @property
    def keys(self) -> list[str]:
        """The keys of all conversations."""
        return [f"default/{self.name(number)}" for number in range(self.count)]

    async def wave(self, number: int, after: str = "") -> None:
        """A tenth of them say something, all of them ask; raises where a question stays without its reply."""
        await asyncio.gather(*(self._say(one) for one in range(number % 10, self.count, 10)))
        asks = (self._ask(one, after) for one in range(self.count))
        await asyncio.gather(*asks)

    async def everyone_speaks(self) -> None:
        """One sentence of each, so that all partitions have a new record."""
        await asyncio.gather(*(self._say(one) for one in range(self.count)))

    async def end_sessions(self) -> None:
        """End the open session of each."""
        for number in range(self.count):
            at = START + timedelta(days=1, seconds=self._said[number])
            await self._send(ended(conversation=self.name(number), at=at))

    async def _say(self, number: int) -> None:
        self._said[number] += 1
        place = self._said[number]
        text = f"My sister moved to Town{number}x{place} because of her job, and I like the garden there."
        await self._send(utterance(place, text, conversation=self.name(number)))

    async def _send(self, event: ConversationEvent) -> None:
        self.events.append(event)
        await self.connection.send(event)

    async def _ask(self, number: int, after: str) -> None:
        client = MemoryClient(self.connection, conversation_id=self.name(number))
        name = f"q{len(self.events)}"
        wish = Ask(request_id=name, record=False)
        self.events.append(utterance(1, QUESTION, conversation=self.name(number), utterance_id=name, ask=wish))
        try:
            await client.ask(QUESTION, speaker="Ann", record=False, timeout=ASK_S)
        except Exception as fault:
            raise AssertionError(f"after {after}: {self.name(number)} got no answer: {fault}") from fault
        self.answered += 1

    async def digests(self) -> dict[str, str]:
        """Key → the digest of all that is remembered, once nothing is left to do; lost utterances are an error."""
        for number in range(self.count):
            view = await self.pipeline.everything_remembered(self.name(number))
            told = [line.utterance_id for segment in view.segments for line in segment.lines]
            assert told == [f"u{place}" for place in range(1, self._said[number] + 1)], f"lost of {number}: {told}"
        settings = self.pipeline.settings
        async with open_store(settings) as store, open_qdrant(settings) as qdrant:
            states = await read_states(store, QdrantIndex(qdrant, store_keys(settings)), self.keys)
        assert [state.findings for state in states if state.findings] == []
        return {state.digest.key: state.digest.sha256 for state in states}

    async def expected_digests(self) -> dict[str, str]:
        """The same after what they said alone, one event at a time in this process."""
        settings = StageSettings(intake=IntakeSettings(idle_seconds=1e9))
        pipeline = InMemoryPipeline(WordLlamaEmbedder(), settings)
        for event in self.events:
            await pipeline.produce(event)
        states = await read_states(pipeline.store, pipeline.index, self.keys)
        return {state.digest.key: state.digest.sha256 for state in states}


@asynccontextmanager
async def bystanders(pipeline: Pipeline, count: int) -> AsyncIterator[Bystanders]:
    """They share one connection."""
    settings = pipeline.settings
    async with Connection(settings.kafka_settings, settings.names) as connection:
        yield Bystanders(pipeline, count, connection)


async def drained(pipeline: Pipeline, timeout_s: float = 120.0) -> None:
    """Wait until every stage has handled every record of its topics."""
    settings, inputs = pipeline.settings, {name: spec.inputs for name, spec in STAGES.items()}
    left: dict[str, int] = {}

    async def done() -> bool:
        left.update(await lag(settings.kafka_settings, settings.names, inputs))
        return not any(left.values())

    await until(done, timeout_s, lambda: f"records that are not handled: {left}")


def memory_of(pid: int) -> int:
    """Bytes of a process and its children."""
    process = psutil.Process(pid)
    return sum(one.memory_info().rss for one in (process, *process.children(recursive=True)))


# ---- the verdict on what hostile producers sent


@dataclass
class Verdict:
    """What became of hostile records, by kind, and what should not have."""

    letters: Counter[DeadLetterReason] = field(default_factory=Counter)
    handled: int = 0
    faults: list[str] = field(default_factory=list)


async def judge(pipeline: Pipeline, sent: Sequence[Sent]) -> Verdict:
    """Compare all dead letters with what the stages must make of the records that were sent.

    Each record that cannot be read is a dead letter of each stage that reads its topic, with its position, the reason
    and its bytes; a stage fails at none.
    """
    verdict, letters = Verdict(), await _letters(pipeline)
    readers = {topic: [name for name, spec in STAGES.items() if topic in spec.inputs] for topic in Topic}
    place = LogPlace(pipeline.settings.log_epoch, PARTITIONS)
    for topic in sorted({one.what.topic for one in sent if readers[one.what.topic]}):
        records = {(record.partition, record.offset): record for record in await pipeline.records(topic)}
        for one in (one for one in sent if one.what.topic == topic):
            if (one.partition, one.offset) not in records:
                verdict.faults.append(f"{one.what.name}: {topic}/{one.partition}@{one.offset} was never shown")
            places = [(one.partition, offset) for offset in range(one.offset, one.offset + one.records)]
            for record in (records[at] for at in places if at in records):
                for stage in readers[topic]:
                    _judge_one(verdict, (one, record), (stage, place), letters)
    return verdict


def _judge_one(
    verdict: Verdict, what: tuple[Sent, Record], reader: tuple[str, LogPlace], letters: Mapping[Identity, Letter]
) -> None:
    (sent, record), (stage, place) = what, reader
    found = letters.get((stage, record.topic, record.partition, record.offset))
    if fault := _fault(record, stage, place, found):
        where = f"{record.topic}/{record.partition}@{record.offset}"
        verdict.faults.append(f"{sent.what.name}: {stage}: {where}: {fault}")
    if found is None:
        verdict.handled += 1
    else:
        verdict.letters[found[0].reason] += 1


def _fault(record: Record, stage: str, place: LogPlace, found: Letter | None) -> str:
    """What is wrong with the dead letter of a record, or with its absence; empty where nothing is."""
    read = read_record(record, STAGES[stage], place)
    if found is None:
        return f"no dead letter, {read.reason} was expected: {read.error}" if isinstance(read, Rejection) else ""
    letter, value = found
    if letter.reason is DeadLetterReason.FAILED:
        return f"the stage failed: {letter.error}"
    if isinstance(read, Rejection) and letter.reason is not read.reason:
        return f"{letter.reason} in place of {read.reason}"
    if letter.sha256 != hashlib.sha256(record.value).hexdigest():
        return "the dead letter is of other bytes"
    whole = value == record.value if not letter.truncated else record.value.startswith(value)
    return "" if whole else "the dead letter has other bytes"


async def _letters(pipeline: Pipeline) -> dict[Identity, Letter]:
    found = {}
    for record in await pipeline.records(Topic.DEAD_LETTERS):
        try:
            letter, value = read_dead_letter(record)
        except ContractError:
            continue  # sent by a hostile producer
        found[letter.stage, letter.topic, letter.partition, letter.offset] = letter, value
    return found
