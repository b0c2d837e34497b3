"""Takes out what stands in square brackets: what was shared beside a text, or the days that a memory adds."""

import re

_BRACKETS = re.compile(r"\[[^\]]*(\]|\Z)")


def without_brackets(text: str) -> str:
    """The text with a space for each part in square brackets; a bracket that is not closed stays."""
    return _BRACKETS.sub(lambda found: " " if found[1] else found.group(), text)
