"""Sends records of one stage that cannot be handled to the dead letters, and an error to whoever asked by them."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from eunoe.schemas.decisions import Rejection
from eunoe.streams.dead_letters import dead_letter
from eunoe.streams.position import is_copy, record_position
from eunoe.streams.record import Record
from eunoe.workers.runner.inbound import LogPlace
from eunoe.workers.runner.outbox import Sender
from eunoe.workers.runner.refused_asks import error_answers
from eunoe.workers.stage import StageSpec

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DeadLetterSender:
    """Sends dead letters of one stage.

    A runner and its parts share it, so that there is no cycle of references between them. A rebuild makes runners for
    each conversation, and a cycle would keep the conversation in memory until a full garbage collection.
    """

    spec: StageSpec
    sender: Sender
    place: LogPlace
    """The log that the stage reads."""
    request_age_s: float
    """Seconds after which nobody waits for an answer any more."""
    now: Callable[[], datetime]

    async def send(self, record: Record, rejection: Rejection) -> None:
        """Make a dead letter of a record. Raises `Unavailable`."""
        stage = self.spec.name
        log.warning("%s: dead letter of %s: %s: %s", stage, record.place, rejection.reason, rejection.error)
        letter = dead_letter(record, stage, rejection.reason, rejection.error)
        answers = error_answers(record, rejection.error) if await self._answers(record) else ()
        await self.sender.publisher.publish([letter, *answers])

    async def _answers(self, record: Record) -> bool:
        """Whether whoever asked by a record that cannot be read is answered here, and may still be waiting."""
        if not self.spec.reads_log or is_copy(record):
            return False
        age_s = self.now().timestamp() - record.timestamp_ms / 1000
        if age_s > self.request_age_s:
            return False
        number = record_position(record, self.place.epoch)
        return self.place.answers(await self.sender.log_positions.answering(record.partition, number))
