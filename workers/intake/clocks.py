"""The clock by which the replies of a session are told."""

from collections.abc import Sequence
from datetime import UTC, tzinfo

from eunoe.schemas.events import Line


def by_one_clock(lines: Sequence[Line]) -> tuple[Line, ...]:
    """The lines, with each reply that was sent in UTC by the clock of the last line before it that has an offset.

    A product knows the clock of its user, and stamps its replies by its own: one evening would be told as two days.
    """
    if all(line.at.tzinfo is UTC for line in lines):
        return tuple(lines)
    told: list[Line] = []
    clock: tzinfo | None = UTC
    for line in lines:
        if line.at.tzinfo is not UTC:
            clock = line.at.tzinfo
        is_reply = line.reply_id is not None
        told.append(line.model_copy(update={"at": line.at.astimezone(clock)}) if is_reply else line)
    return tuple(told)
