"""Compares the memories of two generations.

Items are matched by content, never by id: an id is derived from its source, so a generation that segments sessions
differently gives the same sentence another id.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from eunoe.schemas.memory import Memory, Segment
from eunoe.workers.link.graph import Edge
from eunoe.workers.tree.nodes import ROOT, TreeNode

MEMORIES: Final = "memories"
SEGMENTS: Final = "segments"
NODES: Final = "tree nodes"
EDGES: Final = "edges"


@dataclass(frozen=True, slots=True)
class Remembered:
    """The memory of one conversation in one generation."""

    key: str
    digest: str
    """SHA-256 of its state; equal digests mean equal memories."""
    sessions: int = 0
    """Number of sessions applied by stage update."""
    memories: Sequence[Memory] = ()
    segments: Sequence[Segment] = ()
    edges: Sequence[Edge] = ()
    tree: Mapping[str, TreeNode] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RememberedItem:
    """An item to compare: items of equal identity match, and differ where their details do."""

    identity: Hashable
    words: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Example:
    """One difference; `None` on the side that lacks the item."""

    key: str
    old: str | None
    new: str | None


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of one kind of item in both generations, and of its differences."""

    old: int = 0
    new: int = 0
    only_old: int = 0
    only_new: int = 0
    changed: int = 0
    """Items of both whose details differ: another ending, repeat or suspicion, another denoised text."""
    examples: tuple[Example, ...] = ()

    @property
    def differs(self) -> bool:
        """Whether an item is in one generation only, or changed."""
        return bool(self.only_old or self.only_new or self.changed)

    def plus(self, other: "Tally", examples: int) -> "Tally":
        """The sum of both, with at most ``examples`` examples."""
        return Tally(
            self.old + other.old,
            self.new + other.new,
            self.only_old + other.only_old,
            self.only_new + other.only_new,
            self.changed + other.changed,
            (self.examples + other.examples)[:examples],
        )


@dataclass(frozen=True, slots=True)
class TreeShape:
    """The shape of a tree, or of several: counts are sums, depth and fan-out maxima."""

    nodes: int = 0
    """Without the root."""
    leaves: int = 0
    depth: int = 0
    fan_out: int = 0

    def plus(self, other: "TreeShape") -> "TreeShape":
        """The shape of both together."""
        return TreeShape(
            self.nodes + other.nodes,
            self.leaves + other.leaves,
            max(self.depth, other.depth),
            max(self.fan_out, other.fan_out),
        )


@dataclass(frozen=True, slots=True)
class GenerationDiff:
    """The differences of one conversation, or the sums over several."""

    conversations: int = 0
    equal: int = 0
    """Conversations with equal digests."""
    sessions: tuple[int, int] = (0, 0)
    """(old, new)."""
    tallies: Mapping[str, Tally] = field(default_factory=dict)
    """By kind; edges under ``edges: <relation>``."""
    trees: tuple[TreeShape, TreeShape] = (TreeShape(), TreeShape())

    @property
    def is_equal(self) -> bool:
        """Whether the digests of all conversations are equal."""
        return self.equal == self.conversations

    def plus(self, other: "GenerationDiff", examples: int) -> "GenerationDiff":
        """The sum of both, with at most ``examples`` examples of each kind."""
        kinds = dict.fromkeys((*self.tallies, *other.tallies))
        return GenerationDiff(
            self.conversations + other.conversations,
            self.equal + other.equal,
            (self.sessions[0] + other.sessions[0], self.sessions[1] + other.sessions[1]),
            {kind: self.tallies.get(kind, Tally()).plus(other.tallies.get(kind, Tally()), examples) for kind in kinds},
            (self.trees[0].plus(other.trees[0]), self.trees[1].plus(other.trees[1])),
        )


def compare(old: Remembered, new: Remembered, examples: int) -> GenerationDiff:
    """The differences of one conversation, with at most ``examples`` examples of each kind.

    The same object on both sides means that the digests are equal: nothing is matched.
    """
    if old is new:
        return _equal(old)
    before, after = _items(old), _items(new)
    return GenerationDiff(
        conversations=1,
        equal=int(old.digest == new.digest),
        sessions=(old.sessions, new.sessions),
        tallies={
            kind: tally(old.key, before.get(kind, ()), after.get(kind, ()), examples)
            for kind in sorted({*before, *after}, key=_place)
        },
        trees=(shape_of(old.tree), shape_of(new.tree)),
    )


def _equal(both: Remembered) -> GenerationDiff:
    items, shape = _items(both), shape_of(both.tree)
    return GenerationDiff(
        conversations=1,
        equal=1,
        sessions=(both.sessions, both.sessions),
        tallies={kind: Tally(len(items[kind]), len(items[kind])) for kind in sorted(items, key=_place)},
        trees=(shape, shape),
    )


