"""Walks through the memory graph, from a memory to its ancestors or descendants, level by level."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from eunoe.workers.link.graph import Vertex
from eunoe.workers.link.timelines import Neighbours


@dataclass(slots=True)
class Walk:
    """A walk from one memory in one direction; the caller reads each level, those of several walks at once."""

    is_forward: bool
    """Whether it leads to newer memories."""
    most: int
    """Maximum of memories read."""
    level: Sequence[str]
    """The memories to read next, at most as many as may still be read; empty at the end of the walk."""
    found: dict[str, Vertex] = field(default_factory=dict)
    """The memories read, the nearest first."""

    @classmethod
    def of(cls, start: str, most: int, *, is_forward: bool) -> Self:
        """A walk that begins with reading ``start``."""
        return cls(is_forward, most, [start])

    def step(self, vertices: Mapping[str, Vertex], children: Neighbours) -> None:
        """Take the memories of the level, as far as ``vertices`` has them, and find those of the next.

        ``children``: memory id → ids its outgoing edges lead to; needed for a walk forward only.
        """
        here = {id_: vertices[id_] for id_ in self.level if id_ in vertices}
        self.found |= here
        steps = (
            id_
            for each, vertex in here.items()
            for id_ in (children[each] if self.is_forward else (older for older, _ in vertex.older))
            if id_ not in self.found
        )
        self.level = list(dict.fromkeys(steps))[: self.most - len(self.found)]
