"""Keeps the asks of a conversation while its state is replaced: those that had not reached the responder.

They become the unsent outbox of blend's ledger in the swap itself. So whoever reads that ledger next sends them, also
where the repair ends in between; the responder answers each once.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from eunoe.deploy.inspect.dead_letters import readable
from eunoe.schemas.decisions import Ledger, Outbox, OutMessage, Scope
from eunoe.schemas.events import ReplyContext, ReplyRequested
from eunoe.schemas.keys import KeyStore
from eunoe.schemas.ports import StateStore, StoredConversation
from eunoe.schemas.versions import ContractError
from eunoe.streams.codec import decode, encode
from eunoe.streams.dead_letters import Filed
from eunoe.streams.topics import Topic
from eunoe.workers.blend.outcomes import reply_contexts
from eunoe.workers.derive.pipeline import Derived

BLEND: Final = "blend"
RESPOND: Final = "respond"


@dataclass(frozen=True, slots=True)
class Asks:
    """Finds the asks that nobody has answered. ``held``: the turns of those that blend holds.

    ``may_be_lost``: whether a ledger that has applied nothing is one that the store has lost; then only held asks are
    known to be unanswered.
    """

    store: StateStore
    held: Collection[int | None]
    may_be_lost: bool

    async def unanswered(self, derived: Derived, blend: Ledger) -> list[ReplyContext]:
        """The contexts to send; ``blend``: the ledger that is to be replaced. Raises `Unavailable`."""
        found: list[ReplyContext] = []
        for record in derived.records:
            request = decode(record.value) if record.topic == Topic.REPLY_REQUESTS else None
            if isinstance(request, ReplyRequested) and await self._is_unanswered(request, blend):
                found += reply_contexts(request.model_copy(update={"reply_wanted": True}), infused=False)
        return found

    async def _is_unanswered(self, event: ReplyRequested, blend: Ledger) -> bool:
        on_the_way = is_on_the_way(event, blend, may_be_lost=self.may_be_lost)
        if event.request is None or (event.turn not in self.held and not on_the_way):
            return False
        ledger = await self.store.ledger(Scope(RESPOND, event.key, event.request.request_id))
        return ledger.applied == 0


async def held_turns(letters: Sequence[Filed], keys: KeyStore | None) -> set[int | None]:
    """The turns of the asks among dead letters that blend held."""
    requests = [await _held_request(one, keys) for one in letters]
    return {request.turn for request in requests if request is not None}


def is_on_the_way(event: ReplyRequested, blend: Ledger, *, may_be_lost: bool) -> bool:
    """Whether blend had not sent an ask to the responder: not decided yet, or it is in the unsent outbox."""
    if blend.applied == 0 and may_be_lost:
        return False
    turn, outbox = event.turn or 0, blend.outbox
    if outbox is None or turn > blend.applied:
        return turn > blend.applied
    return turn == outbox.number or event.request in [context.request for context in _contexts(outbox)]


def with_asks(standing: StoredConversation, asks: Sequence[ReplyContext], partition: int) -> StoredConversation:
    """The state with ``asks`` as the unsent outbox of blend; its ledger must count at least one late turn.

    The number of the outbox is that of a late turn: no outbox that blend sends meanwhile has the same.
    """
    if not asks:
        return standing
    ledger = standing.ledgers[BLEND]
    messages = [OutMessage(topic=Topic.REPLY_CONTEXTS, key=one.key, text=encode(one).decode()) for one in asks]
    outbox = Outbox(number=-ledger.lates, partition=partition, messages=tuple(messages))
    return replace(standing, ledgers={**standing.ledgers, BLEND: replace(ledger, outbox=outbox)})


def _contexts(outbox: Outbox) -> list[ReplyContext]:
    events = [decode(message.value) for message in outbox.messages if message.topic == Topic.REPLY_CONTEXTS]
    return [event for event in events if isinstance(event, ReplyContext)]


async def _held_request(filed: Filed, keys: KeyStore | None) -> ReplyRequested | None:
    """The ask in a dead letter that blend held; `None` for any other letter."""
    letter = filed.letter
    if letter.stage != BLEND or letter.truncated:
        return None
    try:
        event = decode(await readable(replace(filed.record, topic=letter.topic), keys))
    except ContractError:
        return None
    return event if isinstance(event, ReplyRequested) else None
