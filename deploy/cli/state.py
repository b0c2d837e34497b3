"""`eunoe state`."""

import asyncio
from typing import Annotated, Any

import typer
from rich.table import Table

from eunoe.deploy.cli.output import Json, console, errors, print_json
from eunoe.deploy.clients.bootstrap import open_qdrant
from eunoe.deploy.clients.connect import connected_settings
from eunoe.deploy.clients.live_settings import live_settings
from eunoe.deploy.clients.shared import open_store, store_keys
from eunoe.deploy.exits import Exit
from eunoe.deploy.inspect.state import ConversationState, all_conversations, read_states
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Refused
from eunoe.schemas.events import DEFAULT_TENANT
from eunoe.schemas.identity import conversation_key
from eunoe.workers.derive.digest import hash_of_all
from eunoe.workers.stores.qdrant import QdrantIndex

SHOWN = 20
"""Disagreements that are told one by one; the JSON has all."""
ADVICE = (
    "The state store is right, the index is not: `eunoe repair CONVERSATION` derives the conversation again, "
    "and a rebuild into a new generation makes the whole index anew."
)


def state(
    conversation: Annotated[str | None, typer.Argument(help="The conversation's id.")] = None,
    tenant: Annotated[str, typer.Option(help="Whose conversation it is.")] = DEFAULT_TENANT,
    all_: Annotated[bool, typer.Option("--all", help="All conversations of all tenants.")] = False,
    digest: Annotated[
        bool, typer.Option("--digest", help="Print only hashes: one line each, and one for all.")
    ] = False,
    dump: Annotated[bool, typer.Option("--dump", help="Print what is hashed: a line of JSON each.")] = False,
    log_times: Annotated[
        bool, typer.Option("--log-times", help="Hash the log's times too: one log, read twice.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Say what was derived from a conversation, as counts and one SHA-256, and check the index against it.

    Two runs over the same events give the same hash, whatever happened on the way. Wait until the stages are done
    first: what is under way is told. Exit codes: 0 all agrees, 1 the index disagrees with the state store (what and
    where is told), 2 nothing is known of the conversation, 69 a server did not answer.
    """
    if (conversation is None) != all_:
        raise Refused("name one conversation, or ask for --all")
    wanted = None if conversation is None else conversation_key(tenant, conversation)
    states = asyncio.run(_read(connected_settings(), wanted, log_times=log_times))
    if as_json:
        print_json(_document(states, dump=dump))
    elif dump:
        for each in states:
            print_json({"key": each.digest.key, "sha256": each.digest.sha256, "state": each.digest.state})
    elif digest:
        _print_hashes(states, whole=all_)
    else:
        console.print(_table(states))
    if not _tell(states):
        raise typer.Exit(Exit.FAILED)


async def _read(settings: Settings, wanted: str | None, *, log_times: bool) -> list[ConversationState]:
    settings = await live_settings(settings)
    async with open_store(settings) as store, open_qdrant(settings) as client:
        known = await store.conversations() if wanted is None else [wanted]
        index = QdrantIndex(client, store_keys(settings))
        states = await read_states(store, index, known, log_times=log_times)
    if wanted is not None and not states:
        raise Refused(f"nothing is known of conversation {wanted!r}")
    return states


def _print_hashes(states: list[ConversationState], *, whole: bool) -> None:
    for each in states:
        typer.echo(f"{each.digest.sha256}  {each.digest.key}")
    if whole:
        typer.echo(f"{hash_of_all(each.digest for each in states)}  {all_conversations(len(states))}")


def _table(states: list[ConversationState]) -> Table:
    table = Table()
    for name in ("conversation", "sessions", "segments", "memories", "edges", "nodes", "index", "SHA-256"):
        table.add_column(name, no_wrap=name in ("conversation", "SHA-256"))
    for each in states:
        counts = each.digest.counts
        told = (counts.get(name, 0) for name in ("compress/segments", "update/memories", "link/edges", "tree/nodes"))
        points = "agree" if not each.findings else f"{len(each.findings)} disagree"
        applied = str(each.digest.state.get("update", {}).get("applied", 0))
        table.add_row(each.digest.key, applied, *map(str, told), points, each.digest.sha256[:12])
    table.caption = f"{all_conversations(len(states))}: {hash_of_all(each.digest for each in states)}"
    return table


def _document(states: list[ConversationState], *, dump: bool) -> dict[str, Any]:
    return {
        "sha256": hash_of_all(each.digest for each in states),
        "agrees": not any(each.findings for each in states),
        "conversations": [_conversation(each, dump=dump) for each in states],
    }


def _conversation(each: ConversationState, *, dump: bool) -> dict[str, Any]:
    return {
        "key": each.digest.key,
        "sha256": each.digest.sha256,
        "counts": each.digest.counts,
        "disagreements": [
            {"collection": found.collection, "id": found.id, "kind": found.kind, "detail": found.detail}
            for found in each.findings
        ],
        "unfinished": [{"stage": part.stage, "why": part.why} for part in each.unfinished],
        **({"state": each.digest.state} if dump else {}),
    }


def _tell(states: list[ConversationState]) -> bool:
    """What is under way, and what disagrees, on standard error; True: nothing disagrees."""
    for each in states:
        for part in each.unfinished:
            errors.print(f"not done yet: {each.digest.key}: {part.stage}: {part.why}", markup=False, soft_wrap=True)
    found = [(each.digest.key, finding) for each in states for finding in each.findings]
    for key, finding in found[:SHOWN]:
        line = f"{finding.kind}: {key}: {finding.collection} {finding.id}: {finding.detail}"
        errors.print(line, style="red", markup=False, highlight=False, soft_wrap=True)
    if found:
        more = f" ({len(found) - SHOWN} more in --json)" if len(found) > SHOWN else ""
        errors.print(f"{len(found)} points disagree with the state store{more}. {ADVICE}", highlight=False)
    return not found
