"""`eunoe erase`."""

import asyncio
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from eunoe.deploy.cli.erasing import (
    ErasureWords,
    keeping_receipts,
    left_of,
    opened_eraser,
    print_outcome,
    print_plans,
    to_be_continued,
)
from eunoe.deploy.cli.output import Json, console, note, print_json, set_log_level
from eunoe.deploy.clients.connect import connected_settings
from eunoe.deploy.event_loop import share_one_heap, use_fast_loops
from eunoe.deploy.exits import Exit
from eunoe.deploy.generations.erase.batch import MAX_FAILED, TOGETHER, WorkedOff, in_batches
from eunoe.deploy.generations.erase.loop import begun_before, work_off
from eunoe.deploy.generations.erase.run import Eraser
from eunoe.deploy.generations.erase.serve import serve_erasures
from eunoe.deploy.generations.erase.sites import NotNow
from eunoe.deploy.generations.erase.verify import Checked, verify_receipt
from eunoe.deploy.generations.handled_log import StillWritten
from eunoe.deploy.inspect.counted import counted
from eunoe.schemas.erasure import Erasure, ErasureLevel, ErasureRequest
from eunoe.schemas.errors import ErasedAlready, Refused, RequestRefused, Unavailable
from eunoe.schemas.events import DEFAULT_TENANT

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
        found, faults = asyncio.run(_plan(wanted))
    except (RequestRefused, NotNow) as fault:
        if as_json:
            print_json({REFUSED: str(fault)})
        raise
    if found or not faults:
        print_plans(found, as_json=as_json)
    if faults:
        left = counted(len(faults), "conversation")
        raise faults[0] if wanted.is_one else Unavailable(f"{faults[0]}; {left} not shown", faults[0].server)


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
    interrupted is finished by `eunoe erase replay`. All conversations of a tenant are asked for before the first one
    goes; one that meets a fault keeps no other waiting. Recorded model answers are used again; changed prompts are
    asked.

    Exit codes:

    - 0: erased
    - 1: not confirmed, and nothing was erased; or a conversation of the tenant cannot be erased, and the others are
    - 2: something of it is unknown or erased already, or a generation is being made; nothing was erased
    - 69: a server did not answer, or a conversation was written to all the time; what had begun, or is asked for, is
      finished by `eunoe erase replay`
    """
    wanted = ErasureWords(conversation, utterance or (), session, tenant, all_conversations)
    if (question := wanted.question) is not None and not yes and sys.stdin.isatty():
        typer.confirm(question, abort=True, err=True)
    found = asyncio.run((_run if wanted.is_one else _run_tenant)(wanted, wait=wait, quiet=as_json))
    _tell(found, as_json=as_json)


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
    share_one_heap()
    use_fast_loops()
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
    _tell(asyncio.run(_replay(quiet=as_json)), as_json=as_json)


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


def _tell(found: WorkedOff, *, as_json: bool) -> None:
    for one in found.refused:
        note(f"request {one.request_id}: {one.reason}")
    print_outcome(found, as_json=as_json)
    if found.refused:
        raise typer.Exit(Exit.FAILED)


async def _plan(wanted: ErasureWords) -> tuple[list[Erasure], list[Unavailable]]:
    """The entries that the erasure would make, and the faults of conversations that give none.

    A fault of one conversation keeps no other of the tenant back; a server that went away does.
    """
    async with opened_eraser(quiet=True, patient=wanted.is_one) as eraser:
        found, faults, requests = list[Erasure](), list[Unavailable](), await wanted.requests(eraser)
        if not requests:
            raise wanted.none_there()
        eraser.expect(one.key for one in requests)
        for at in range(0, len(requests), TOGETHER):
            plans = await asyncio.gather(*(_planned(eraser, one) for one in requests[at : at + TOGETHER]))
            found += [one for one in plans if isinstance(one, Erasure)]
            faults += [one for one in plans if isinstance(one, Unavailable)]
            if sum(not isinstance(one, StillWritten) for one in faults) >= MAX_FAILED:
                break
        return found, faults


async def _planned(eraser: Eraser, request: ErasureRequest) -> Erasure | Unavailable | None:
    """The entry that a request would make; `None` where nothing is left to erase in a conversation of a tenant."""
    try:
        async with eraser.turn(request.key):
            return await eraser.plan(request)
    except Unavailable as fault:
        return fault
    except ErasedAlready:
        if request.level is not ErasureLevel.TENANT:
            raise
        return None


async def _run(wanted: ErasureWords, *, wait: bool, quiet: bool) -> WorkedOff:
    outcome = WorkedOff()
    async with opened_eraser(quiet=quiet, erases=True, patient=wanted.is_one) as eraser:
        (begun,) = [await eraser.begin(one) for one in await wanted.requests(eraser)]
        if not wait:
            note("recorded for 1 conversation; `eunoe erase replay` carries it out", quiet=quiet)
            return outcome
        with keeping_receipts(outcome):
            async with in_batches(eraser, outcome) as batches:
                await batches.carry_out([(begun.key, partial(begun_before, [begun]))])
        return outcome


async def _run_tenant(wanted: ErasureWords, *, wait: bool, quiet: bool) -> WorkedOff:
    """Ask for all conversations in the ledger, at once and for good, then carry out what waits in the tenant."""
    outcome = WorkedOff()
    async with opened_eraser(quiet=quiet, erases=True) as eraser:
        await eraser.check_generations()
        await eraser.ledger.request(*await wanted.requests(eraser))
        if not (asked := await left_of(wanted, eraser.ledger)):
            raise wanted.none_there()
        note(f"asked to erase {asked}; what an interruption leaves is finished by `eunoe erase replay`", quiet=quiet)
        try:
            if wait:
                await work_off(eraser, outcome, wanted.prefix)
        except (Refused, Unavailable) as fault:
            outcome.waiting = fault
        if outcome.waiting is not None:
            outcome.waiting = await to_be_continued(outcome.waiting, wanted, eraser.ledger)
        return outcome


async def _replay(*, quiet: bool) -> WorkedOff:
    outcome = WorkedOff()
    async with opened_eraser(quiet=quiet, erases=True) as eraser:
        with keeping_receipts(outcome):
            await work_off(eraser, outcome)
        return outcome


async def _verify(text: bytes) -> Checked:
    async with opened_eraser(quiet=True) as eraser:
        return await verify_receipt(eraser, text)
