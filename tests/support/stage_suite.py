"""The checks that every stage passes: a stage in the registry gets them by its name."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from eunoe.schemas.decisions import Ledger, Scope
from eunoe.schemas.events import Ask, ConversationEvent
from eunoe.schemas.ports import StoredConversation
from eunoe.schemas.records import DeadLetter, DeadLetterReason
from eunoe.streams.dead_letters import read_dead_letter
from eunoe.streams.position import copy_headers
from eunoe.streams.record import Message, Record
from eunoe.streams.topics import TOPICS, Topic
from eunoe.workers.blend.settings import BlendSettings
from eunoe.workers.derive.in_memory import InMemoryPipeline
from eunoe.workers.registry import Stages, settings_class
from eunoe.workers.runner.backoff import Backoff
from eunoe.workers.runner.decider import RunnerSettings
from eunoe.workers.runner.failure_limit import FailureLimit
from eunoe.workers.stage import ApplyOrder
from tests.support.in_memory import START, ended, make_pipeline, utterance
from tests.support.whole_state import read_digest

KEY = "default/c"
QUICK = RunnerSettings(attempts=2, backoff=Backoff(first=0.001), failures=FailureLimit(share=1.0))
SESSIONS = 3


class FailsOnce:
    """Raises at all attempts of the second decision, and at no other."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._asked: list[object] = []

    async def decide(self, work: Any) -> Any:
        mark = (work.number, work.events[0].to_json())
        if mark not in self._asked:
            self._asked.append(mark)
        if self._asked[1:2] == [mark]:
            raise RuntimeError("this one never")
        return await self._inner.decide(work)


def conversation() -> list[ConversationEvent]:
    """Sessions of one conversation in which Ann asks once each."""
    events: list[ConversationEvent] = []
    for session in range(1, SESSIONS + 1):
        place, ask = ("Lyon", "Oslo", "Porto")[session - 1], Ask(request_id=f"r{session}")
        events += [
            utterance(10 * session + 1, f"I moved to {place} in spring, and I work at the harbour there."),
            utterance(10 * session + 2, f"How is {place}? My sister bought {session} horses."),
            utterance(10 * session + 3, "Where do I live now?", ask=ask),
            ended(at=START + timedelta(minutes=session)),
        ]
    return events


@dataclass(frozen=True)
class StageSuite:
    """The checks of one stage among all of them."""

    stages: Stages
    name: str

    async def check_idempotence(self) -> None:
        """Records that are delivered again change nothing, and bring about nothing."""
        pipeline = await self._played()
        before, messages = await self._state(pipeline), self._messages(pipeline)
        again = self._alone(pipeline)
        await again.run_until_idle()
        assert await self._state(again) == before
        assert self._messages(again) == messages

    async def check_order(self) -> None:
        """Records that come backwards are not applied out of order."""
        whole = await self._played()
        alone = self._pipeline(only=True, epoch=1)
        await alone.store.swap(KEY, self._tables(), await self._others(whole), Ledger())
        await alone.index.upsert(whole.index.all_points())
        inputs = self._inputs(whole)
        for record in reversed(inputs):
            headers = copy_headers(record, 0) if record.topic == Topic.CONVERSATIONS else ()
            await alone.send(Message(record.topic, record.key, record.value, tuple(headers)))
        spec, letters = self.stages[self.name], self._letters(alone)
        ledger = await alone.store.ledger(Scope(self.name, KEY))
        if spec.order is ApplyOrder.REQUEST:
            assert (letters, len(alone.replies())) == ([], len(inputs))
        elif spec.order is ApplyOrder.POSITION:
            assert (letters, ledger.applied) == ([], (await whole.store.ledger(Scope(self.name, KEY))).applied)
        else:
            assert {letter.reason for letter in letters} == {DeadLetterReason.HELD}
            assert ledger.applied == 1

    async def check_dead_letter(self) -> None:
        """An event that cannot be decided is dead-lettered; the events after it are handled all the same."""
        whole, failing = await self._played(), self._pipeline(failing=True)
        await failing.play(conversation())
        (letter,) = self._letters(failing)
        assert (letter.stage, letter.reason, letter.attempts) == (self.name, DeadLetterReason.FAILED, QUICK.attempts)
        for name, spec in self.stages.items():
            if spec.makes_memory:
                there, here = [await one.store.ledger(Scope(name, KEY)) for one in (whole, failing)]
                assert here.applied == there.applied, name

    async def check_replay(self) -> None:
        """Another generation derives the same memory from a copy of the log, and answers no ask again."""
        whole = await self._played()
        again = self._pipeline(generation="v2", epoch=1)
        for record in whole.log.records(Topic.CONVERSATIONS):
            await again.send(Message(record.topic, record.key, record.value, tuple(copy_headers(record, 0))))
        spec = {self.name: self.stages[self.name]}
        made, anew = [await read_digest(one.store, KEY, spec, log_times=True) for one in (whole, again)]
        assert made.state == anew.state
        assert again.replies() == []

    def _pipeline(
        self, *, failing: bool = False, only: bool = False, generation: str = "v1", epoch: int = 0
    ) -> InMemoryPipeline:
        settings = settings_class(self.stages)().with_changes(BlendSettings, wait_s=None)
        return make_pipeline(
            settings,
            runner_settings=QUICK,
            wrap=lambda name, stage: FailsOnce(stage) if failing and name == self.name else stage,
            generation=generation,
            epoch=epoch,
            stages={self.name: self.stages[self.name]} if only else self.stages,
        )

    async def _played(self) -> InMemoryPipeline:
        pipeline = self._pipeline()
        await pipeline.play(conversation())
        assert self._letters(pipeline) == []
        assert self._inputs(pipeline)
        return pipeline

    def _alone(self, whole: InMemoryPipeline) -> InMemoryPipeline:
        """A process that begins to read anew, over the same log and stores."""
        return InMemoryPipeline(
            whole.embedder,
            whole.settings,
            stages={self.name: self.stages[self.name]},
            runner_settings=QUICK,
            log=whole.log,
            store=whole.store,
            index=whole.index,
            log_positions=whole.log_positions,
        )

    def _tables(self) -> Mapping[str, tuple[str, ...]]:
        memory = [spec for spec in self.stages.values() if spec.makes_memory and spec.name != self.name]
        return {spec.name: spec.tables.all for spec in memory}

    async def _others(self, whole: InMemoryPipeline) -> StoredConversation:
        return await whole.store.export(KEY, self._tables())

    async def _state(self, pipeline: InMemoryPipeline) -> object:
        points = pipeline.index.all_points()
        return await pipeline.store.export(KEY, {name: spec.tables.all for name, spec in self.stages.items()}), points

    def _messages(self, pipeline: InMemoryPipeline) -> dict[Topic, list[bytes]]:
        return {topic: [record.value for record in pipeline.log.records(topic)] for topic in TOPICS}

    def _inputs(self, pipeline: InMemoryPipeline) -> list[Record]:
        return [record for topic in self.stages[self.name].inputs for record in pipeline.log.records(topic)]

    def _letters(self, pipeline: InMemoryPipeline) -> list[DeadLetter]:
        return [read_dead_letter(record)[0] for record in pipeline.log.records(Topic.DEAD_LETTERS)]


CHECKS = (
    StageSuite.check_idempotence,
    StageSuite.check_order,
    StageSuite.check_dead_letter,
    StageSuite.check_replay,
)
