"""The aggregation tasks after a session's insertions, and the port of an aggregator."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from eunoe.schemas.events import Provenance
from eunoe.workers.tree.nodes import TreeNode
from eunoe.workers.tree.tree import Vector, WorkingTree

ALSO = "Also about: "
"""Prefix of the line of an extract that lists the speakers not named in its sentences."""


@dataclass(frozen=True, slots=True)
class AggregateTask:
    """A changed inner node, as an aggregator sees it."""

    node_id: str
    text: str
    """Its previous text; empty for a new node."""
    news: tuple[str, ...]
    """New texts below it, in order of insertion."""
    drop: tuple[str, ...]
    """Texts below it that have ended: the new text must not state them."""
    descendants: int
    """Number of entries below it."""
    speakers: tuple[str, ...]
    centroid: Vector
    """Sum of the vectors of the current leaves below it; not normalized."""

    @property
    def has_content(self) -> bool:
        """Whether there is anything to summarize; if not, no model is asked."""
        return bool(self.text or self.news)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """The new text of a node and its provenance."""

    text: str
    made_by: Provenance

    @property
    def topic(self) -> str:
        """The text to embed: without the line that only lists speakers."""
        return "\n".join(line for line in self.text.splitlines() if not line.startswith(ALSO)) or self.text


class Aggregator(Protocol):
    """Writes the texts of changed inner nodes (MemTree, section 3.1 and A.1.2)."""

    async def aggregate(self, tasks: Sequence[AggregateTask], names: Sequence[str]) -> list[Aggregate]:
        """One text per task, none empty; ``names`` carry no topic. Raises `Unavailable`."""
        ...


def tasks_of(tree: WorkingTree) -> list[AggregateTask]:
    """One task per node to aggregate, the shallowest first, with its text before the session."""
    return [_task(tree, tree.nodes[id_]) for id_ in tree.touched]


def _task(tree: WorkingTree, node: TreeNode) -> AggregateTask:
    fresh = [tree.nodes[id_] for id_ in tree.fresh.get(node.node_id, ())]
    dropped = [tree.nodes[id_] for id_ in tree.dropped.get(node.node_id, ())]
    ended = [*dropped, *(leaf for leaf in fresh if leaf.ended)]
    return AggregateTask(
        node_id=node.node_id,
        text=node.text,
        news=tuple(leaf.text for leaf in fresh if not leaf.ended),
        drop=tuple(dict.fromkeys(leaf.text for leaf in ended)),
        descendants=node.descendants,
        speakers=node.speakers,
        centroid=tree.sums[node.node_id],
    )
