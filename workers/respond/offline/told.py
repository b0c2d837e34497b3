"""Sentences of a line that tell something of its speaker: it asks, plays or hands over nothing. English only."""

import re

from eunoe.workers.respond.context import fold
from eunoe.workers.text.salience import is_question
from eunoe.workers.text.sentences import sentence_spans
from eunoe.workers.text.supposed import not_played

_ASKS = re.compile(
    r"\W{0,5}(?:\w{1,30}\W{1,5}){0,3}?"
    r"(?:wh(?:at|en|ere|o|y|ich)|how|do|does|did|am|are|is|was|were|have|has|had|can|could|will|would|"
    r"should)(?:['’]\w{1,2}|n['’]t)?\b",
    re.IGNORECASE,
)
"""The beginning of a sentence that asks: "I cannot eat nuts, remember?" tells."""


def asks(sentence: str) -> bool:
    """Whether a sentence asks something, and does not only end as a question does."""
    return is_question(sentence) and _ASKS.match(sentence) is not None


def told_of_speaker(text: str) -> str:
    """The sentences of a line that tell something of its speaker; empty where there are none."""
    said = fold(text)
    sentences = [said[start:end] for start, end in sentence_spans(said)]
    return " ".join(one for one in not_played(sentences) if not asks(one))
