"""The aggregation tasks after a session's insertions, and the port of an aggregator."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from eunoe.schemas.events import Provenance
from eunoe.workers.tree.nodes import TreeNode
from eunoe.workers.tree.tree import Vector, WorkingTree

ALSO = "Also about: "
"""Prefix of the line of an extract that lists the speakers not named in its sentences."""
FORMERLY = "No longer so: "
"""Prefix of the text of a node below which all entries have ended."""
ELSEWHERE = "Said elsewhere: "
"""Prefix of the same where entries that are not below it say all of them."""


def before(text: str) -> str:
    """The text of a node; empty where it only tells what had ended."""
    return "" if text.startswith((FORMERLY, ELSEWHERE)) else text


@dataclass(frozen=True, slots=True)
class AggregateTask:
    """A changed inner node, as an aggregator sees it."""

    node_id: str
    text: str
    """Its previous text; empty for a new node."""
    news: tuple[str, ...]
    """New texts below it, in order of insertion; those of other current entries where it has neither text nor news."""
    drop: tuple[str, ...]
    """Texts below it that no longer hold: the new text must not state them."""
    descendants: int
    """Number of entries below it."""
    current: int
    """Number of them that have not ended."""
    speakers: tuple[str, ...]
    centroid: Vector
    """Sum of the vectors of the current leaves below it; not normalized."""
    said_anew: tuple[str, ...] = ()
    """Ended texts below it that new entries below it say too."""
    left: tuple[str, ...] = ()
    """Ended texts below it that other entries say, which may not be below it: the new text need not state them."""
    others: tuple[str, ...] = ()
    """Texts of some current entries below it that are not new."""

    @property
    def before(self) -> str:
        """Its previous text; empty also where that only tells what had ended."""
        return before(self.text)

    @property
    def ended(self) -> tuple[str, ...]:
        """The ended texts that its previous text may state: what was not said need not be taken back."""
        return (*self.drop, *self.left) if self.before else ()

    @property
    def has_content(self) -> bool:
        """Whether there is anything to summarize; if not, no model is asked."""
        return self.current > 0


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
    news = tuple(leaf.text for leaf in fresh if not leaf.ended)
    new_entries = {leaf.entry for leaf in fresh}
    others = _others(tree, node.node_id, fresh)
    ended = [leaf for leaf in (*dropped, *fresh) if leaf.ended and leaf.text not in {*news, *others}]
    return AggregateTask(
        node_id=node.node_id,
        text=node.text,
        news=news or (() if before(node.text) else others),
        drop=_texts(leaf for leaf in ended if leaf.said_by is None),
        descendants=node.descendants,
        current=node.current or 0,  # the root alone has none, and no text
        speakers=node.speakers,
        centroid=tree.sums[node.node_id],
        said_anew=_texts(leaf for leaf in ended if leaf.said_by in new_entries),
        left=_texts(leaf for leaf in ended if leaf.said_by is not None and leaf.said_by not in new_entries),
        others=others,
    )


def _others(tree: WorkingTree, node_id: str, fresh: Sequence[TreeNode]) -> tuple[str, ...]:
    """The texts of the loaded current leaves below a node that are not new there."""
    new = {leaf.node_id for leaf in fresh}
    beside = (tree.nodes[id_] for id_ in tree.beside.get(node_id, ()) if id_ in tree.nodes and id_ not in new)
    return _texts(leaf for leaf in beside if leaf.is_leaf and not leaf.ended)


def _texts(leaves: Iterable[TreeNode]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(leaf.text for leaf in leaves))
