"""Tokens, the unit of every budget: words and punctuation marks, whatever model is asked."""

import re
from itertools import islice

_TOKEN = re.compile(r"\w+|[^\w\s]")


def count_tokens(text: str) -> int:
    """The number of words and punctuation marks in ``text``."""
    return len(_TOKEN.findall(text))


def clip_tokens(text: str, limit: int) -> str:
    """The longest beginning of ``text`` with at most ``limit`` tokens; unchanged where it has no more."""
    if limit <= 0:
        return ""
    beyond = next(islice(_TOKEN.finditer(text), limit, None), None)
    return text if beyond is None else text[: beyond.start()].rstrip()
