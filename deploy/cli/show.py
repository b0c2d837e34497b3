"""`eunoe show`."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from graphviz import Digraph
from pydantic import TypeAdapter, ValidationError

from eunoe.deploy.cli.output import Json, console, note, print_json
from eunoe.deploy.cli.show_profile import profile_of, show_profile
from eunoe.deploy.clients.connect import connected_settings
from eunoe.deploy.clients.live_settings import live_settings
from eunoe.deploy.clients.shared import open_store
from eunoe.deploy.inspect.counted import counted
from eunoe.deploy.inspect.drawing import (
    conversation_tree,
    history_tree,
    memories_tree,
    memory_graph,
    render,
    timelines_tree,
    tree_graph,
    write_dot,
)
from eunoe.deploy.inspect.view import (
    ConversationView,
    is_known,
    view_conversation,
    view_graph,
    view_history,
    view_memories,
    view_tree,
)
from eunoe.schemas.base import Time, write_spoken_time, write_time
from eunoe.schemas.errors import Refused
from eunoe.schemas.events import DEFAULT_TENANT
from eunoe.schemas.identity import conversation_key
from eunoe.schemas.ports import StateStore
from eunoe.schemas.profile import PROFILE_TOKENS, PersonProfile
from eunoe.workers.tree.outline import outline
from eunoe.workers.update.reads import HistoryEntry

V = TypeVar("V")
_DRAWN = ("--timelines", "--tree")
_TIME: TypeAdapter[datetime] = TypeAdapter(Time)


def show(
    conversation: Annotated[str, typer.Argument(help="The conversation's id.")],
    tenant: Annotated[str, typer.Option(help="Tenant of the conversation.")] = DEFAULT_TENANT,
    denoised: Annotated[
        bool, typer.Option("--denoised", help="Show segments denoised, as retrieval uses them.")
    ] = False,
    memories: Annotated[bool, typer.Option("--memories", help="Show the current memories by session.")] = False,
    all_: Annotated[bool, typer.Option("--all", help="With --memories: include memories that have ended.")] = False,
    at: Annotated[
        str | None,
        typer.Option(
            help="A day or an RFC 3339 time. With --memories: as known at this log time, when sessions were read. With"
            " --profile: an event time, as in the texts; what was said later or had ended is left out; default: now."
        ),
    ] = None,
    profile: Annotated[
        bool, typer.Option("--profile", help="Show what holds now, by kind, the latest first, packed for a prompt.")
    ] = False,
    person: Annotated[str | None, typer.Option(help="With --profile: of this speaker only.")] = None,
    budget: Annotated[
        int, typer.Option(min=1, max=16_000, help="With --profile: tokens that it may take.")
    ] = PROFILE_TOKENS,
    history: Annotated[
        str | None, typer.Option(help="Show the changes of one memory, given its id or a prefix of it.")
    ] = None,
    timelines: Annotated[bool, typer.Option("--timelines", help="Show the memory graph as timelines.")] = False,
    tree: Annotated[bool, typer.Option("--tree", help="Show the tree of memories, with counts and days.")] = False,
    dot: Annotated[
        Path | None, typer.Option(help="Write the memory graph to this file for Graphviz; with --tree, the tree.")
    ] = None,
    svg: Annotated[
        Path | None,
        typer.Option(help="Draw the memory graph into this SVG file; with --tree, the tree. Needs Graphviz."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write the conversation as a page of its own, which needs no server.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the memory of a conversation: segments, memories, a profile, graph or tree.

    Without an option: the topic segments of each session.
    """
    _check_needed(all_ and not memories, "--all needs --memories")
    _check_needed(person is not None and not profile, "--person needs --profile")
    _check_needed(at is not None and not (memories or profile), "--at needs --memories or --profile")
    views = {"--html": html, "--profile": profile, "--history": history, "--memories": memories, "--tree": tree}
    _check_view({**views, "--timelines": timelines}, denoised=denoised, drawn=bool(dot or svg))
    asked = _Asked(conversation, tenant, as_json)
    time = None if at is None else parse_time(at)
    drawing = _Drawing(dot, svg)
    if html is not None:
        _write_page(asked, html)
    elif profile:
        _show_profile(asked, time or datetime.now(UTC), person, budget)
    elif history is not None:
        _show_history(asked, history)
    elif memories:
        _show_memories(asked, at, time, all_=all_)
    elif tree:
        _show_tree(asked, drawing)
    elif timelines or drawing.wanted:
        _show_graph(asked, drawing)
    else:
        _show_segments(asked, denoised)


def _check_needed(lacking: bool, fault: str) -> None:
    if lacking:
        raise Refused(fault)


def _check_view(views: Mapping[str, object], *, denoised: bool, drawn: bool) -> None:
    """Raise `Refused` for several views at once, and for options that the one asked for would ignore."""
    asked = [option for option, value in views.items() if value]
    _check_needed(len(asked) > 1, f"{' and '.join(asked)} are different views: ask for one at a time")
    view = "".join(asked)
    shown = view or ("the graph" if drawn else "")
    _check_needed(denoised and bool(shown), f"--denoised is about segments, which {shown} does not show")
    _check_needed(drawn and view not in {"", *_DRAWN}, f"--dot and --svg draw the graph or the tree, not {view}")


