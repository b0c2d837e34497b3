"""What has to be aggregated after a session's insertions, and who aggregates. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from eunoe.schemas.events import Provenance
from eunoe.workers.tree.nodes import TreeNode
from eunoe.workers.tree.tree import Growth, Row

ALSO = "Also about: "
"""Begins the line of an extract that names the speakers whom no kept sentence names."""


@dataclass(frozen=True, slots=True)
class AggregateTask:
    """A touched node, as an aggregator sees it."""

    node_id: str
    text: str
    """Its present text; empty for a new node."""
    news: tuple[str, ...]
    """The new texts below it, in order of insertion."""
    drop: tuple[str, ...]
    """Texts below it that no longer hold: the aggregate must not say them any more."""
    descendants: int
    """How many entries lie below it."""
    speakers: tuple[str, ...]
    centroid: Row
    """The sum of the vectors of the leaves below it that hold; no unit vector."""

    @property
    def says_something(self) -> bool:
        """False: nothing below it is known to hold, so nobody need be asked."""
        return bool(self.text or self.news)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """The new text of a node, and what wrote it."""

    text: str
    made_by: Provenance

    @property
    def topic(self) -> str:
        """What is embedded: the text without the line that only names people."""
        return "\n".join(line for line in self.text.splitlines() if not line.startswith(ALSO)) or self.text


class Aggregator(Protocol):
    """Writes the texts of touched nodes (MemTree, section 3.1 and A.1.2)."""

    async def aggregate(self, tasks: Sequence[AggregateTask], names: Sequence[str]) -> list[Aggregate]:
        """One text per task, none empty; ``names`` say nothing about a topic. Raises `Unavailable`."""
        ...


def tasks_of(growth: Growth) -> list[AggregateTask]:
    """One task per touched node, the shallowest first; each sees its text as it was before the session."""
    return [_task(growth, growth.nodes[id_]) for id_ in growth.touched]


def _task(growth: Growth, node: TreeNode) -> AggregateTask:
    fresh = [growth.nodes[id_] for id_ in growth.fresh.get(node.node_id, ())]
    dropped = [growth.nodes[id_] for id_ in growth.dropped.get(node.node_id, ())]
    ended = [*dropped, *(leaf for leaf in fresh if leaf.ended)]
    return AggregateTask(
        node_id=node.node_id,
        text=node.text,
        news=tuple(leaf.text for leaf in fresh if not leaf.ended),
        drop=tuple(dict.fromkeys(leaf.text for leaf in ended)),
        descendants=node.descendants,
        speakers=node.speakers,
        centroid=growth.sums[node.node_id],
    )
