"""`eunoe state`."""

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Final

import orjson
import typer
from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from eunoe.deploy.cli.output import NEWER, Json, console, errors, print_json, write_json
from eunoe.deploy.clients.bootstrap import open_qdrant
from eunoe.deploy.clients.connect import connected_settings
from eunoe.deploy.clients.live_settings import live_settings
from eunoe.deploy.clients.shared import open_store, store_keys
from eunoe.deploy.exits import Exit
from eunoe.deploy.inspect.counted import counted
from eunoe.deploy.inspect.decisions import DecisionShare, joined
from eunoe.deploy.inspect.state import CheckedState, all_conversations, check_state
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import NewerVersion, Refused, SnapshotLost, StateDamaged, StateLost
from eunoe.schemas.events import DEFAULT_TENANT
from eunoe.schemas.identity import conversation_key, split_key
from eunoe.schemas.ports import VectorIndex
from eunoe.schemas.versions import waiting_for_newer
from eunoe.workers.derive.digest import hash_of_all
from eunoe.workers.stores.state.memory_store import MemoryStore
from eunoe.workers.stores.state.redis_store import RedisStore
from eunoe.workers.stores.vectors.qdrant import QdrantIndex

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
    - 1: otherwise; each disagreement is reported, with --all each conversation that is damaged, whose snapshot in the
      cold store is lost, or that a newer version of eunoe wrote
    - 2: unknown conversation, also where it was only asked about
    - 69: a server did not answer, or the state of the one conversation is damaged, lost, or of a newer version
    """
    if (conversation is None) != all_:
        raise Refused("give one conversation or --all")
    wanted = None if conversation is None else conversation_key(tenant, conversation)
    prints = dump and not as_json
    shares = as_json or not (dump or digest)
    states, left_out = asyncio.run(
        _read(connected_settings(), Wanted(wanted, log_times, shares=shares, keeps=dump and as_json, prints=prints))
    )
    if as_json:
        _print_document(states, left_out)
    elif digest and not dump:
        _print_hashes(states, whole=all_)
    elif not dump:
        _print_counts(states, whole=all_)
    for fault in list(left_out.values())[:SHOWN]:
        errors.print(str(fault), style="red", markup=False, highlight=False, soft_wrap=True)
    if not _report(states) or left_out:
        raise typer.Exit(Exit.FAILED)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The choice of what is read and reported. All states of a store are larger than the main memory."""

    key: str | None
    """`None` means all conversations."""
    log_times: bool = False
    shares: bool = True
    """Whether the shares of decisions are counted."""
    keeps: bool = False
    """Whether the states are held until the end."""
    prints: bool = False
    """Whether each state is printed as it is read."""


LeftOut = Mapping[str, StateLost | NewerVersion]
"""Conversations that cannot be read → the reason."""


async def _read(settings: Settings, wanted: Wanted) -> tuple[list[CheckedState], LeftOut]:
    """The reports, and what was left out; the reason of the one wanted is raised."""
    settings = await live_settings(settings)
    states: list[CheckedState] = []
    left_out: dict[str, StateLost | NewerVersion] = {}
    async with open_store(settings) as store, open_qdrant(settings) as client:
        index = QdrantIndex(client, store_keys(settings))
        for key in await store.conversations() if wanted.key is None else [wanted.key]:
            try:
                with waiting_for_newer(f"{key}: {NEWER}"):
                    found = await checked(store, index, key, wanted)
            except (StateLost, NewerVersion) as fault:
                if wanted.key is not None:
                    raise
                left_out[key] = fault
            else:
                states += [] if found is None else [found]
    return states, left_out


async def checked(store: RedisStore | MemoryStore, index: VectorIndex, key: str, wanted: Wanted) -> CheckedState | None:
    """The report of one conversation; `None` for an unknown one.

    Raises `Refused` for an unknown one that is the only one wanted, `Unavailable` when a server is down.
    """
    found = await check_state(
        store, index, key, log_times=wanted.log_times, shares=wanted.shares, keeps=wanted.keeps or wanted.prints
    )
    if wanted.key is not None and (found is None or not found.is_known):
        tenant, conversation = split_key(key)
        raise Refused(f"no conversation {conversation!r} of tenant {tenant!r}{ASKED_ONLY if found is not None else ''}")
    if found is not None and wanted.prints:
        _print_state(found)
    return found if found is None or wanted.keeps else replace(found, packed=None)


def _print_state(found: CheckedState) -> None:
    """Print a state as JSON, as it is unpacked; a terminal has it whole, and indented."""
    packed, head = found.packed, {"key": found.key, "sha256": found.sha256}
    assert packed is not None
    if sys.stdout.isatty():
        print_json({**head, "state": packed.whole(found.progress)})
        return
    write_json(_with_state(head, found))


