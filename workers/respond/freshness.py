"""The utterances that an answer knows."""

from eunoe.schemas.events import ReplyContext
from eunoe.schemas.ports import StateStore
from eunoe.schemas.replies import Freshness
from eunoe.workers.compress.reads import read_last_line


async def read_freshness(store: StateStore, event: ReplyContext, known_session: int) -> Freshness:
    """The freshness of the answer to an ask; ``known_session`` is the last session in the memory that it is based on.

    Reads the store only where nothing was said in the open session. Raises `Unavailable`.
    """
    last = event.dialogue[-1] if event.dialogue else await read_last_line(store, event.key, known_session)
    return Freshness(
        session=known_session,
        closed=event.session - 1,
        utterance_id=None if last is None else last.utterance_id,
        at=None if last is None else last.at,
    )
