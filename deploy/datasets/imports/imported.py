"""Sessions read from the exports of other products, as events with ids that are derived from those of the source."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, TypeVar
from uuid import UUID, uuid5

from eunoe.deploy.datasets.unmarked import unmarked_replies
from eunoe.schemas.base import MAX_AGE, write_time
from eunoe.schemas.errors import Refused
from eunoe.schemas.events import DEFAULT_AGENT, DEFAULT_TENANT, SessionEnded, Utterance
from eunoe.streams.client import MAX_TEXT_BYTES

GAP: Final = timedelta(minutes=30)
"""A longer silence begins another session."""
MAX_LINES: Final = 200
MAX_BYTES: Final = 131_072
"""Bounds of an imported session; below those of intake, which would close it in the middle."""
_NAMESPACE: Final = UUID("6b1f1d0e-3c55-5f0e-9a53-6f1f3a0f7c11")


@dataclass(frozen=True, slots=True)
class ImportTarget:
    """The conversation that a file is imported into."""

    tenant: str = DEFAULT_TENANT
    conversation_id: str | None = None
    """`None` means what the format says."""
    speaker: str = "user"
    """The name of the person whose export it is."""


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A message of the source."""

    id: str
    speaker: str
    text: str
    at: datetime
    is_reply: bool = False
    """Whether an assistant said it: it is kept, and is no evidence for a memory."""


@dataclass(slots=True)
class KnownLines:
    """The messages of a file that were read, to tell those that it repeats."""

    _known: dict[tuple[str, str], tuple[str, SourceLine]] = field(default_factory=dict)

    def is_new(self, conversation_id: str, line: SourceLine, path: Path, place: str) -> bool:
        """Whether a message of a conversation is no repetition of one before.

        ``place`` is its place in the file at ``path``. Raises `Refused` for the id of another message: intake would set
        the second one aside.
        """
        before, same = self._known.setdefault((conversation_id, line.id), (place, line))
        if same != line:
            raise Refused(
                f"{path}, {place}: its id is that of {before}, with another content; leave out the one that is wrong"
            )
        return before == place


@dataclass(frozen=True, slots=True)
class ImportSession:
    """A whole session, to be sent at once."""

    session_id: str
    utterances: tuple[Utterance, ...]
    end: SessionEnded

    @property
    def key(self) -> str:
        """The conversation key."""
        return self.end.key

    @property
    def events(self) -> tuple[Utterance | SessionEnded, ...]:
        """The events in the order in which they are sent."""
        return (*self.utterances, self.end)


@dataclass(frozen=True, slots=True)
class ImportFile:
    """All that is imported from a file."""

    sessions: tuple[ImportSession, ...]
    """In order of time in each conversation."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Kind of content → how many messages of it were not imported."""
    undated: int = 0
    """Messages of chats that have no time of their own, and take that of the one before."""
    refused: tuple[str, ...] = ()
    """The entries that were refused alone, as no chats or without a time: each with its place and the fault."""

    @property
    def events(self) -> int:
        """The number of events."""
        return sum(len(session.events) for session in self.sessions)

    @property
    def conversations(self) -> tuple[str, ...]:
        """The conversation keys, in order of their first session."""
        return tuple(dict.fromkeys(session.key for session in self.sessions))

    @property
    def unmarked(self) -> Counter[str]:
        """Name of an assistant → how many utterances of it are taken as a person's words."""
        return unmarked_replies(said for session in self.sessions for said in session.utterances)

    @property
    def dates(self) -> tuple[datetime, datetime] | None:
        """The times of the first and the last utterance."""
        times = [said.at for session in self.sessions for said in session.utterances]
        return (min(times), max(times)) if times else None


def source_id(*parts: object) -> str:
    """The id of something imported: a UUIDv5 of the ids that its source gave it."""
    return str(uuid5(_NAMESPACE, "\n".join(map(str, parts))))


def check_time(at: datetime, where: str) -> None:
    """Raise `Refused` for a time that intake would not take."""
    if abs(at - datetime.now(UTC)) > MAX_AGE:
        raise Refused(f"{where}: its time {write_time(at)} is over {MAX_AGE.days // 365} years from now")


_Line = TypeVar("_Line", SourceLine, Utterance)


def cut(lines: Sequence[_Line], gap: timedelta = GAP) -> Iterator[list[_Line]]:
    """The sessions of one chat: cut at silences longer than ``gap``, and where one would become too large.

    A line may have an earlier time than one before it; silences are measured from the latest time so far.
    """
    session: list[_Line] = []
    size = 0
    latest = datetime.min.replace(tzinfo=UTC)
    for line in lines:
        own = len(line.text.encode())
        is_over = session and line.at - latest > gap
        if session and (is_over or len(session) >= MAX_LINES or size + own > MAX_BYTES):
            yield session
            session, size = [], 0
        session.append(line)
        size += own
        latest = max(latest, line.at)
    if session:
        yield session


def session_of(name: str, lines: Sequence[SourceLine], target: ImportTarget, conversation_id: str) -> ImportSession:
    """A session of the lines; ``name`` identifies it in the source."""
    session_id = source_id("session", name)
    said = tuple(one for line in lines for one in _utterances(line, session_id, target, conversation_id))
    end = SessionEnded(tenant=target.tenant, conversation_id=conversation_id, session_id=session_id, at=said[-1].at)
    return ImportSession(session_id, said, end)


def _utterances(line: SourceLine, session_id: str, target: ImportTarget, conversation_id: str) -> Iterator[Utterance]:
    for number, text in enumerate(pieces(line.text)):
        utterance_id = source_id("line", line.id, *((number,) if number else ()))
        yield Utterance(
            tenant=target.tenant,
            conversation_id=conversation_id,
            utterance_id=utterance_id,
            session_id=session_id,
            speaker=DEFAULT_AGENT if line.is_reply else line.speaker,
            text=text,
            at=line.at,
            reply_id=utterance_id if line.is_reply else None,
        )


def pieces(text: str) -> Iterator[str]:
    """The text in parts that intake takes, each but the last as long as fits, cut between words where it can be."""
    if len(text) <= MAX_TEXT_BYTES // 4 and text.strip():  # nearly all of them; without a copy of it
        yield text
        return
    data = text.encode("utf-8", "replace")
    while len(data) > MAX_TEXT_BYTES:
        piece = data[:MAX_TEXT_BYTES].decode("utf-8", "ignore")
        words, space, _ = piece.rpartition(" ")
        kept = words + space if len(words) > len(piece) // 2 else piece
        if kept.strip():
            yield kept
        data = data[len(kept.encode()) :]
    if data.strip():
        yield data.decode()
