"""Draws the memory as trees in the terminal and as graphs for Graphviz."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from textwrap import fill

import graphviz
from rich.markup import escape
from rich.tree import Tree

from eunoe.deploy.inspect.counted import counted
from eunoe.deploy.inspect.view import ConversationView
from eunoe.schemas.errors import Refused
from eunoe.schemas.memory import Memory, MemoryStatus
from eunoe.workers.link.graph import Edge
from eunoe.workers.tree.nodes import ROOT, TreeNode
from eunoe.workers.tree.outline import label, walk
from eunoe.workers.update.reads import HistoryEntry

LABEL_CHARS = 32
_NO_LINKS = "; the offline rules link only what they are sure of, a language model finds more (OPENAI_BASE_URL)"


def conversation_tree(view: ConversationView, denoised: bool) -> Tree:
    """The sessions of a conversation with their segments, under a line that says how much of it is remembered."""
    sessions = counted(view.head.opened, "session")
    shown = (f"{view.remembered} of {sessions} remembered", *_kept_nothing(view), _open_sessions(view))
    root = Tree(f"[bold]{view.key}[/]: {', '.join(shown)}")
    branches: dict[int, Tree] = {}
    for segment in view.segments:
        if segment.session not in branches:
            day = f"{segment.lines[0].at:%Y-%m-%d}"
            branches[segment.session] = root.add(f"[bold]session {segment.session}[/] [dim]{day}[/]")
        leaf = branches[segment.session].add(f"[cyan]segment {segment.index + 1}[/] [dim]{segment.segment_id[:8]}[/]")
        rows = segment.denoised.splitlines() if denoised else [f"{line.speaker}: {line.text}" for line in segment.lines]
        for row in rows:
            leaf.add(escape(row))
    return root


def _open_sessions(view: ConversationView) -> str:
    match len(view.head.open):
        case 0:
            return "no session is open"
        case 1:
            return f"{counted(view.open_lines, 'utterance')} in the open session"
        case number:
            return f"{counted(view.open_lines, 'utterance')} in {number} open sessions"


def _kept_nothing(view: ConversationView) -> list[str]:
    """A note on remembered sessions without a segment: they were erased, or a stage failed. Empty for none."""
    lacking = set(range(1, view.remembered + 1)) - {segment.session for segment in view.segments}
    if not lacking:
        return []
    which = "them" if len(lacking) == view.head.opened else f"{len(lacking)} of them"
    return [f"nothing is kept of {which} (erased or skipped)"]


def memory_line(memory: Memory) -> str:
    """A memory as a line with its status; an ended memory is dim."""
    notes = [f"{memory.at:%Y-%m-%d}", memory.memory_id[:8], *_fate(memory)]
    text = f"{escape(memory.text)} [dim]({', '.join(notes)})[/dim]"
    return text if memory.status is MemoryStatus.CURRENT else f"[dim]{text}[/]"


def _fate(memory: Memory) -> Iterator[str]:
    """The status of a memory in a few words: ended, until when, said again, perhaps contradicted."""
    ending = memory.ending
    if ending is None and memory.expires_at is not None:
        yield f"until {memory.expires_at - timedelta(microseconds=1):%Y-%m-%d}"
    if ending is not None and ending.by is not None and ending.session == memory.session:
        yield f"see {ending.by[:8]}"
    elif ending is not None:
        by = f" by {ending.by[:8]}" if ending.by else ""
        yield f"{ending.status.value}{by} on {ending.at:%Y-%m-%d}"
    elif memory.reinforced and memory.reinforced[-1].session > memory.session:
        yield f"said again on {memory.reinforced[-1].at:%Y-%m-%d}"
    if memory.ending is None and memory.suspected:
        yield f"perhaps contradicted by {memory.suspected[-1].by[:8]}"


def timelines_tree(title: str, memories: Sequence[Memory], edges: Sequence[Edge]) -> Tree:
    """The memory graph as a tree from each memory without an older one; a repeated memory is not expanded again."""
    known = {memory.memory_id: memory for memory in memories}
    newer: defaultdict[str, list[Edge]] = defaultdict(list)
    for edge in edges:
        newer[edge.older].append(edge)
    led_to = {edge.newer for edge in edges}
    root = Tree(f"[bold]{escape(title)}[/]: {counted(len(memories), 'memory')}, {counted(len(edges), 'link')}")
    shown: set[str] = set()
    for memory in memories:
        if memory.memory_id in newer and memory.memory_id not in led_to:
            _grow(root, memory, known, newer, shown)
    alone = [memory for memory in memories if memory.memory_id not in newer and memory.memory_id not in led_to]
    if alone:
        rest = root.add(f"[dim]memories without links: {len(alone)}{'' if edges else _NO_LINKS}[/]")
        for memory in alone:
            rest.add(memory_line(memory))
    return root


def _grow(
    branch: Tree,
    memory: Memory,
    known: Mapping[str, Memory],
    newer: Mapping[str, Sequence[Edge]],
    shown: set[str],
) -> None:
    """Add a memory and all later ones; iterative, since a timeline may be longer than Python's recursion limit."""
    stack = [(branch, memory, "")]
    while stack:
        at, current, how = stack.pop()
        label = f"[cyan]{how}[/] {memory_line(current)}" if how else memory_line(current)
        if current.memory_id in shown:
            at.add(f"{label} [dim]… see above[/]")
            continue
        shown.add(current.memory_id)
        below = at.add(label)
        steps = [edge for edge in newer.get(current.memory_id, ()) if edge.newer in known]
        stack += [(below, known[edge.newer], relation_label(edge)) for edge in reversed(steps)]


