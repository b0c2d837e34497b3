"""`eunoe repair`."""

import asyncio
from dataclasses import asdict
from typing import Annotated

import typer

from eunoe.deploy.cli.output import Json, console, errors, print_json
from eunoe.deploy.cli.progress import ProgressBars
from eunoe.deploy.clients.bootstrap import open_clients
from eunoe.deploy.clients.connect import connected_settings
from eunoe.deploy.clients.erasures import read_erased
from eunoe.deploy.clients.live_settings import live_settings
from eunoe.deploy.clients.shared import open_redis, store_keys
from eunoe.deploy.exits import Exit
from eunoe.deploy.generations.erase.loop import no_erasure
from eunoe.deploy.generations.handled_log import HandledLog
from eunoe.deploy.generations.repair import Repaired, Repairer
from eunoe.deploy.inspect.counted import counted
from eunoe.schemas.errors import Refused
from eunoe.schemas.events import DEFAULT_TENANT
from eunoe.schemas.identity import conversation_key
from eunoe.streams.admin import check_partitions
from eunoe.workers.stores.state.transplants import RedisTransplants


def repair(
    conversation: Annotated[str | None, typer.Argument(help="The conversation's id.")] = None,
    tenant: Annotated[str, typer.Option(help="Tenant of the conversation.")] = DEFAULT_TENANT,
    all_held: Annotated[
        bool, typer.Option("--all-held", help="Repair every conversation with held dead letters.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Derive a conversation again from the log and replace its stored state, while workers run.

    Use it for a conversation that is held because Redis lost acknowledged writes, or whose vector index disagrees with
    the state store. Recorded model answers are used again. It needs the settings of the workers: with others it derives
    another memory.

    Exit codes:

    - 0: repaired
    - 1: sessions failed again and are missing from the memory
    - 2: the log holds nothing of the conversation
    - 69: a server did not answer
    """
    if (conversation is None) != all_held:
        raise Refused("give one conversation or --all-held")
    key = None if conversation is None else conversation_key(tenant, conversation)
    done = asyncio.run(_repair(key, quiet=as_json))
    if as_json:
        print_json([asdict(each) for each in done])
    else:
        for each in done:
            console.print(_line(each), highlight=False, markup=False)
        if not done:
            console.print("no conversation is held")
    for each in done:
        if each.lacks_sessions:
            errors.print(_doubt(each), style="yellow", highlight=False, markup=False, soft_wrap=True)
    if any(each.skipped for each in done):
        raise typer.Exit(Exit.FAILED)


async def _repair(key: str | None, *, quiet: bool) -> list[Repaired]:
    settings = await live_settings(connected_settings())
    partitions = await check_partitions(settings.kafka_settings, settings.names)
    async with open_clients(settings) as clients, open_redis(settings) as redis:
        transplants = RedisTransplants(clients.store, redis, store_keys(settings))
        log = HandledLog(settings, clients, partitions)
        repairer = Repairer(settings, clients, transplants, log, lambda: read_erased(settings))
        found = []
        for each in await log.held() if key is None else [key]:
            async with no_erasure(settings):  # it would not know of the points that are written after the swap
                with ProgressBars(quiet=quiet, transient=True) as bars:
                    found.append(await repairer.repair(each, bars))
        return found


def _doubt(done: Repaired) -> str:
    return (
        f"{done.key}: {counted(done.sessions_before, 'session')} before, {done.sessions} now: are the settings here"
        " those of the workers? With another EUNOE_INTAKE__IDLE_SECONDS sessions end elsewhere. Repair it with theirs"
    )


def _line(done: Repaired) -> str:
    parts = [
        f"{done.key}: {counted(done.records, 'record')}, {counted(done.sessions, 'session')},"
        f" {counted(done.memories, 'memory')}",
        f"{counted(done.points, 'point')} written, {done.removed} removed",
        f"{counted(done.calls, 'model call')}",
    ]
    parts += [f"{counted(done.letters, 'held dead letter')} resolved"] if done.letters else []
    parts += [f"{counted(done.asked, 'ask')} forwarded"] if done.asked else []
    parts += [f"{counted(done.skipped, 'session')} FAILED, missing now"] if done.skipped else []
    return "; ".join(parts)