def tally(key: str, old: Iterable[RememberedItem], new: Iterable[RememberedItem], examples: int) -> Tally:
    """The differences of items of one kind; items of equal identity are matched one to one."""
    before, after = _grouped(old), _grouped(new)
    only_old: list[Example] = []
    only_new: list[Example] = []
    changed: list[Example] = []
    for identity in dict.fromkeys((*before, *after)):
        left, right = _unmatched(before.get(identity, []), after.get(identity, []))
        pairs = min(len(left), len(right))
        changed += [Example(key, *_described(a, b)) for a, b in zip(left, right, strict=False)]
        only_old += [Example(key, item.words, None) for item in left[pairs:]]
        only_new += [Example(key, None, item.words) for item in right[pairs:]]
    return Tally(
        sum(map(len, before.values())),
        sum(map(len, after.values())),
        len(only_old),
        len(only_new),
        len(changed),
        _mixed(examples, changed, only_old, only_new),
    )


def shape_of(tree: Mapping[str, TreeNode]) -> TreeShape:
    """The shape of a tree, given as id → node, the root included."""
    nodes = [node for id_, node in tree.items() if id_ != ROOT]
    return TreeShape(
        nodes=len(nodes),
        leaves=sum(node.is_leaf for node in nodes),
        depth=max((node.depth for node in nodes), default=0),
        fan_out=max((len(node.children) for node in tree.values()), default=0),
    )


# ---- the identity of items


def _place(kind: str) -> tuple[int, str]:
    order = (MEMORIES, EDGES, NODES, SEGMENTS)
    return order.index(kind.partition(":")[0]), kind


def _items(remembered: Remembered) -> dict[str, list[RememberedItem]]:
    known = {memory.memory_id: memory for memory in remembered.memories}
    sentences = {id_: memory.text for id_, memory in known.items()}
    found: defaultdict[str, list[RememberedItem]] = defaultdict(list)
    found[MEMORIES] = [_memory(memory, sentences) for memory in remembered.memories]
    found[SEGMENTS] = [_segment(segment) for segment in remembered.segments]
    found[NODES] = _nodes(remembered.tree)
    for edge in remembered.edges:
        ends = tuple((known[id_].speaker, known[id_].text) if id_ in known else id_ for id_ in (edge.older, edge.newer))
        words = f"{sentences.get(edge.older, edge.older)} → {sentences.get(edge.newer, edge.newer)}"
        found[f"{EDGES}: {edge.relation}"].append(RememberedItem(ends, words))
    return found


def _memory(memory: Memory, sentences: Mapping[str, str]) -> RememberedItem:
    ending = memory.ending
    fate = "holds"
    if ending is not None:
        fate = f"{ending.status} by {sentences.get(ending.by, ending.by)}" if ending.by else str(ending.status)
    repeats = (f"repeated by {sentences.get(one.by, one.by)}" for one in memory.reinforced)
    doubts = (f"doubted because of {sentences.get(one.by, one.by)}" for one in memory.suspected)
    return RememberedItem(
        (memory.speaker, memory.text), sentences[memory.memory_id], "; ".join((fate, *repeats, *doubts))
    )


def _segment(segment: Segment) -> RememberedItem:
    ids = segment.utterance_ids
    words = f"session {segment.session}: {ids[0]} to {ids[-1]}" if ids else f"session {segment.session}: nothing"
    return RememberedItem((segment.session, ids), words, segment.denoised)


def _nodes(tree: Mapping[str, TreeNode]) -> list[RememberedItem]:
    """The nodes of a tree; the identity of a node is the path of texts from the root to it."""
    found: list[RememberedItem] = []
    waiting: list[tuple[str, tuple[str, ...]]] = [(ROOT, ())]
    while waiting:
        id_, above = waiting.pop()
        for child in tree[id_].children if id_ in tree else ():
            if child in tree:
                path = (*above, tree[child].text)
                found.append(RememberedItem(path, f"{'· ' * len(above)}{tree[child].text}"))
                waiting.append((child, path))
    return found


# ---- matching


def _grouped(items: Iterable[RememberedItem]) -> dict[Hashable, list[RememberedItem]]:
    found: defaultdict[Hashable, list[RememberedItem]] = defaultdict(list)
    for item in items:
        found[item.identity].append(item)
    return found


def _unmatched(
    old: Sequence[RememberedItem], new: Sequence[RememberedItem]
) -> tuple[list[RememberedItem], list[RememberedItem]]:
    """The items of both sides without those paired by equal details, sorted by detail."""
    left, right = sorted(old, key=lambda item: item.detail), sorted(new, key=lambda item: item.detail)
    for item in list(left):
        equal = next((other for other in right if other.detail == item.detail), None)
        if equal is not None:
            left.remove(item)
            right.remove(equal)
    return left, right


def _described(old: RememberedItem, new: RememberedItem) -> tuple[str, str]:
    return f"{old.words} [{old.detail}]", f"{new.words} [{new.detail}]"


def _mixed(limit: int, *kinds: Sequence[Example]) -> tuple[Example, ...]:
    """At most ``limit`` examples, taken from the kinds in turn."""
    longest = max(map(len, kinds), default=0)
    turns = (kind[place] for place in range(min(longest, limit)) for kind in kinds if place < len(kind))
    return tuple(turns)[:limit]
