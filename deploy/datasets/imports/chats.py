"""Makes sessions of the chats of an export, whatever product they come from."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from eunoe.deploy.datasets.imports.imported import (
    ImportFile,
    ImportSession,
    ImportTarget,
    KnownLines,
    SourceLine,
    cut,
    session_of,
)
from eunoe.schemas.base import MAX_AGE
from eunoe.schemas.errors import Refused

Node = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """A message of a chat."""

    id: str
    text: str
    """Empty where a person sees nothing of it: then it tells the time alone."""
    time: object
    """As the export has it."""
    is_reply: bool


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat, with its messages in the order shown."""

    id: str
    begun: object
    """The time when it was made, as the export has it."""
    messages: Sequence[ChatMessage]


ReadChat = Callable[[object, str, Counter[str]], Chat]
"""Called with an entry of an export, its place and the counts of what is left out; raises `Refused` for no chat."""


def read_chats(entries: Iterable[object], path: Path, target: ImportTarget, source: str, read: ReadChat) -> ImportFile:
    """All chats as one conversation of the person: a session for each stretch of a chat without a long silence.

    ``source`` is the name of the product: that of the conversation, where ``target`` has none. A chat that is there
    twice counts once. A message without a time takes that of the one before. An entry that is no chat, and a chat
    without any time, are refused alone. Raises `Refused` with the number of the chat that has another message under an
    id of one before, and where all are refused.
    """
    left_out: Counter[str] = Counter()
    conversation_id = target.conversation_id or source
    sessions: list[ImportSession] = []
    refused: list[str] = []
    undated = 0
    known = KnownLines()
    for number, entry in enumerate(entries, 1):
        where = f"{path}, chat {number}"
        try:
            chat, times = _dated(entry, where, left_out, read)
        except Refused as fault:
            refused.append(str(fault))
            continue
        lines: list[SourceLine] = []
        for message, time in zip(chat.messages, times, strict=True):
            line = SourceLine(f"{chat.id}\n{message.id}", target.speaker, message.text, time, message.is_reply)
            if message.text and known.is_new(conversation_id, line, path, f"chat {number}, {_name(message)}"):
                lines.append(line)
                undated += usable_time(message.time) is None
        sessions += [
            session_of(f"{source}\n{chat.id}\n{part[0].id}", part, target, conversation_id) for part in cut(lines)
        ]
    if refused and not sessions:
        raise Refused(refused[0])
    ordered = sorted(sessions, key=lambda session: (session.utterances[0].at, session.session_id))
    return ImportFile(tuple(ordered), left_out, undated, tuple(refused))


def _dated(entry: object, where: str, left_out: Counter[str], read: ReadChat) -> tuple[Chat, list[datetime]]:
    """A chat with the times of its messages; raises `Refused` for no chat, and where there is no time."""
    own = Counter[str]()
    chat = read(entry, where, own)
    times = _times(chat)
    if times is None:
        raise Refused(_refusal(chat, where))
    left_out.update(own)
    return chat, times


def usable_time(value: object) -> datetime | None:
    """The time that an export means by seconds since 1970 or a text of ISO 8601; `None` where intake takes none."""
    try:
        if isinstance(value, int | float) and not isinstance(value, bool) and value and math.isfinite(value):
            time = datetime.fromtimestamp(value, UTC)
        elif isinstance(value, str):
            read = datetime.fromisoformat(value)
            time = read.astimezone(UTC) if read.tzinfo else read.replace(tzinfo=UTC)
        else:
            return None
    except (ValueError, OverflowError, OSError):
        return None
    return time if abs(time - datetime.now(UTC)) <= MAX_AGE else None


def _times(chat: Chat) -> list[datetime] | None:
    """The time of each message: its own, else that of the one before, else of the chat; `None` where there is none.

    A clock that is ahead gives a message an earlier time than the one before: the order is the one shown.
    """
    own = [usable_time(message.time) for message in chat.messages]
    before = usable_time(chat.begun) or next(filter(None, own), None)
    if before is None:
        return None if any(message.text for message in chat.messages) else []
    return list(_filled(own, before))


def _filled(times: Iterable[datetime | None], before: datetime) -> Iterator[datetime]:
    for time in times:
        before = time or before
        yield before


def _refusal(chat: Chat, where: str) -> str:
    message = next(message for message in chat.messages if message.text)
    given = f"; that of {_name(message)} is {message.time!r:.40}" if message.time is not None else ""
    years = MAX_AGE.days // 365
    return f"{where}: neither it nor any of its messages has a time within {years} years of now{given}"


def _name(message: ChatMessage) -> str:
    return f"message {message.id[:40]!r}"
