"""Traces that derivation does not replace: records of replies, dead letters, the timer, the list of tenants."""

from collections.abc import Mapping, Sequence

from eunoe.deploy.clients.bootstrap import Clients
from eunoe.deploy.generations.erase.places import Naming
from eunoe.deploy.generations.handled_log import HandledLog
from eunoe.deploy.inspect.dead_letters import close
from eunoe.schemas.decisions import Commit, Drop, Put, Scope, Write
from eunoe.schemas.erasure import ErasedPart
from eunoe.schemas.errors import Unavailable
from eunoe.schemas.events import Utterance
from eunoe.schemas.versions import ContractError
from eunoe.streams.codec import decode
from eunoe.streams.dead_letters import Closing, Filed
from eunoe.streams.record import Publisher
from eunoe.streams.settings import partition_of
from eunoe.workers.intake.stage import NAME as INTAKE
from eunoe.workers.respond.tables import CITED
from eunoe.workers.respond.tables import NAME as RESPOND


async def drop_cited(clients: Clients, part: ErasedPart, naming: Naming) -> None:
    """Remove the records of replies that rest on erased utterances; seal those of the others with the current key.

    A conversation of which all up to a place was erased loses those of all replies.
    """
    key = part.key
    rows = await clients.store.scan(RESPOND, key, CITED)
    stale = [id_ for id_, text in rows.items() if part.until > 0 or naming.is_erased(id_) or naming.names(text)]
    kept = {id_: text for id_, text in rows.items() if id_ not in stale}
    await _drop_cited(clients, key, stale, kept if clients.data_keys is not None else {})


async def _drop_cited(clients: Clients, key: str, ids: Sequence[str], kept: Mapping[str, str]) -> None:
    # a ledger for each key: one that an earlier erasure left may be sealed with a key that is destroyed
    key_id = "" if clients.data_keys is None else f"-{(await clients.data_keys.current(key)).id}"
    scope = Scope(RESPOND, key, f"erasure{key_id}")
    ledger = await clients.store.ledger(scope)
    writes: tuple[Write, ...] = (
        *(Drop(CITED, id_) for id_ in ids),
        *(Put(CITED, id_, text) for id_, text in kept.items()),
    )
    commit = Commit(
        expect=ledger.applied, applied=ledger.applied + 1, writes=writes, server=ledger.server, key=ledger.key
    )
    if writes and not await clients.store.commit(scope, commit):
        raise Unavailable(f"{key}: another erasure runs: run `eunoe erase replay` when it has ended")


async def close_letters(publisher: Publisher, handled: HandledLog, part: ErasedPart, *, dry_run: bool = False) -> int:
    """Mark the open dead letters that tell of erased utterances, so that nobody sends them back; returns their number.

    All letters of derived events are closed: their results have been derived again.
    """
    naming = Naming(part)
    letters = [one for one in await handled.open_letters(part.key) if _tells(one, part, naming)]
    if letters and not dry_run:
        await close(publisher, letters, Closing.ERASED)
    return len(letters)


def _tells(filed: Filed, part: ErasedPart, naming: Naming) -> bool:
    if filed.letter.stage != INTAKE:
        return True
    try:
        event = decode(filed.record.value)
    except ContractError:
        return part.until > 0
    return isinstance(event, Utterance) and naming.is_erased(event.utterance_id)


async def forget_conversation(clients: Clients, partitions: int, key: str) -> None:
    """Remove the timer of a conversation, and the conversation from the list of its tenant."""
    await clients.log_positions.forget(partition_of(key.encode(), partitions), key)
