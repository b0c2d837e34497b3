"""Sentences of a line that tell something of its speaker: it asks, plays, jokes or hands over nothing. English only."""

import re

from eunoe.workers.respond.context import fold
from eunoe.workers.text.salience import is_question
from eunoe.workers.text.sentences import sentence_spans
from eunoe.workers.text.supposed import told_as_true

_ASKS = re.compile(
    r"\W{0,5}(?:\w{1,30}\W{1,5}){0,3}?"
    r"(?:wh(?:at|en|ere|o|y|ich)|how|do|does|did|am|are|is|was|were|have|has|had|can|could|will|would|"
    r"should)(?:['’]\w{1,2}|n['’]t)?\b",
    re.IGNORECASE,
)
"""The beginning of a sentence that asks: "I cannot eat nuts, remember?" tells."""
_STATES = re.compile(
    r"\W{0,5}(?:(?:and|so|but|oh|btw),? ){0,2}(?:my|our|his|her|their|the|an?|this|that|I|we|he|she|it|they|there)\b",
    re.IGNORECASE,
)
_AGREEMENT = re.compile(r"[ ,](?:ok|okay|right|remember|alright|you know)[?!]{1,3}\W{0,5}\Z", re.IGNORECASE)
"""The end of a sentence that tells something, and asks for agreement: "My brother is coming, ok?"."""


def asks(sentence: str) -> bool:
    """Whether a sentence asks something, and does not only end as a question does."""
    if not is_question(sentence) or _ASKS.match(sentence) is None:
        return False
    return _AGREEMENT.search(sentence) is None or _STATES.match(sentence) is None


def told_of_speaker(text: str) -> str:
    """The sentences of a line that tell something of its speaker; empty where there are none."""
    return " ".join(one for one in _told(text) if not asks(one))


def told_truly(text: str) -> str:
    """The sentences of a line that are told as true; empty where there are none."""
    return " ".join(_told(text))


def _told(text: str) -> list[str]:
    said = fold(text)
    return told_as_true([said[start:end] for start, end in sentence_spans(said)])
