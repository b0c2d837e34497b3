"""`eunoe state`."""

import asyncio
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any, Final

import typer
from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from eunoe.deploy.cli.output import Json, console, errors, print_json
from eunoe.deploy.clients.bootstrap import open_qdrant
from eunoe.deploy.clients.connect import connected_settings
from eunoe.deploy.clients.live_settings import live_settings
from eunoe.deploy.clients.shared import open_store, store_keys
from eunoe.deploy.exits import Exit
from eunoe.deploy.inspect.counted import counted
from eunoe.deploy.inspect.decisions import DecisionShare, decision_shares, joined
from eunoe.deploy.inspect.state import ConversationState, all_conversations, counts_of, is_known, read_states
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Refused, SnapshotLost
from eunoe.schemas.events import DEFAULT_TENANT
from eunoe.schemas.identity import conversation_key, split_key
from eunoe.workers.derive.digest import hash_of_all
from eunoe.workers.stores.qdrant import QdrantIndex

SHOWN = 20
"""Disagreements that are printed one by one; the JSON has all."""
HASH_DIGITS: Final = 12
"""Digits of a hash beside counts; --digest prints it whole."""
INDENT: Final = 2
COUNTED: Final = {
    "segments": "compress/segments",
    "memories": "update/memories",
    "edges": "link/edges",
    "nodes": "tree/nodes",
}
"""Names of counts beside the sessions that became memory → their tables."""
ADVICE = (
    "The state store is the truth: `eunoe repair CONVERSATION` mends the index of a conversation, "
    "`eunoe rebuild` builds the whole index again in a new generation."
)

ASKED_ONLY = ": it was only asked about, and nothing was said in it"

LOST_BY: Final = (
    "Redis has lost keys, as by eviction (`eunoe doctor --only redis` tells of that); where it has lost none, it is a "
    "fault of eunoe."
)

MENDED = "`eunoe repair CONVERSATION` derives it again from the log."


