"""One stage behind a runner, on in-memory stores, with its records handed over by hand."""

from typing import Any

from eunoe.schemas.decisions import (
    Outcome,
    Scope,
    Work,
)
from eunoe.schemas.events import CloseReason, Line, SessionClosed
from eunoe.schemas.records import DeadLetterReason
from eunoe.streams.codec import decode, encode
from eunoe.streams.memory_log import MemoryLog
from eunoe.streams.record import Message, Record, Revoked
from eunoe.streams.topics import Topic
from eunoe.workers.registry import STAGES
from eunoe.workers.runner.backoff import Backoff
from eunoe.workers.runner.decider import RunnerSettings
from eunoe.workers.runner.inbound import LogPlace
from eunoe.workers.runner.outbox import Sender
from eunoe.workers.runner.parts import RunnerContext
from eunoe.workers.runner.runner import Runner
from eunoe.workers.stage import StageSpec
from tests.support.in_memory import START, Stores, letter_reasons

QUICK = RunnerSettings(attempts=2, retry_limit_s=1e9, max_parked=3, backoff=Backoff(first=0.001))


class Lease:
    """Never waits; ``pauses`` pauses are allowed before the partition is taken away."""

    def __init__(self, pauses: int = 1000) -> None:
        self.left = pauses
        self.revoked = False

    async def pause(self, seconds: float) -> None:
        self.left -= 1
        if self.left < 0:
            raise Revoked


class Script:
    """A stage that plays outcomes one after the other; the last one goes on for ever."""

    def __init__(self, *outcomes: Outcome | Exception) -> None:
        self.outcomes = list(outcomes)
        self.asked: list[Work[Any]] = []

    async def decide(self, work: Work[Any]) -> Outcome:
        self.asked.append(work)
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def closed(session: int, conversation: str = "c") -> SessionClosed:
    line = Line(utterance_id=f"u{session}", speaker="Ann", text="hello", at=START)
    return SessionClosed(
        conversation_id=conversation, session=session, lines=(line,), known_from=START, reason=CloseReason.ENDED
    )


class Bench:
    """One stage on a log, its records handed over by hand."""

    def __init__(
        self,
        stage: object,
        spec: StageSpec = STAGES["segment"],
        topic: Topic = Topic.SESSIONS,
        settings: RunnerSettings = QUICK,
    ) -> None:
        self.log, self.stores, self.topic = MemoryLog(partitions=1), Stores(), topic
        sender = Sender(self.stores.state, self.stores.index, self.stores.log_positions, self.log)
        self.runner = Runner(spec, stage, sender, self.stores.state, LogPlace(0, 1), RunnerContext(settings=settings))
        self.scope = Scope(spec.name, "default/c")

    def record(self, event: SessionClosed | bytes, key: bytes | None = None) -> Record:
        if isinstance(event, bytes):
            return self.log.append(Message(self.topic, key or b"default/c", event))
        return self.log.append(Message(self.topic, key or event.key.encode(), encode(event)))

    async def handle(self, *events: SessionClosed, pauses: int = 1000) -> None:
        for event in events:
            await self.runner.handle(self.record(event), Lease(pauses))

    def letters(self) -> list[DeadLetterReason]:
        return letter_reasons(self.log)

    def out(self) -> list[object]:
        return [decode(record.value) for record in self.log.records(Topic.SEGMENTS)]

    async def applied(self) -> int:
        return (await self.stores.state.ledger(self.scope)).applied
