"""What differs between two memories of the same conversations. Pure.

Things are recognized by what they say, never by their ids: an id is derived from its source, and a generation that cut
its sessions in another way gives the same sentence another id.
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
    """All that is compared of one conversation in one generation."""

    key: str
    digest: str
    """The SHA-256 of its state: where two agree, nothing differs."""
    sessions: int = 0
    """How many sessions its memory has applied."""
    memories: Sequence[Memory] = ()
    segments: Sequence[Segment] = ()
    edges: Sequence[Edge] = ()
    tree: Mapping[str, TreeNode] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RememberedItem:
    """Something remembered: two with equal identity are the same, and differ where their details do."""

    identity: Hashable
    words: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Example:
    """One difference; None where a generation has nothing like it."""

    key: str
    old: str | None
    new: str | None


@dataclass(frozen=True, slots=True)
class Tally:
    """How much of one kind both generations hold, and what of it differs."""

    old: int = 0
    new: int = 0
    only_old: int = 0
    only_new: int = 0
    changed: int = 0
    """In both, but not alike: another ending, another denoised text."""
    examples: tuple[Example, ...] = ()

    @property
    def differs(self) -> bool:
        """True: something is in one only, or not alike."""
        return bool(self.only_old or self.only_new or self.changed)

    def plus(self, other: "Tally", examples: int) -> "Tally":
        """Both together, with at most so many examples."""
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
    """The tree of a conversation, or the trees of many: counts are sums, the others the largest of any."""

    nodes: int = 0
    """Without the root."""
    leaves: int = 0
    depth: int = 0
    fan_out: int = 0

    def plus(self, other: "TreeShape") -> "TreeShape":
        """Both together."""
        return TreeShape(
            self.nodes + other.nodes,
            self.leaves + other.leaves,
            max(self.depth, other.depth),
            max(self.fan_out, other.fan_out),
        )


@dataclass(frozen=True, slots=True)
class GenerationDiff:
    """What differs in one conversation, or in many together."""

    conversations: int = 0
    equal: int = 0
    """Conversations whose digests agree."""
    sessions: tuple[int, int] = (0, 0)
    """(old, new)."""
    tallies: Mapping[str, Tally] = field(default_factory=dict)
    """By kind; edges under ``edges: <relation>``."""
    trees: tuple[TreeShape, TreeShape] = (TreeShape(), TreeShape())

    @property
    def is_equal(self) -> bool:
        """True: the digests of all conversations agree."""
        return self.equal == self.conversations

    def plus(self, other: "GenerationDiff", examples: int) -> "GenerationDiff":
        """Both together, with at most so many examples of each kind."""
        kinds = dict.fromkeys((*self.tallies, *other.tallies))
        return GenerationDiff(
            self.conversations + other.conversations,
            self.equal + other.equal,
            (self.sessions[0] + other.sessions[0], self.sessions[1] + other.sessions[1]),
            {kind: self.tallies.get(kind, Tally()).plus(other.tallies.get(kind, Tally()), examples) for kind in kinds},
            (self.trees[0].plus(other.trees[0]), self.trees[1].plus(other.trees[1])),
        )


def compare(old: Remembered, new: Remembered, examples: int) -> GenerationDiff:
    """The difference of one conversation, with at most so many examples of each kind."""
    before, after = _things(old), _things(new)
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


def tally(key: str, old: Iterable[RememberedItem], new: Iterable[RememberedItem], examples: int) -> Tally:
    """Counts over things of one kind; of several with one identity each is matched with one."""
    before, after = _grouped(old), _grouped(new)
    only_old: list[Example] = []
    only_new: list[Example] = []
    changed: list[Example] = []
    for identity in dict.fromkeys((*before, *after)):
        left, right = _unmatched(before.get(identity, []), after.get(identity, []))
        pairs = min(len(left), len(right))
        changed += [Example(key, *_told(a, b)) for a, b in zip(left, right, strict=False)]
        only_old += [Example(key, thing.words, None) for thing in left[pairs:]]
        only_new += [Example(key, None, thing.words) for thing in right[pairs:]]
    return Tally(
        sum(map(len, before.values())),
        sum(map(len, after.values())),
        len(only_old),
        len(only_new),
        len(changed),
        _mixed(examples, changed, only_old, only_new),
    )


def shape_of(tree: Mapping[str, TreeNode]) -> TreeShape:
    """The shape of one tree, id → node with the root among them."""
    nodes = [node for id_, node in tree.items() if id_ != ROOT]
    return TreeShape(
        nodes=len(nodes),
        leaves=sum(node.is_leaf for node in nodes),
        depth=max((node.depth for node in nodes), default=0),
        fan_out=max((len(node.children) for node in tree.values()), default=0),
    )


# ---- what is recognized by what


def _place(kind: str) -> tuple[int, str]:
    order = (MEMORIES, EDGES, NODES, SEGMENTS)
    return order.index(kind.partition(":")[0]), kind


def _things(remembered: Remembered) -> dict[str, list[RememberedItem]]:
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
    return RememberedItem((memory.speaker, memory.text), sentences[memory.memory_id], fate)


def _segment(segment: Segment) -> RememberedItem:
    ids = segment.utterance_ids
    words = f"session {segment.session}: {ids[0]} to {ids[-1]}" if ids else f"session {segment.session}: nothing"
    return RememberedItem((segment.session, ids), words, segment.denoised)


def _nodes(tree: Mapping[str, TreeNode]) -> list[RememberedItem]:
    """Each node by all the texts from the top down to it."""
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


def _grouped(things: Iterable[RememberedItem]) -> dict[Hashable, list[RememberedItem]]:
    found: defaultdict[Hashable, list[RememberedItem]] = defaultdict(list)
    for thing in things:
        found[thing.identity].append(thing)
    return found


def _unmatched(
    old: Sequence[RememberedItem], new: Sequence[RememberedItem]
) -> tuple[list[RememberedItem], list[RememberedItem]]:
    """What is left of both when those with equal details are paired; in the order of their details."""
    left, right = sorted(old, key=lambda thing: thing.detail), sorted(new, key=lambda thing: thing.detail)
    for thing in list(left):
        twin = next((other for other in right if other.detail == thing.detail), None)
        if twin is not None:
            left.remove(thing)
            right.remove(twin)
    return left, right


def _told(old: RememberedItem, new: RememberedItem) -> tuple[str, str]:
    return f"{old.words} [{old.detail}]", f"{new.words} [{new.detail}]"


def _mixed(limit: int, *kinds: Sequence[Example]) -> tuple[Example, ...]:
    """Some of each, in turn."""
    longest = max(map(len, kinds), default=0)
    turns = (kind[place] for place in range(min(longest, limit)) for kind in kinds if place < len(kind))
    return tuple(turns)[:limit]
