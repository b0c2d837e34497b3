"""Relations between a memory and a later one (THEANINE, appendix B.1)."""

from collections.abc import Iterable, Mapping
from enum import StrEnum


class Relation(StrEnum):
    """The relation of an edge in the memory graph, from its older memory A to its newer memory B."""

    CHANGED = "Changed"
    """The state of A has become the state of B: the same matter, changed."""
    CAUSE = "Cause"
    """A caused B."""
    REASON = "Reason"
    """B is the reason for A."""
    HINDERED_BY = "HinderedBy"
    """One of the two hinders the other."""
    REACT = "React"
    """B is how the subject of A feels as a result of A."""
    WANT = "Want"
    """B is what the subject of A wants as a result of A."""
    SAME_TOPIC = "SameTopic"
    """A and B are about the same particular matter, and neither leads to the other."""


CAUSAL: frozenset[Relation] = frozenset(Relation) - {Relation.SAME_TOPIC}
"""The six relations in which one memory leads to the other; they take precedence over `Relation.SAME_TOPIC`."""

MEANINGS: Mapping[Relation, str] = {
    Relation.CHANGED: "what A tells has changed to what B tells: the same matter, now in another state",
    Relation.CAUSE: "what A tells caused what B tells",
    Relation.REASON: "what A tells is due to what B tells: B is the reason, A is what follows from it",
    Relation.HINDERED_BY: "what B tells can be hindered by what A tells, or what A tells by what B tells",
    Relation.REACT: "as a result of what A tells, the subject feels as B tells",
    Relation.WANT: "as a result of what A tells, the subject wants what B tells to happen",
    Relation.SAME_TOPIC: "B speaks of the specific topic of A, and neither leads to the other",
}
"""The meaning of each relation from the earlier A to the later B, for prompts (THEANINE, appendix B.1)."""


def describe_relations(relations: Iterable[Relation] = Relation) -> str:
    """The meanings of the relations in the order of the table, one a line: ``Cause: what A tells …``."""
    wanted = set(relations)
    return "\n".join(f"{relation}: {MEANINGS[relation]}" for relation in MEANINGS if relation in wanted)
