"""Parts that the commands which erase share: the words of their lines, an eraser, and what they print."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Final
from uuid import uuid4

from eunoe.deploy.cli.output import console, print_json
from eunoe.deploy.cli.progress import ProgressBars
from eunoe.deploy.clients.connect import connected_settings
from eunoe.deploy.clients.erasures import open_erasures, waiting_erasures
from eunoe.deploy.clients.live_settings import live_settings
from eunoe.deploy.event_loop import keep_for_good
from eunoe.deploy.generations.erase.batch import WorkedOff
from eunoe.deploy.generations.erase.loop import alone
from eunoe.deploy.generations.erase.receipt import Receipt
from eunoe.deploy.generations.erase.run import HANDLED_S, Eraser
from eunoe.deploy.generations.handled_log import StillWritten, Unhandled
from eunoe.deploy.inspect.counted import counted
from eunoe.schemas.erasure import Erasure, ErasureLedger, ErasureLevel, ErasureRequest
from eunoe.schemas.errors import Refused, Unavailable
from eunoe.schemas.identity import conversation_key

PATIENT_S: Final = 60.0
"""Seconds for which an erasure in one conversation waits for intake: longer than a group takes to miss a member."""


class ErasureWords:
    """The words of a command line."""

    def __init__(
        self, conversation: str | None, utterances: Sequence[str], session: str | None, tenant: str, everything: bool
    ) -> None:
        if (conversation is None) != everything:
            raise Refused("give one conversation, or --all-conversations for all of the tenant's")
        if sum((bool(utterances), session is not None, everything)) > 1:
            raise Refused("give --utterance, --session or --all-conversations, not several of them")
        self.conversation, self.utterances, self.session, self.tenant = conversation, utterances, session, tenant
        self._request_id, self._at = str(uuid4()), datetime.now(UTC)

    @property
    def key(self) -> str:
        """The key of the one conversation."""
        assert self.conversation is not None
        return conversation_key(self.tenant, self.conversation)

    @property
    def is_one(self) -> bool:
        """Whether one conversation is named."""
        return self.conversation is not None

    @property
    def question(self) -> str | None:
        """The question before whole conversations go; `None` where only a part of one does."""
        if self.conversation is None:
            return f"Erase all conversations of tenant {self.tenant!r} for good?"
        if self.utterances or self.session is not None:
            return None
        return f"Erase the whole conversation {self.conversation!r} of tenant {self.tenant!r} for good?"

    def check_part(self) -> None:
        """Raise `Refused` where the words name no part of the conversation."""
        if not self.utterances and self.session is None:
            raise Refused("name what to unsay: --utterance ID, or --session; `eunoe erase` takes whole conversations")

    async def requests(self, eraser: Eraser) -> list[ErasureRequest]:
        """One request for each conversation."""
        if self.conversation is not None:
            return [self._request(self.key, None)]
        keys = await eraser.conversations(self.prefix)
        return [self._request(key, ErasureLevel.TENANT) for key in keys]

    @property
    def prefix(self) -> str:
        """The beginning of the keys of all conversations of the tenant."""
        return conversation_key(self.tenant, "x").removesuffix("x")

    def none_there(self) -> Refused:
        """The refusal where the tenant has no conversation."""
        return Refused(f"tenant {self.tenant!r} has no conversation")

    def _request(self, key: str, level: ErasureLevel | None) -> ErasureRequest:
        return ErasureRequest(
            request_id=self._request_id,
            key=key,
            at=self._at,
            utterance_ids=tuple(dict.fromkeys(self.utterances)),
            session=self.session,
            level=level,
        )


@asynccontextmanager
async def opened_eraser(*, quiet: bool, erases: bool = False, patient: bool = False) -> AsyncIterator[Eraser]:
    """An eraser of the live deployment, which shows its progress unless ``quiet``.

    One that ``erases`` waits until no other process does. A ``patient`` one waits for intake until another process has
    taken over from one that died.
    """
    settings = await live_settings(connected_settings())
    async with open_erasures(settings) as ledger, AsyncExitStack() as closing:
        if erases:
            keep_for_good()
            await closing.enter_async_context(alone(ledger))
        with ProgressBars(quiet=quiet, transient=True) as bars:
            eraser = Eraser(settings, ledger, bars, PATIENT_S if patient else HANDLED_S)
            yield await closing.enter_async_context(eraser.kept())


def print_plans(planned: Sequence[Erasure], *, as_json: bool) -> None:
    """Print what erasures would remove, by place."""
    if as_json:
        print_json([_shown(one) for one in planned])
    for one in () if as_json else planned:
        _print_plan(one)


def _shown(erasure: Erasure) -> dict[str, Any]:
    return {
        "key": erasure.key,
        "level": erasure.level.value,
        "utterances": len(erasure.refused),
        "places": {one.place: one.count for one in erasure.before},
    }


def _print_plan(erasure: Erasure) -> None:
    told = f"{erasure.key}: {erasure.level.value}, {counted(len(erasure.refused), 'utterance')}"
    console.print(told, highlight=False, markup=False)
    for one in erasure.before:
        console.print(f"  {one.count:>6} {one.place}", highlight=False, markup=False)


@contextmanager
def keeping_receipts(outcome: WorkedOff) -> Iterator[None]:
    """Let a fault of the block wait in the outcome where there are receipts: they are printed before it is told."""
    try:
        yield
    except (Refused, Unavailable) as fault:
        if not outcome.receipts:
            raise
        outcome.waiting = fault


def print_outcome(found: WorkedOff, *, as_json: bool) -> None:
    """Print the receipts of what was erased; raises the fault for which the rest waits."""
    if found.receipts or found.waiting is None:
        _print_receipts(found.receipts, as_json=as_json)
    if found.waiting is not None:
        raise to_be_finished(found.waiting) if isinstance(found.waiting, StillWritten) else found.waiting


def to_be_finished(fault: StillWritten) -> Unavailable:
    """The fault of an erasure that has begun, with the command that finishes it; one that has not is told as it is."""
    if isinstance(fault, Unhandled):
        return fault
    return Unavailable(f"{fault}: `eunoe erase replay` finishes what has begun there", fault.server)


async def left_of(wanted: ErasureWords, ledger: ErasureLedger) -> str:
    """The number of the tenant's conversations in which an erasure waits, as text; empty for none."""
    keys = {key for key, _ in await waiting_erasures(ledger) if key.startswith(wanted.prefix)}
    return counted(len(keys), "conversation") if keys else ""


async def to_be_continued(
    fault: Refused | Unavailable, wanted: ErasureWords, ledger: ErasureLedger
) -> Refused | Unavailable:
    """A fault for which conversations of a tenant wait, with their number and the command that goes on."""
    left = "the rest"
    with suppress(Unavailable):
        left = await left_of(wanted, ledger) or left
    told = f"{fault}; {left} of tenant {wanted.tenant!r} to be erased yet: `eunoe erase replay` goes on"
    return Unavailable(told, fault.server) if isinstance(fault, Unavailable) else Refused(told)


def _print_receipts(receipts: Sequence[Receipt], *, as_json: bool) -> None:
    """Print receipts as JSON; a single one stands alone, unless scripts read it."""
    documents = [receipt.model_dump(mode="json") for receipt in receipts]
    if as_json or len(documents) != 1:
        print_json(documents)
    else:
        print_json(documents[0])
