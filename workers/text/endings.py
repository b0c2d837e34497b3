"""Sentences that say that something is over, and of what they say so. Hand-written, for English."""

import re

from eunoe.workers.text.guarded import GuardedPattern
from eunoe.workers.text.terms import terms

_OFF = r"off (?:the |my )?(?!(?:to|for|on|at|in|with|work|duty|sick|today|now|again|then|soon|home|the)\b)\w{2,40}"
"""The thing that one takes no more: "off sertraline", not "off to work"."""
_END = GuardedPattern(
    r"n['’]t (?:\w+ ){0,4}any ?more\b|"
    r"\b(?:no longer|no more|not (?:\w+ ){0,3}any ?more|broken? (?:up|off)|split up|separated|divorced|moved out|"
    r"(?:is|are|was|were|has been|have been) (?:off|over|cancell?ed|called off|gone|dead|closed)|"
    r"cancell?ed|called off|gave up|given up|got rid of|gave away|sold|quit|resigned|retired|laid off|fired from|"
    r"passed away|died|have left|has left|I left|we left|stopped|put (?:down|to sleep)|fell through|"
    r"(?:took|taken|weaned) (?:me|him|her|them|us) off|(?:did not|didn['’]t) (?:make it|survive)|"
    r"(?:gave|handed in|given) (?:my |in my |our )?notice|dropped (?:me|us)\b|recovered|healed|"
    r"(?:is|are|feels?) (?:all |much |totally |completely )?(?:fine|better|good|ok|okay) (?:now|again))\b|"
    rf"(?:['’]m|\bam) {_OFF}",
    re.IGNORECASE,
)
_ENDED = GuardedPattern(
    r"\b(?:stopped|quit|gave up(?: on)?|given up(?: on)?|dropped|cancell?ed|called off|sold|gave away|got rid of|"
    r"(?:took|taken|weaned) (?:me|him|her|them|us) off|(?:came|went|['’]m|am) off|"
    r"(?:switched|changed) from|no longer (?:\w{2,20})|"
    r"(?:don|doesn)['’]t \w{2,20}(?= [^.,;!?]{1,60} any ?more\b)) "
    r"(?:(?:taking|using|doing|playing|eating|drinking|wearing|going to|of|the|an?|my|our|his|her|their|all|both|that|"
    r"this) ){0,3}(?P<thing>[\w'’-]{2,40})",
    re.IGNORECASE,
)


_BORN = re.compile(
    r"(?<!\bI )\b(?:was|were|is|are) born\b|\bgave birth\b|\bbaby (?:is here|came|arrived|has arrived)\b|"
    r"\bhad (?:the|our|my|her) (?:baby|twins|son|daughter)\b",
    re.IGNORECASE,
)
_RESUMED = re.compile(
    r"\b(?:can|could|may|started|starts?|back|is|are|am|['’](?:m|s|re)|"
    r"(?:I|we) (?:eat|drink|take|use|have|do|go|run|swim|train|play|work|live|smoke|drive|walk|sleep|wear)) "
    r"(?:[\w'’-]{1,30} ){0,8}?again\b",
    re.IGNORECASE,
)


def resumes(sentence: str) -> bool:
    """Whether the sentence says that something is so again: "I can drive again"."""
    return _RESUMED.search(sentence) is not None


def tells_birth(sentence: str) -> bool:
    """Whether the sentence tells the birth of a child."""
    return _BORN.search(sentence) is not None


def is_end(sentence: str) -> bool:
    """Whether the sentence says that something is over, or no longer there."""
    return _END.search(sentence) is not None


def ended_things(sentence: str) -> frozenset[str]:
    """The stems of what the sentence says is stopped, given up or sold: "ramipril" of "she took me off ramipril"."""
    return frozenset(stem for found in _ENDED.finditer(sentence) for stem in terms(found["thing"]))
