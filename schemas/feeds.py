"""The feed of what becomes memory, as the gateway sends it and its clients read it."""

from eunoe.schemas.base import Identifier, Time, Value
from eunoe.schemas.memory import ChangeKind, DerivedReason


class RememberedSession(Value):
    """A session whose memories are there."""

    conversation_id: Identifier
    session: int
    known_from: Time | None = None
    """Log time at which the session was closed; `None` for a skipped one."""
    changes: dict[ChangeKind, int]
    """Kind of change → number of memories."""
    partial: bool = False
    """Whether the session's summary is missing; it may come late."""
    skipped: bool = False
    """Whether the session failed at a stage, so that nothing of it is in memory."""
    applied: dict[str, int]
    """Stage → the last session that it has applied; links and tree may come a little later."""


class DerivedConversation(Value):
    """A conversation whose memory was derived again in its place: read again what is kept of it."""

    conversation_id: Identifier
    reason: DerivedReason
