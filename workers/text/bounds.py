"""Bounds of what the rules read, so that the cost of a text grows with its length and no faster."""

MAX_SENTENCE_CHARS = 1000
"""Characters of one sentence that the rules read; a longer one is cut."""

MAX_SENTENCES = 1000
"""Sentences of one text that the rules read; the rest of the text is passed over."""

MAX_QUESTION_CHARS = 4000
"""Characters of a text in which days are looked for, half of them at either end; a question stands there."""


def with_blank_middle(text: str) -> str:
    """The text itself, or one longer than a question may be with spaces in its middle: what is left keeps its place."""
    half, blank = MAX_QUESTION_CHARS // 2, len(text) - MAX_QUESTION_CHARS
    return f"{text[:half]}{' ' * blank}{text[-half:]}" if blank > 0 else text


def without_middle(text: str) -> str:
    """The text itself, or the beginning and the end of one that is longer than a sentence may be."""
    half = MAX_SENTENCE_CHARS // 2
    return text if len(text) <= MAX_SENTENCE_CHARS else f"{text[:half]} … {text[-half:]}"
