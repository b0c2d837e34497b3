"""Notes about requests with ids of the client: the same request again gets the same answer."""

from contextlib import suppress
from typing import Final

from eunoe.deploy.gateway.calls import Call
from eunoe.deploy.gateway.problems import Problem
from eunoe.deploy.gateway.results import LogPosition
from eunoe.schemas.base import Identifier, SpokenTime, Value, by_instant
from eunoe.schemas.errors import Unavailable
from eunoe.schemas.identity import content_digest
from eunoe.workers.stores.redis.keys import note_key

NOTE_S: Final = 86_400
"""Seconds for which a request is remembered."""
REPLY_S: Final = 7 * 86_400
"""Seconds for which the place of a reply is remembered: as long as its topic keeps it."""


class RequestNote(Value, extra="ignore"):
    """The facts that are kept of a request.

    Fields that it does not know are a newer replica's, and left unread: the answer is the same without them.
    """

    digest: str
    """Of its body, to tell another request with the same id."""
    at: SpokenTime
    """The time that its event carries, where the client gave none."""
    position: LogPosition | None = None
    """`None` until the log has it."""
    resume: str | None = None
    """For an ask: the place from which its answer is found."""
    utterance_id: Identifier | None = None
    """For an ask: the id of its utterance."""


def digest_of_body(body: Value) -> str:
    """The digest that a note keeps.

    Without the fields that say nothing: a version with other optional fields gives the same body the same digest. By
    the instant of its time, whatever the offset.
    """
    return content_digest(by_instant(body).model_dump_json(exclude_defaults=True).encode())


def note_name(call: Call, kind: str, id_: str) -> str:
    """The name of the note about a request."""
    return note_key(call.gateway.prefix, call.key, kind, id_)


async def noted(call: Call, name: str, note: RequestNote, *, field: str, needed: bool) -> RequestNote:
    """The note of a request: the one that was there, or this one, which is kept now.

    Raises `Problem` (409) where another request has the id, which the client gave in ``field``. Without the store the
    request goes on where the note is not ``needed``, else raises `Unavailable`.
    """
    try:
        before = await call.gateway.notes.claim(name, note.model_dump_json(), NOTE_S)
    except Unavailable:
        if needed:
            raise
        return note
    return note if before is None else _of_the_same(note, before, field)


async def check_unused(call: Call, name: str, note: RequestNote, *, field: str) -> None:
    """Raise `Problem` as `noted` does, and keep nothing; without the store nothing is raised."""
    with suppress(Unavailable):
        if (before := await call.gateway.notes.read(name)) is not None:
            _of_the_same(note, before, field)


def _of_the_same(note: RequestNote, before: str, field: str) -> RequestNote:
    """The note that was there before, if it is of the same request; raises `Problem` (409)."""
    found = RequestNote.from_json(before)
    if found.digest != note.digest:
        raise used_before(field)
    return found


def used_before(field: str) -> Problem:
    """409: an id of the client was used for another request; ``field`` is where it was given."""
    return Problem(409, f"this {field} was used before, with another content: choose another {field}")


async def write_note(call: Call, name: str, note: RequestNote) -> None:
    """Keep what is known now; does nothing while the store is away."""
    with suppress(Unavailable):
        await call.gateway.notes.write(name, note.model_dump_json(), NOTE_S)


async def read_note(call: Call, name: str) -> RequestNote | None:
    """The note; raises `Unavailable`."""
    text = await call.gateway.notes.read(name)
    return None if text is None else RequestNote.from_json(text)
