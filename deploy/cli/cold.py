"""`eunoe cold`."""

import asyncio
from dataclasses import asdict
from typing import Annotated, Final

import typer

from eunoe.deploy.cli.output import Json, console, print_json
from eunoe.deploy.clients.connect import connected_settings
from eunoe.deploy.clients.live_settings import live_settings
from eunoe.deploy.generations.cold import NO_STORE, ColdStatus, adopt, cold_status, freeze_now, thaw_now
from eunoe.deploy.inspect.counted import counted
from eunoe.deploy.settings import Settings
from eunoe.schemas.events import DEFAULT_TENANT
from eunoe.schemas.identity import conversation_key
from eunoe.streams.reader import partitions_of
from eunoe.streams.topics import Topic

app = typer.Typer(
    no_args_is_help=True,
    help="Show how many conversations are in the cold store; move one there, or back; go on with another store.",
)

SHOWN: Final = 20
"""Lost conversations that are named one by one; the JSON has all."""

Conversation = Annotated[str, typer.Argument(help="The conversation.")]
Tenant = Annotated[str, typer.Option(help="Its tenant.")]


@app.command()
def status(as_json: Json = False) -> None:
    """Count the conversations in Redis and in the cold store.

    Idle ones go there by themselves (EUNOE_COLD__AFTER_DAYS), and come back with their next event.
    """
    found = asyncio.run(_status())
    if as_json:
        print_json(asdict(found))
        return
    for line in _lines(found):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


@app.command()
def freeze(conversation: Conversation, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False) -> None:
    """Move a conversation to the cold store now, idle or not.

    Exit codes:

    - 0: it is there
    - 2: unknown, not at rest, or no cold store is set
    - 69: a server did not answer
    """
    done = asyncio.run(_freeze(conversation_key(tenant, conversation)))
    if as_json:
        print_json({"key": conversation_key(tenant, conversation), "cold": True, "moved": done})
    else:
        typer.echo(f"{conversation}: in the cold store{'' if done else ' already'}")


@app.command()
def thaw(conversation: Conversation, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False) -> None:
    """Move a conversation back to Redis now.

    Exit codes:

    - 0: it is there
    - 2: unknown
    - 69: a server did not answer, or the snapshot is lost
    """
    done = asyncio.run(_thaw(conversation_key(tenant, conversation)))
    if as_json:
        print_json({"key": conversation_key(tenant, conversation), "cold": False, "moved": done})
    else:
        typer.echo(f"{conversation}: in Redis{'' if done else ' already'}")


@app.command(name="adopt")
def take_over(as_json: Json = False) -> None:
    """Go on with the cold store of the settings, where the one that conversations went to is lost for good.

    The generation is the live one, or that of EUNOE_GENERATION: each has conversations of its own there. Not needed
    after all its files were copied. Conversations whose snapshots it lacks are held at their next event;
    `eunoe repair` derives them again from the log.

    Exit codes:

    - 0: done
    - 2: no cold store is set
    - 69: a server did not answer
    """
    settings = asyncio.run(_adopt())
    generation, store = settings.names.generation, settings.cold.store
    if as_json:
        print_json({"generation": generation, "store": store})
    else:
        typer.echo(f"{generation}: idle conversations go to {store} from now on")


async def _status() -> ColdStatus:
    return await cold_status(await live_settings(connected_settings()))


async def _freeze(key: str) -> bool:
    settings = await live_settings(connected_settings())
    (partitions,) = await partitions_of(settings.kafka_settings, settings.names, [Topic.CONVERSATIONS])
    return await freeze_now(settings, key, partitions)


async def _thaw(key: str) -> bool:
    return await thaw_now(await live_settings(connected_settings()), key)


async def _adopt() -> Settings:
    settings = await live_settings(connected_settings())
    await adopt(settings)
    return settings


def _lines(found: ColdStatus) -> list[str]:
    hot = found.conversations - found.cold
    known = counted(found.conversations, "conversation")
    lines = [f"{found.generation}: {known}, {hot} in Redis, {found.cold} in the cold store"]
    if found.cold:
        each = found.snapshot_bytes / found.cold
        lines.append(f"snapshots: {found.snapshot_bytes / 1e6:.1f} MB, {each / 1000:.1f} kB each")
    if found.lost:
        lines += [f"lost: {counted(found.lost, 'snapshot')}, of conversations that these commands derive again:"]
        lines += [f"  {command}" for command in found.repairs[:SHOWN]]
        lines += [f"  {found.lost - SHOWN} more in --json"] if found.lost > SHOWN else []
    lines.append(NO_STORE if found.store is None else f"cold store: {found.store}")
    return lines
