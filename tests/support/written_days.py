"""The days that prompts put behind relative words, for models that answer by the words of a line."""

import re

_WRITTEN = re.compile(r" \[[^\[\]\n]*\d{4}\]")


def without_days(prompt: str) -> str:
    """The text of a prompt without them: ``told you last week [the week before 14 March 2026]``."""
    return _WRITTEN.sub("", prompt)