def relation_label(edge: Edge) -> str:
    """The relation of a link; with a question mark where it is only suspected."""
    return f"{edge.relation.value}?" if edge.suspicion else edge.relation.value


def memories_tree(title: str, memories: Iterable[Memory]) -> Tree:
    """Memories grouped by session."""
    root = Tree(f"[bold]{escape(title)}[/]")
    branches: dict[int, Tree] = {}
    for memory in memories:
        if memory.session not in branches:
            branches[memory.session] = root.add(f"[bold]session {memory.session}[/]")
        branches[memory.session].add(memory_line(memory))
    return root


def history_tree(entries: Sequence[HistoryEntry]) -> Tree:
    """The changes of a memory by session: the kind, the memory that caused it, the reason, the utterances."""
    root = Tree(f"[bold]{counted(len(entries), 'change')}[/]")
    branches: dict[int, Tree] = {}
    for entry in entries:
        if entry.session not in branches:
            known = f"[dim]known since {entry.known_from:%Y-%m-%d %H:%M} UTC[/]"
            branches[entry.session] = root.add(f"[bold]session {entry.session}[/] {known}")
        leaf = branches[entry.session].add(f"[cyan]{entry.kind.value}[/] {_named(entry.memory)}")
        if entry.by is not None:
            leaf.add(f"by {_named(entry.by)}")
        if entry.because:
            leaf.add(f"because: {escape(entry.because)}")
        said = ", ".join(line.utterance_id for line in (entry.by or entry.memory).evidence)
        leaf.add(f"[dim]on {entry.at:%Y-%m-%d}, said in {escape(said)}[/]")
    return root


def _named(memory: Memory) -> str:
    return f"{escape(memory.text)} [dim]({memory.memory_id[:8]})[/]"


def memory_graph(memories: Iterable[Memory], edges: Iterable[Edge]) -> graphviz.Digraph:
    """The linked memories, with their relations as labels; ended memories are grey."""
    graph = graphviz.Digraph("memories", graph_attr={"rankdir": "LR"}, node_attr={"shape": "box", "style": "rounded"})
    listed = list(edges)
    linked = {id_ for edge in listed for id_ in (edge.older, edge.newer)}
    for memory in memories:
        if memory.memory_id in linked:
            grey = {} if memory.status is MemoryStatus.CURRENT else {"color": "grey", "fontcolor": "grey"}
            label = graphviz.escape(fill(memory.text, LABEL_CHARS) + f"\n{memory.at:%Y-%m-%d}")
            graph.node(memory.memory_id, label, **grey)
    for edge in listed:
        graph.edge(edge.older, edge.newer, relation_label(edge))
    return graph


def tree_graph(nodes: Mapping[str, TreeNode]) -> graphviz.Digraph:
    """The tree: leaves as boxes, aggregates as ellipses; ended nodes are grey."""
    graph = graphviz.Digraph("tree", graph_attr={"rankdir": "LR"})
    for node in walk(nodes):
        if node.node_id == ROOT:
            graph.node(ROOT, "", shape="point")
        else:
            grey = {"color": "grey", "fontcolor": "grey"} if node.ended else {}
            text = graphviz.escape(fill(label(node), LABEL_CHARS))
            graph.node(node.node_id, text, shape="box" if node.is_leaf else "ellipse", **grey)
        for child in node.children:
            graph.edge(node.node_id, child)
    return graph


def write_dot(graph: graphviz.Digraph, path: Path) -> None:
    """Write a graph in Graphviz's language; raises `Refused` where the file is not writable."""
    try:
        path.write_text(graph.source)
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from None


def render(graph: graphviz.Digraph, path: Path) -> None:
    """Draw a graph as SVG into ``path``; raises `Refused` where Graphviz is not installed or the file not writable."""
    try:
        path.write_bytes(graph.pipe(format="svg"))
    except graphviz.ExecutableNotFound:
        raise Refused(
            "`dot` is not installed (Debian: apt-get install graphviz); --dot writes the graph without it"
        ) from None
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from None
