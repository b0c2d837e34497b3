"""Finds the generation that answers at a position of the log."""

from collections.abc import Mapping


def last_promoted(promotions: Mapping[int, str], position: int | None) -> str | None:
    """The last generation promoted before ``position``, or of all where it is `None`; `None` where there is none."""
    before = [at for at in promotions if position is None or at < position]
    return promotions[max(before)] if before else None