def state(
    conversation: Annotated[str | None, typer.Argument(help="The conversation's id.")] = None,
    tenant: Annotated[str, typer.Option(help="Tenant of the conversation.")] = DEFAULT_TENANT,
    all_: Annotated[bool, typer.Option("--all", help="Include all conversations of all tenants.")] = False,
    digest: Annotated[
        bool,
        typer.Option(
            "--digest", help="Print only hashes, whole: a line for each conversation, with --all one for all."
        ),
    ] = False,
    dump: Annotated[
        bool, typer.Option("--dump", help="Print the hashed state: one line of JSON for each conversation.")
    ] = False,
    log_times: Annotated[
        bool, typer.Option("--log-times", help="Hash log times too; equal only for two reads of the same log.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Print counts and a SHA-256 of the state derived from a conversation; check it and the vector index.

    Two runs over the same events give the same hash, also across crashes and rebalances. Run it when the stages are
    done; unfinished work is reported on standard error. ``offline``: of the items that a model was asked about,
    those that the offline rules decided; --json has them by stage. Every utterance that spoke for a memory must still
    be cited by one that holds, or that has ended for a reason.

    Exit codes:

    - 0: the index agrees with the state store, and no evidence is lost
    - 1: otherwise; each disagreement is reported, with --all each conversation whose snapshot in the cold store is lost
    - 2: unknown conversation, also where it was only asked about
    - 69: a server did not answer, or the snapshot of the one conversation is lost
    """
    if (conversation is None) != all_:
        raise Refused("give one conversation or --all")
    wanted = None if conversation is None else conversation_key(tenant, conversation)
    states, lost = asyncio.run(_read(connected_settings(), wanted, log_times=log_times))
    if as_json:
        print_json({**_document(states, dump=dump), "lost_snapshots": sorted(lost)})
    elif dump:
        for each in states:
            print_json({"key": each.digest.key, "sha256": each.digest.sha256, "state": each.digest.state})
    elif digest:
        _print_hashes(states, whole=all_)
    else:
        _print_counts(states, whole=all_)
    for reason in list(lost.values())[:SHOWN]:
        errors.print(reason, style="red", markup=False, highlight=False, soft_wrap=True)
    if not _report(states) or lost:
        raise typer.Exit(Exit.FAILED)


async def _read(
    settings: Settings, wanted: str | None, *, log_times: bool
) -> tuple[list[ConversationState], dict[str, str]]:
    """The states, and of conversations whose snapshot is lost the reason by key; that of the one wanted is raised."""
    settings = await live_settings(settings)
    states: list[ConversationState] = []
    lost: dict[str, str] = {}
    async with open_store(settings) as store, open_qdrant(settings) as client:
        index = QdrantIndex(client, store_keys(settings))
        for key in await store.conversations() if wanted is None else [wanted]:
            try:
                states += await read_states(store, index, [key], log_times=log_times)
            except SnapshotLost as fault:
                if wanted is not None:
                    raise
                lost[key] = str(fault)
    if wanted is not None and not any(map(is_known, states)):
        tenant, conversation = split_key(wanted)
        raise Refused(f"no conversation {conversation!r} of tenant {tenant!r}{ASKED_ONLY if states else ''}")
    return states, lost


def _print_hashes(states: list[ConversationState], *, whole: bool) -> None:
    for each in states:
        typer.echo(f"{each.digest.sha256}  {each.digest.key}")
    if whole:
        typer.echo(f"{hash_of_all(each.digest for each in states)}  {all_conversations(len(states))}")


def _print_counts(states: list[ConversationState], *, whole: bool) -> None:
    """Print three lines for each conversation: a table of so many columns would be cut on a terminal of 80."""
    for each in states:
        _print_hash(each.digest.key, each.digest.sha256)
        for line in _counts(each):
            console.print(Padding(Text(line), (0, 0, 0, INDENT), expand=False))
    if whole:
        _print_hash(all_conversations(len(states)), hash_of_all(each.digest for each in states))


def _print_hash(name: str, sha256: str) -> None:
    console.print(f"[bold]{escape(name)}[/]  {sha256[:HASH_DIGITS]}", highlight=False, soft_wrap=True)


def _counts(each: ConversationState) -> Iterator[str]:
    counts = counts_of(each.digest)
    applied = each.digest.state.get("update", {}).get("applied", 0)
    yield ", ".join([f"sessions {applied}", *(f"{name} {counts.get(table, 0)}" for name, table in COUNTED.items())])
    index = f"disagrees in {counted(len(each.findings), 'point')}" if each.findings else "agrees"
    yield f"offline {_offline(decision_shares(each.digest.state))}, index {index}"


def _offline(rows: list[DecisionShare]) -> str:
    """``3 of 120``: the items that the offline rules decided in a model's place; a dash where no model was asked."""
    whole = joined(rows)
    return f"{whole.items_offline} of {whole.items}" if whole.items else "–"


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
        "counts": counts_of(each.digest),
        "decisions": [asdict(row) for row in decision_shares(each.digest.state)],
        "disagreements": [
            {"collection": found.collection, "id": found.id, "kind": found.kind, "detail": found.detail}
            for found in each.findings
        ],
        "lost_evidence": list(each.lost_evidence),
        "unfinished": [{"stage": part.stage, "why": part.why} for part in each.unfinished],
        **({"state": each.digest.state} if dump else {}),
    }


def _report(states: list[ConversationState]) -> bool:
    """Print unfinished work and disagreements on standard error; returns whether nothing disagrees or is lost."""
    for each in states:
        for part in each.unfinished:
            errors.print(f"not done yet: {each.digest.key}: {part.stage}: {part.why}", markup=False, soft_wrap=True)
    found = [(each.digest.key, finding) for each in states for finding in each.findings]
    for key, finding in found[:SHOWN]:
        line = f"{finding.kind}: {key}: {finding.collection} {finding.id}: {finding.detail}"
        errors.print(line, style="red", markup=False, highlight=False, soft_wrap=True)
    if found:
        more = f" ({len(found) - SHOWN} more in --json)" if len(found) > SHOWN else ""
        points = counted(len(found), "point")
        errors.print(f"The index disagrees with the state store in {points}{more}. {ADVICE}", highlight=False)
    lost = [f"{each.digest.key}: {fault}" for each in states for fault in each.lost_evidence]
    for fault in lost[:SHOWN]:
        errors.print(f"evidence lost: {fault}", style="red", markup=False, highlight=False, soft_wrap=True)
    if lost:
        errors.print(f"Evidence of {counted(len(lost), 'memory')} is lost. {LOST_BY} {MENDED}", highlight=False)
    return not found and not lost
