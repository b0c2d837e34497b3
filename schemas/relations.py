"""Relations between a memory and a later one (THEANINE, appendix B.1)."""

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
    """B is how somebody feels as a result of A."""
    WANT = "Want"
    """B is what somebody wants as a result of A."""
    SAME_TOPIC = "SameTopic"
    """A and B are about the same particular matter, and neither leads to the other."""


CAUSAL: frozenset[Relation] = frozenset(Relation) - {Relation.SAME_TOPIC}
"""The six relations in which one memory leads to the other; they take precedence over `Relation.SAME_TOPIC`."""
