"""Places in the log of answers, as streams, notes and the header Last-Event-ID hold them."""

import re
from dataclasses import dataclass
from typing import Self

from eunoe.streams.record import Record

_TEXT = re.compile(r"(\d{1,9}):(\d{1,18})")


@dataclass(frozen=True, slots=True)
class AnswerPlace:
    """The place of an answer; as text ``PARTITION:OFFSET``."""

    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}:{self.offset}"

    @classmethod
    def of(cls, record: Record) -> Self:
        """The place of a record."""
        return cls(record.partition, record.offset)

    @classmethod
    def after(cls, record: Record) -> Self:
        """The place behind a record, from which a stream goes on."""
        return cls(record.partition, record.offset + 1)

    @classmethod
    def read(cls, text: str, partition: int) -> Self | None:
        """The inverse of ``str``; `None` for text that is no place, or one of another partition.

        A conversation's answers lie in another partition once their topic was given more of them.
        """
        match = _TEXT.fullmatch(text)
        return None if match is None or int(match[1]) != partition else cls(partition, int(match[2]))
