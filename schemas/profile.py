"""The profile of a person: what holds of them now, packed for a prompt."""

from datetime import timedelta
from typing import Final, Literal

from pydantic import Field

from eunoe.schemas.base import Identifier, Name, SpokenTime, Text, Time, Value
from eunoe.schemas.memory import MemoryKind

PROFILE_TOKENS = 500
"""The budget of a profile unless another one is asked for."""


class ProfileItem(Value):
    """A memory that holds."""

    kind: MemoryKind
    text: Text
    at: SpokenTime
    """Event time of the memory."""
    expires_at: SpokenTime | None = None
    """Event time from which it no longer holds, where its text names an end."""
    perhaps_outdated: bool = False
    """Whether a later memory may contradict it."""
    speaker: Name
    memory_id: Identifier
    session: int = Field(ge=1)
    """The session it was born in."""
    sources: tuple[Identifier, ...] = Field(min_length=1)
    """The ids of the utterances that it rests on."""


class PersonProfile(Value):
    """The memories that hold now of a person, or of all in a conversation; read without a model."""

    version: Literal[1] = 1
    """Of this form."""
    session: int = Field(ge=0)
    """The last session that it knows: two profiles of the same session and time are equal."""
    at: Time
    """The event time at which it holds; what was said after, and plans that ended before, are left out."""
    person: Name | None = None
    """`None`: all speakers."""
    budget_tokens: int = Field(ge=1)
    tokens: int = Field(ge=0)
    """Of `text`, by the count of all budgets."""
    items: tuple[ProfileItem, ...] = ()
    """By kind, each the latest first."""
    left_out: int = Field(default=0, ge=0)
    """Memories that hold, too, and found no room."""
    past: int = Field(default=0, ge=0)
    """Memories whose named end has passed."""

    @property
    def text(self) -> str:
        """The lines for a prompt, under a heading for each kind."""
        lines: list[str] = []
        for kind in HEADINGS:
            found = [item for item in self.items if item.kind is kind]
            if found:
                lines.append(HEADINGS[kind])
                lines += [line_of(item) for item in found]
        return "\n".join(lines)


HEADINGS: Final = {
    MemoryKind.STATE: "Now:",
    MemoryKind.PREFERENCE: "Likes and dislikes:",
    MemoryKind.PLAN: "Plans:",
    MemoryKind.EVENT: "What happened last:",
}
"""Kind → its heading, in the order of a profile."""


def line_of(item: ProfileItem) -> str:
    """The line of an item, with its day and doubt: ``- Ann lives in Cork. (2026-03-01, perhaps outdated)``."""
    last = None if item.expires_at is None else (item.expires_at - timedelta(microseconds=1)).date()
    until = "" if last is None else f", until {last.isoformat()}"
    doubt = ", perhaps outdated" if item.perhaps_outdated else ""
    return f"- {' '.join(item.text.split())} ({item.at.date().isoformat()}{until}{doubt})"
