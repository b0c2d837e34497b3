"""Finds events of a file that intake would refuse: they would become dead letters after they were produced."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from eunoe.deploy.datasets.loaded import ClientEvent
from eunoe.schemas.base import MAX_AGE, write_time
from eunoe.schemas.errors import Refused
from eunoe.schemas.events import Utterance


def check_taken(events: Sequence[tuple[int, ClientEvent]], path: Path, max_text_bytes: int) -> None:
    """Raise `Refused` with the first line that intake would refuse, as far as the file shows it.

    ``events`` have the numbers of their lines; ``max_text_bytes`` is intake's limit. An id that the log has already
    with another content cannot be seen here.
    """
    now = datetime.now(UTC)
    known: dict[tuple[str, str], tuple[int, Utterance]] = {}
    for number, event in events:
        where = f"{path}, line {number}"
        if abs(event.at - now) > MAX_AGE:
            raise Refused(f"{where}: at: {write_time(event.at)} is over {MAX_AGE.days // 365} years from now")
        if isinstance(event, Utterance):
            _check_text(event, where, max_text_bytes)
            before, same = known.setdefault((event.key, event.utterance_id), (number, event))
            if same != event:
                raise Refused(
                    f"{where}: utterance_id {event.utterance_id!r:.60} is that of line {before}, with another content;"
                    " an id names one utterance of a conversation"
                )


def _check_text(said: Utterance, where: str, max_text_bytes: int) -> None:
    size = len(said.text.encode())
    if size > max_text_bytes:
        raise Refused(
            f"{where}: text: has {size:,} bytes of UTF-8, limit is {max_text_bytes:,} (EUNOE_INTAKE__MAX_TEXT_BYTES)"
        )
