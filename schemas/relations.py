"""Relations between a memory and a later one (THEANINE, appendix B.1)."""

from enum import StrEnum


class Relation(StrEnum):
    """What an edge of the memory graph says of its older memory A and its newer memory B."""

    CHANGED = "Changed"
    """What A tells has become what B tells: the same matter in another state."""
    CAUSE = "Cause"
    """What A tells brought about what B tells."""
    REASON = "Reason"
    """What A tells came about because of what B tells: B is the ground that A had."""
    HINDERED_BY = "HinderedBy"
    """What one of the two tells stands in the way of what the other tells."""
    REACT = "React"
    """B tells how somebody feels as a result of A."""
    WANT = "Want"
    """B tells what somebody wishes to happen as a result of A."""
    SAME_TOPIC = "SameTopic"
    """A and B speak of the same particular matter, and neither leads to the other."""


CAUSAL: frozenset[Relation] = frozenset(Relation) - {Relation.SAME_TOPIC}
"""The six relations in which one memory leads to the other; they take precedence over `Relation.SAME_TOPIC`."""
