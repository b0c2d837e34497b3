"""Stands at a log that clients were told to leave: refuses what still comes in, and says where the log goes on."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from eunoe.schemas.events import DeadLetterReason, Provenance, Reply, Strategy, Utterance
from eunoe.schemas.identity import derive_id
from eunoe.schemas.versions import ContractError
from eunoe.streams.codec import decode, encode
from eunoe.streams.dead_letters import dead_letter
from eunoe.streams.record import Lease, Message, Publisher, Record
from eunoe.streams.topics import Topic, TopicNames
from eunoe.workers.intake.stage import NAME as INTAKE
from eunoe.workers.runner.backoff import Backoff, Outages

log = logging.getLogger(__name__)

STAGE = "moved"
"""Its consumer groups are named so; what it sets aside is intake's, which takes it where the log goes on."""
LOOK_S = 1.0
"""How often it looks whether the log is left."""


def where_to(old: TopicNames, new: TopicNames) -> str:
    """What a client of the old log is told."""
    left, there = old.name(Topic.CONVERSATIONS), new.name(Topic.CONVERSATIONS)
    return (
        f"{left} is closed, its partitions have changed: produce into {there}"
        f" (EUNOE_LOG={new.log}, in Python TopicNames(log={new.log})), and say it again there"
    )


@dataclass(slots=True)
class RetiredLogHandler:
    """Sets aside what was produced into a log after its end, and answers asks with the reason."""

    closed: Callable[[], Awaitable[Mapping[int, int] | None]]
    """Partition → the first offset that is refused; None: the log is not left yet."""
    publisher: Publisher
    told: str
    outages: Outages = field(default_factory=Outages)
    retry_limit_s: float = 600.0
    _ends: Mapping[int, int] | None = None

    async def handle(self, record: Record, lease: Lease) -> None:
        """Refuse a record, unless the log was still open when it came.

        Raises `eunoe.streams.record.Revoked` when a rebalance comes first, `Unavailable` when a server stays away.
        """
        ends = await self._left(lease)
        if record.key is None or record.offset < ends.get(record.partition, 0):
            return
        log.warning("refused: %s/%d@%d: %s", record.topic, record.partition, record.offset, self.told)
        messages = [dead_letter(record, INTAKE, DeadLetterReason.MOVED, self.told), *self._answers(record)]
        await self.outages.retry(lambda: self.publisher.publish(messages), lease, Backoff(), self.retry_limit_s)

    async def _left(self, lease: Lease) -> Mapping[int, int]:
        while self._ends is None:
            self._ends = await self.outages.retry(self.closed, lease, Backoff(), self.retry_limit_s)
            if self._ends is None:
                await lease.pause(LOOK_S)
        return self._ends

    def _answers(self, record: Record) -> list[Message]:
        """To an ask the reply that there is none, so that nobody waits for it."""
        said = None
        with suppress(ContractError):
            said = decode(record.value)
        if not isinstance(said, Utterance) or said.ask is None:
            return []
        reply = Reply(
            tenant=said.tenant,
            conversation_id=said.conversation_id,
            reply_id=derive_id(said.key, 0, STAGE, said.ask.request_id),
            request_id=said.ask.request_id,
            speaker=said.ask.speak_as,
            text="",
            strategy=said.ask.strategy or Strategy.SEGMENT,
            known_session=0,
            made_by=Provenance(code="doorkeeper/1", model="none"),
            error=self.told,
        )
        return [Message(Topic.REPLIES, said.key.encode(), encode(reply))]
