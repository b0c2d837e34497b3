"""Places in the log of answers, as streams, notes and the header Last-Event-ID hold them."""

import re
from dataclasses import dataclass
from typing import Self

from eunoe.streams.record import Record

_TEXT = re.compile(r"(?:(\d{1,9})-)?(\d{1,9}):(\d{1,18})")


@dataclass(frozen=True, slots=True)
class AnswerPlace:
    """The place of an answer; as text ``PARTITION:OFFSET``, with ``EPOCH-`` before it unless that is 0."""

    partition: int
    offset: int
    epoch: int = 0
    """That of the broker: in another one the log of answers was created anew, as by a start of `eunoe up`."""

    def __str__(self) -> str:
        place = f"{self.partition}:{self.offset}"
        return f"{self.epoch}-{place}" if self.epoch else place

    @classmethod
    def of(cls, record: Record, epoch: int) -> Self:
        """The place of a record that is read in ``epoch``."""
        return cls(record.partition, record.offset, epoch)

    @classmethod
    def after(cls, record: Record, epoch: int) -> Self:
        """The place behind a record, from which a stream goes on."""
        return cls(record.partition, record.offset + 1, epoch)

    @classmethod
    def read(cls, text: str, partition: int) -> Self | None:
        """The inverse of ``str``; `None` for text that is no place, or one of another partition.

        A conversation's answers lie in another partition once their topic was given more of them.
        """
        match = _TEXT.fullmatch(text)
        if match is None or int(match[2]) != partition:
            return None
        return cls(partition, int(match[3]), int(match[1] or 0))
