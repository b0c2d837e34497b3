"""Recognizes questions about many things: an order of events, all the times that something happened, a summary.

The best passage does not answer them. Hand-written tables; the words that ask are not the words of the topic.
"""

import re
from enum import StrEnum

from eunoe.workers.text.guarded import GuardedPattern
from eunoe.workers.text.terms import terms


class Breadth(StrEnum):
    """The number of things that a question asks for."""

    ONE = "one"
    """One thing, or few things."""
    EVENTS = "events"
    """Events in their order, or all of a kind."""
    SUMMARY = "summary"
    """A summary of all of it."""


_SUMMARY = GuardedPattern(
    r"\b(?:summar(?:y|ies|i[sz]e[sd]?)|sum up|recap(?:ped|itulate)?|overview of|gist of"
    r"|(?:what|anything) (?:all )?do you (?:still |all )?(?:know|remember) (?:about|of)\b"
    r"|everything (?:that )?(?:I|we|you)(?:['’]ve| have)?|bring me up to date|catch me up|where do (?:I|we) stand"
    r"|zusammenfass\w*|fass\w? .{0,40}zusammen|resumen|resumir)\b|요약|정리해|总结|概括|まとめ",
    re.IGNORECASE,
)
_EVENTS = GuardedPattern(
    r"\b(?:(?:in|the|what|which) (?:chronological )?order (?:in which|did|have|has|of (?:events|the|my|what))"
    r"|in order\b(?! (?:to|for|that)\b)"
    r"|chronolog\w{1,8}|sequence of|timeline of|history of (?:my|our)"
    r"|all (?:of )?the (?:times|occasions|things|places|people|trips|ways) (?:that |when |where |which )?\w+"
    r"|(?:every|each) time (?:that )?(?:I|we|you|he|she|they|[A-Z]\w+)"
    r"|how (?:did|have|has) .{1,80} (?:evolve|develop)\w*"
    r"|in welcher reihenfolge|alle male|en qué orden|todas las veces)\b|순서|顺序|順序|いつも?順",
    re.IGNORECASE,
)
_INSTRUCTION = GuardedPattern(r"\b(?:when|if|whenever) I ask\b", re.IGNORECASE)
_FRAME = re.compile(
    r"\b(?:can|could|would|will|you|please|give|provide|tell|show|list|walk|through|me|us|an?|the|in|which|order|"
    r"sequence|chronolog\w{1,8}|timeline|brought|bring|up|came|different|various|aspects?|concepts?|ways?|topics?|"
    r"things?|progress|development|"
    r"throughout|across|over|during|our|conversations?|discussions?|chats?|sessions?|mention\w{0,3}|only|"
    r"one|two|three|four|five|six|seven|eight|nine|ten|items?|comprehensive|complete|clear|detailed|brief|short|"
    r"full|know|remember|still|summar\w{1,6}|recap\w{0,9}|overview|how|(?:I|we|you)['’]ve|has|have|had|progressed|"
    r"developed|evolved?|time|"
    r"times|past|few|months?|weeks?|so far|including|everything|all|we|i|covered|discussed)\b",
    re.IGNORECASE,
)


def read_breadth(text: str) -> Breadth:
    """The breadth of a question."""
    if _SUMMARY.search(text):
        return Breadth.SUMMARY
    return Breadth.EVENTS if _EVENTS.search(text) and not _INSTRUCTION.search(text) else Breadth.ONE


def topic_of(text: str, breadth: Breadth) -> str:
    """The topic of a broad question, without the words that ask for breadth; a text without another word stays."""
    if breadth is Breadth.ONE:
        return text
    topic = " ".join(_FRAME.sub(" ", text).split())
    return topic if terms(topic) else text