@dataclass(frozen=True, slots=True)
class _Asked:
    """The conversation that is asked for, and whether its view is printed as JSON."""

    conversation: str
    tenant: str
    as_json: bool

    def read(self, view: Callable[[StateStore, str], Awaitable[V | None]]) -> V:
        """A view, read by the conversation's key; raises `Refused` where nothing is known of it."""

        async def run() -> V | None:
            async with open_store(await live_settings(connected_settings())) as store:
                return await view(store, conversation_key(self.tenant, self.conversation))

        found = asyncio.run(run())
        if found is None:
            raise Refused(f"no conversation {self.conversation!r} of tenant {self.tenant!r}")
        return found


@dataclass(frozen=True, slots=True)
class _Drawing:
    """The files into which a view is drawn."""

    dot: Path | None
    svg: Path | None

    @property
    def wanted(self) -> bool:
        """Whether there are any."""
        return bool(self.dot or self.svg)

    def write(self, graph: Callable[[], Digraph]) -> None:
        """Draw what ``graph`` makes."""
        if self.dot is not None:
            write_dot(graph(), self.dot)
        if self.svg is not None:
            render(graph(), self.svg)


def _show_segments(asked: _Asked, denoised: bool) -> None:
    known = asked.read(view_conversation)
    if asked.as_json:
        print_json(_document(known))
    else:
        console.print(conversation_tree(known, denoised), highlight=False)


def _write_page(asked: _Asked, path: Path) -> None:
    # here, because they import the gateway's libraries
    from eunoe.deploy.gateway.page.bundle import page_file  # noqa: PLC0415
    from eunoe.deploy.gateway.page.export import read_snapshot  # noqa: PLC0415

    snapshot = asked.read(read_snapshot)
    try:
        path.write_text(page_file(asked.conversation, snapshot), encoding="utf-8")
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from None
    note(f"{path}: open it in a browser")


def parse_time(text: str) -> datetime:
    """A day (its end, in UTC) or an RFC 3339 time; raises `Refused` for anything else."""
    try:
        return _TIME.validate_python(f"{text}T23:59:59.999999Z" if len(text) == len("2026-01-31") else text)
    except ValidationError:
        raise Refused(f"--at {text!r}: expected a day like 2026-03-01 or a time like 2026-03-01T09:30:00Z") from None


def _show_profile(asked: _Asked, at: datetime, person: str | None, budget: int) -> None:
    async def profile(store: StateStore, key: str) -> PersonProfile | None:
        known = await is_known(store, key)
        return await profile_of(store, key, at=at, person=person, budget_tokens=budget) if known else None

    show_profile(asked.read(profile), asked.as_json)


def _show_memories(asked: _Asked, at: str | None, time: datetime | None, *, all_: bool) -> None:
    view = asked.read(lambda store, key: view_memories(store, key, time, all_=all_))
    if view.known_since is None:
        note("none of its sessions has brought a memory yet")
    elif time is not None and time < view.known_since:
        since = write_time(view.known_since)
        note(f"nothing was known at {write_time(time)}: the first session ended at {since} (log time)")
    if asked.as_json:
        print_json([memory.model_dump(mode="json") for memory in view.memories])
    else:
        title = f"{asked.conversation}{f' at {at}' if at else ''}: {counted(len(view.memories), 'memory')}"
        console.print(memories_tree(title, view.memories), highlight=False)


def _show_history(asked: _Asked, id_: str) -> None:
    entries = asked.read(lambda store, key: view_history(store, key, id_))
    if asked.as_json:
        print_json([_entry(entry) for entry in entries])
    else:
        console.print(history_tree(entries), highlight=False)


def _entry(entry: HistoryEntry) -> dict[str, Any]:
    return {
        "session": entry.session,
        "known_from": write_time(entry.known_from),
        "at": write_spoken_time(entry.at),
        "kind": entry.kind.value,
        "memory": entry.memory.model_dump(mode="json"),
        "by": None if entry.by is None else entry.by.model_dump(mode="json"),
        "because": entry.because,
    }


def _show_graph(asked: _Asked, drawing: _Drawing) -> None:
    graph = asked.read(view_graph)
    if asked.as_json:
        print_json(
            {
                "memories": [memory.model_dump(mode="json") for memory in graph.memories],
                "edges": [edge.model_dump(mode="json") for edge in graph.edges],
            }
        )
    else:
        console.print(timelines_tree(asked.conversation, graph.memories, graph.edges), highlight=False)
    drawing.write(lambda: memory_graph(graph.memories, graph.edges))


def _show_tree(asked: _Asked, drawing: _Drawing) -> None:
    nodes = asked.read(view_tree)
    if asked.as_json:
        print_json({id_: node.model_dump(mode="json") for id_, node in nodes.items()})
    else:
        if not nodes:
            note("the tree grows with the first memory: none of its sessions has brought one yet")
        for line in outline(nodes):
            console.print(line, markup=False, highlight=False)
    drawing.write(lambda: tree_graph(nodes))


def _document(view: ConversationView) -> dict[str, Any]:
    return {
        "key": view.key,
        "sessions": view.head.opened,
        "open": bool(view.head.open),
        "open_sessions": [{"session_id": one.session_id, "utterances": one.lines} for one in view.head.open],
        "open_utterances": view.open_lines,
        "remembered_sessions": view.remembered,
        "segments": [segment.model_dump(mode="json") for segment in view.segments],
    }
