"""Sentences that are not told as true: a play, a supposition, a text handed over, a joke that is taken back.

Hand-written, for English. "Pretend I am a customer. I bought a phone last week" tells nothing of its speaker.
"""

import re
from collections.abc import Sequence
from itertools import takewhile

from eunoe.workers.text.guarded import GuardedPattern

_OPENING = (
    r"\A\W{0,3}(?:(?:please|now|ok|okay|so|and|but|well|hey|hi|can you|could you|i want you to|i['’]d like you to|"
    r"for fun),? ){0,3}"
)
_PLAY = GuardedPattern(
    _OPENING + r"(?:pretend\b|act (?:as|like)\b|role-?play\b|play the (?:role|part) of\b|"
    r"imagine (?!(?:my|how|what|the|that[,!.])\b)\w|"
    r"let['’]s (?:pretend|imagine|role-?play|play (?:a (?:\w{1,20} )?game\b(?! of\b)|pretend))|once upon a time\b|"
    r"in (?:this|the|our) (?:story|game|scenario|role-?play),? I\b|"
    r"you(?:['’]re| are) (?:now )?(?:an?|the|my) [^.!?]{1,60} and I(?:['’]m| am)\b)",
    re.IGNORECASE,
)
"""The beginning of a sentence with which a play begins."""
_SUPPOSED = GuardedPattern(
    _OPENING + r"(?:suppose\b|assume (?:that )?(?:I|we|you|my|our)\b|hypothetical|let['’]s (?:say|assume|suppose)\b|"
    r"say (?:that )?(?:I|we)\b|what if\b)",
    re.IGNORECASE,
)
"""The beginning of a supposition."""
_HANDED_OVER = GuardedPattern(
    _OPENING + r"(?:(?:translate|proof-?read|re-?write|re-?phrase|paraphrase|summari[sz]e|correct|improve|edit|shorten|"
    r"check (?:the |my )?(?:grammar|spelling)|fix (?:the |my )?(?:grammar|spelling))\b[^.!?:]{0,80}:|"
    r"(?:write|draft|compose)\b[^.!?:\"“]{0,80}: ?[\"“]|how (?:do|would) (?:you|I) say [\"“])",
    re.IGNORECASE,
)
"""The beginning of a sentence that hands over a text to be worked on."""
_CONDITIONAL = re.compile(
    r"\A\W{0,3}(?:(?:and|but|so|even|only|maybe|then),? ){0,2}(?:"
    r"(?:if|imagine) (?!you\b)[^.!?]{1,160}?(?:\b(?:would|could|might)\b|\b(?:I|we|he|she|they|it)['’]d\b)|"
    r"(?:I|we)(?:['’]d| would) (?!(?:appreciate|like|love|prefer)\b)[^.!?]{1,160}? if (?!you\b))",
    re.IGNORECASE,
)
"""Suppositions: something would be so if something else were."""
_USER_STORY = re.compile(
    r"\A\W{0,3}as an? (?:[\w-]{1,20} ){0,2}?(?:user|customer|admin\w{0,10}|visitor|guest|buyer|seller),? I "
    r"(?:want|need|can|should|would)\b",
    re.IGNORECASE,
)
_JOKE = (
    r"(?:(?:I(?:['’]m| am| was)|was) )?(?:(?:just|only|totally|obviously) )?"
    r"(?:kidding|joking|jk|j/k|messing with you|pulling your leg)\b(?! (?:about|around|with|when|aside)\b)"
)
_TAKEN_BACK = re.compile(
    rf"\A\W{{0,3}}(?:(?:ha\w{{0,8}}|lol|no|nah|ok|okay|well|but|sorry)\b\W{{1,3}}){{0,3}}(?:{_JOKE}|april fools?\b|"
    r"(?:that|it) was (?:just |only )?a joke\b)",
    re.IGNORECASE,
)
_IN_JEST = re.compile(rf"[,;(–—-] ?{_JOKE}[^.!?]{{0,30}}[.!?)…]{{0,3}}\Z", re.IGNORECASE)


def told_as_true(sentences: Sequence[str]) -> list[str]:
    """The sentences of one line that are told as true: of `not_played` those that are no supposition and no joke.

    A joke that is taken back is whatever was said before.
    """
    told: list[str] = []
    for sentence in not_played(sentences):
        if takes_back(sentence):
            told.clear()
        elif not (_CONDITIONAL.match(sentence) or _USER_STORY.match(sentence) or _IN_JEST.search(sentence)):
            told.append(sentence)
    return told


def not_played(sentences: Sequence[str]) -> list[str]:
    """The sentences of one line before a play begins or a text is handed over: that goes on to the end of the line.

    So does a supposition, but for one that is a question in itself: "What if I move?" ends with its mark.
    """
    real = takewhile(lambda one: not (_PLAY.search(one) or _HANDED_OVER.search(one) or _goes_on(one)), sentences)
    return [one for one in real if not _SUPPOSED.search(one)]


def _goes_on(sentence: str) -> bool:
    """Whether what comes behind a sentence may belong to the supposition that begins with it."""
    return _SUPPOSED.search(sentence) is not None and not sentence.rstrip().endswith(("?", "？"))


def takes_back(text: str) -> bool:
    """Whether a text begins by saying that what was said before was a joke."""
    return _TAKEN_BACK.match(text) is not None