def _with_state(document: Mapping[str, Any], found: CheckedState) -> Iterator[bytes]:
    """The JSON of a document in pieces, with the state of the conversation at its end where that was kept."""
    if found.packed is None:
        yield orjson.dumps(document)
        return
    yield orjson.dumps(document).removesuffix(b"}") + b',"state":'
    yield from found.packed.json(found.progress)
    yield b"}"


def _print_hashes(states: list[CheckedState], *, whole: bool) -> None:
    for each in states:
        typer.echo(f"{each.sha256}  {each.key}")
    if whole:
        typer.echo(f"{hash_of_all(states)}  {all_conversations(len(states))}")


def _print_counts(states: list[CheckedState], *, whole: bool) -> None:
    """Print three lines for each conversation: a table of so many columns would be cut on a terminal of 80."""
    for each in states:
        _print_hash(each.key, each.sha256)
        for line in _counts(each):
            console.print(Padding(Text(line), (0, 0, 0, INDENT), expand=False))
    if whole:
        _print_hash(all_conversations(len(states)), hash_of_all(states))


def _print_hash(name: str, sha256: str) -> None:
    console.print(f"[bold]{escape(name)}[/]  {sha256[:HASH_DIGITS]}", highlight=False, soft_wrap=True)


def _counts(each: CheckedState) -> Iterator[str]:
    counts = [f"{name} {each.counts.get(table, 0)}" for name, table in COUNTED.items()]
    yield ", ".join([f"sessions {each.sessions}", *counts])
    index = f"disagrees in {counted(len(each.findings), 'point')}" if each.findings else "agrees"
    yield f"offline {_offline(each.decisions)}, index {index}"


def _offline(rows: Sequence[DecisionShare]) -> str:
    """``3 of 120``: the items that the offline rules decided in a model's place; a dash where no model was asked."""
    whole = joined(rows)
    return f"{whole.items_offline} of {whole.items}" if whole.items else "–"


def _print_document(states: Sequence[CheckedState], left_out: LeftOut) -> None:
    """Print all as one document of JSON: states as they are unpacked; a terminal has it whole, and indented."""
    head = {"sha256": hash_of_all(states), "agrees": not any(each.findings for each in states)}
    if sys.stdout.isatty():
        shown = [_conversation(each) | _state(each) for each in states]
        print_json({**head, "conversations": shown, **_keys(left_out)})
        return
    write_json(_pieces(head, states, left_out))


def _pieces(head: Mapping[str, Any], states: Sequence[CheckedState], left_out: LeftOut) -> Iterator[bytes]:
    yield orjson.dumps(head).removesuffix(b"}") + b',"conversations":['
    for number, each in enumerate(states):
        yield b"," if number else b""
        yield from _with_state(_conversation(each), each)
    yield b"]," + orjson.dumps(_keys(left_out)).removeprefix(b"{")


def _keys(left_out: LeftOut) -> dict[str, list[str]]:
    """The keys of what was left out, by the reason."""
    kinds = {"lost_snapshots": SnapshotLost, "damaged": StateDamaged, "of_newer_version": NewerVersion}
    return {name: sorted(key for key, fault in left_out.items() if type(fault) is kind) for name, kind in kinds.items()}


def _state(each: CheckedState) -> dict[str, Any]:
    return {} if each.packed is None else {"state": each.packed.whole(each.progress)}


def _conversation(each: CheckedState) -> dict[str, Any]:
    return {
        "key": each.key,
        "sha256": each.sha256,
        "counts": each.counts,
        "decisions": [asdict(row) for row in each.decisions],
        "disagreements": [
            {"collection": found.collection, "id": found.id, "kind": found.kind, "detail": found.detail}
            for found in each.findings
        ],
        "lost_evidence": list(each.lost_evidence),
        "unfinished": [{"stage": part.stage, "why": part.why} for part in each.unfinished],
    }


def _report(states: list[CheckedState]) -> bool:
    """Print unfinished work and disagreements on standard error; returns whether nothing disagrees or is lost."""
    for each in states:
        for part in each.unfinished:
            errors.print(f"not done yet: {each.key}: {part.stage}: {part.why}", markup=False, soft_wrap=True)
    found = [(each.key, finding) for each in states for finding in each.findings]
    for key, finding in found[:SHOWN]:
        line = f"{finding.kind}: {key}: {finding.collection} {finding.id}: {finding.detail}"
        errors.print(line, style="red", markup=False, highlight=False, soft_wrap=True)
    if found:
        more = f" ({len(found) - SHOWN} more in --json)" if len(found) > SHOWN else ""
        points = counted(len(found), "point")
        errors.print(f"The index disagrees with the state store in {points}{more}. {ADVICE}", highlight=False)
    lost = [f"{each.key}: {fault}" for each in states for fault in each.lost_evidence]
    for fault in lost[:SHOWN]:
        errors.print(f"evidence lost: {fault}", style="red", markup=False, highlight=False, soft_wrap=True)
    if lost:
        errors.print(f"Evidence of {counted(len(lost), 'memory')} is lost. {LOST_BY} {MENDED}", highlight=False)
    return not found and not lost
