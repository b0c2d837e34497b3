"""Which generation answers where in the log. Pure."""

from collections.abc import Mapping


def last_promoted(promotions: Mapping[int, str], position: int | None = None) -> str | None:
    """The generation that was promoted last before ``position`` (None: at all); None where none was."""
    before = [at for at in promotions if position is None or at < position]
    return promotions[max(before)] if before else None
