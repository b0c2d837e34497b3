"""`eunoe erase`."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final
from uuid import uuid4

import typer
from typer.core import TyperGroup

from eunoe.deploy.cli.output import Json, console, note, print_json, set_log_level
from eunoe.deploy.cli.progress import ProgressBars
from eunoe.deploy.clients.connect import connected_settings
from eunoe.deploy.clients.erasures import open_erasures
from eunoe.deploy.clients.live_settings import live_settings
from eunoe.deploy.exits import Exit
from eunoe.deploy.generations.erase.loop import WorkedOff, alone, work_off
from eunoe.deploy.generations.erase.receipt import Receipt
from eunoe.deploy.generations.erase.run import Eraser, NotNow
from eunoe.deploy.generations.erase.serve import serve_erasures
from eunoe.deploy.generations.erase.verify import Checked, verify_receipt
from eunoe.deploy.generations.repair import StillWritten, Unhandled
from eunoe.deploy.inspect.counted import counted
from eunoe.schemas.erasure import Erasure, ErasureLevel, ErasureRequest
from eunoe.schemas.errors import ErasedAlready, Refused, RequestRefused, Unavailable
from eunoe.schemas.events import DEFAULT_TENANT
from eunoe.schemas.identity import conversation_key

RUN: Final = "run"
REFUSED: Final = "refused"
"""Names the reason in the JSON of a request that cannot be carried out."""


class DefaultGroup(TyperGroup):
    """A group whose first word may be that of a conversation: then it is `run`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - as its parent
        """Put `run` before arguments that name no command."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [RUN, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=DefaultGroup,
    no_args_is_help=True,
    help="Erase utterances, a session, a conversation or all of a tenant's: as if they had never been said.\n\n"
    "`eunoe erase CONVERSATION` is short for `eunoe erase run CONVERSATION`.",
)

Conversation = Annotated[str | None, typer.Argument(help="The conversation's id.")]
Utterances = Annotated[
    list[str] | None, typer.Option("--utterance", help="Erase only this utterance; repeat for several.")
]
Session = Annotated[
    str | None, typer.Option(help="Erase only a session: a client's id of it, or the number of a closed one.")
]
Tenant = Annotated[str, typer.Option(help="Tenant of the conversation.")]
Everything = Annotated[bool, typer.Option("--all-conversations", help="Erase all conversations of the tenant.")]


@app.command()
def plan(
    conversation: Conversation = None,
    utterance: Utterances = None,
    session: Session = None,
    tenant: Tenant = DEFAULT_TENANT,
    all_conversations: Everything = False,
    as_json: Json = False,
) -> None:
    """Show what an erasure would remove, by place; change nothing.

    With --json, a request that cannot be carried out is told on standard output, too: {"refused": "the reason"}.

    Exit codes:

    - 0: shown
    - 2: something of it is unknown or erased already, or a generation is being made; or a server refuses the settings
    - 69: a server did not answer
    """
    wanted = ErasureWords(conversation, utterance or (), session, tenant, all_conversations)
    try:
        found = asyncio.run(_plan(wanted))
    except (RequestRefused, NotNow) as fault:
        if as_json:
            print_json({REFUSED: str(fault)})
        raise
    print_plans(found, as_json=as_json)


@app.command(RUN)
def run(
    conversation: Conversation = None,
    utterance: Utterances = None,
    session: Session = None,
    tenant: Tenant = DEFAULT_TENANT,
    all_conversations: Everything = False,
    wait: Annotated[
        bool, typer.Option(help="Carry it out now and print the receipt; else only record it for `erase replay`.")
    ] = True,
    yes: Annotated[bool, typer.Option("--yes", help="Skip the confirmation.")] = False,
    as_json: Json = False,
) -> None:
    """Erase, derive the rest again, and print the receipt as JSON, while workers run.

    Nothing brings back what was erased: at a terminal, whole conversations go after a question only. An erasure that is
    interrupted is finished by `eunoe erase replay`. Recorded model answers are used again; changed prompts are asked.

    Exit codes:

    - 0: erased
    - 1: not confirmed; nothing was erased
    - 2: something of it is unknown or erased already, or a generation is being made; nothing was erased
    - 69: a server did not answer, or a conversation was written to all the time; what had begun is finished by
      `eunoe erase replay`
    """
    wanted = ErasureWords(conversation, utterance or (), session, tenant, all_conversations)
    if (question := wanted.question) is not None and not yes and sys.stdin.isatty():
        typer.confirm(question, abort=True, err=True)
    print_outcome(asyncio.run(_run(wanted, wait=wait, quiet=as_json)), as_json=as_json)


@app.command()
def serve(
    once: Annotated[bool, typer.Option("--once", help="End when nothing is left to do.")] = False,
    poll: Annotated[float, typer.Option(min=0.1, help="Seconds between looks at the ledger.")] = 2.0,
    log_level: Annotated[str, typer.Option(help="Log level: debug, info, warning or error.")] = "info",
) -> None:
    """Carry out the erasures that are requested, and the tenants' retention, until SIGTERM or Ctrl-C.

    Run one beside the workers: of several, one works at a time. `eunoe up` starts one itself where there is
    work. Killed, the next one goes on.

    Exit codes:

    - 0: stopped, or nothing is left to do
    - 2: no ledger of erasures is set; with --once, a generation is being made, or a server refuses the settings
    - 69: with --once, a server did not answer
    """
    set_log_level(log_level)
    asyncio.run(serve_erasures(connected_settings(), once=once, poll_s=poll))


@app.command()
def replay(as_json: Json = False) -> None:
    """Carry out requested erasures, finish interrupted ones, and repeat those that a restored store has not seen.

    Exit codes:

    - 0: nothing is left to do
    - 1: a request cannot be carried out; it is refused for good
    - 2: a generation is being made, or a server refuses the settings: the requests are kept
    - 69: a server did not answer
    """
    found = asyncio.run(_replay(quiet=as_json))
    for one in found.refused:
        note(f"request {one.request_id}: {one.reason}")
    print_outcome(found, as_json=as_json)
    if found.refused:
        raise typer.Exit(Exit.FAILED)


@app.command()
def verify(
    receipt: Annotated[Path, typer.Argument(help="A file with a receipt; - for standard input.")],
    as_json: Json = False,
) -> None:
    """Check a receipt: its signature, and that the servers still hold nothing of what it says is erased.

    Exit codes:

    - 0: it holds
    - 1: something of it was found again
    - 2: not a receipt of this deployment
    - 69: a server did not answer
    """
    text = sys.stdin.buffer.read() if str(receipt) == "-" else receipt.read_bytes()
    checked = asyncio.run(_verify(text))
    if as_json:
        print_json(checked.model_dump(mode="json"))
    else:
        for line in checked.lines:
            console.print(line, highlight=False, markup=False)
    if not checked.holds:
        raise typer.Exit(Exit.FAILED)


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
        keys = await eraser.conversations(conversation_key(self.tenant, "x").removesuffix("x"))
        if not keys:
            raise Refused(f"tenant {self.tenant!r} has no conversation")
        return [self._request(key, ErasureLevel.TENANT) for key in keys]

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
async def opened_eraser(*, quiet: bool, erases: bool = False) -> AsyncIterator[Eraser]:
    """An eraser of the live deployment, which shows its progress unless ``quiet``.

    One that ``erases`` waits until no other process does.
    """
    settings = await live_settings(connected_settings())
    async with open_erasures(settings) as ledger, AsyncExitStack() as closing:
        if erases:
            await closing.enter_async_context(alone(ledger))
        with ProgressBars(quiet=quiet, transient=True) as bars:
            yield Eraser(settings, ledger, bars)


async def _plan(wanted: ErasureWords) -> list[Erasure]:
    async with opened_eraser(quiet=True) as eraser:
        return await _passed(wanted, eraser, eraser.plan)


async def _passed(
    wanted: ErasureWords,
    eraser: Eraser,
    step: Callable[[ErasureRequest], Awaitable[Erasure]],
    outcome: WorkedOff | None = None,
) -> list[Erasure]:
    """The entries that a step makes; of a tenant, conversations of which nothing is left to erase are passed over.

    One of which intake has not handled all is told in the ``outcome``, where there is one.
    """
    found = []
    for request in await wanted.requests(eraser):
        try:
            found.append(await step(request))
        except ErasedAlready:
            if wanted.conversation is not None:
                raise
        except Unhandled as fault:
            if outcome is None:
                raise
            outcome.waiting = outcome.waiting or fault
    return found


async def _run(wanted: ErasureWords, *, wait: bool, quiet: bool) -> WorkedOff:
    outcome = WorkedOff()
    async with opened_eraser(quiet=quiet, erases=True) as eraser:
        begun = await _passed(wanted, eraser, eraser.begin, outcome)
        if not wait:
            count = counted(len(begun), "conversation")
            note(f"recorded for {count}; `eunoe erase replay` carries it out", quiet=quiet)
            return outcome
        for erasure in begun:
            await outcome.carry_out(eraser, erasure)
        return outcome


async def _replay(*, quiet: bool) -> WorkedOff:
    async with opened_eraser(quiet=quiet, erases=True) as eraser:
        return await work_off(eraser)


async def _verify(text: bytes) -> Checked:
    async with opened_eraser(quiet=True) as eraser:
        return await verify_receipt(eraser, text)


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


def _print_receipts(receipts: Sequence[Receipt], *, as_json: bool) -> None:
    """Print receipts as JSON; a single one stands alone, unless scripts read it."""
    documents = [receipt.model_dump(mode="json") for receipt in receipts]
    if as_json or len(documents) != 1:
        print_json(documents)
    else:
        print_json(documents[0])
