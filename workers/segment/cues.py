"""Cues in English dialogue for the beginning, end or continuation of a topic, line by line."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from eunoe.workers.segment.content_words import Words, union
from eunoe.workers.text.bounds import without_middle
from eunoe.workers.text.guarded import GuardedPattern
from eunoe.workers.text.terms import terms

Strengths = NDArray[np.float64]
"""Shape (n,): the strength of a cue in each line; 0 if absent."""

_LEAD = r"(?:please|hi|hello|hey|car|okay|ok|yes|also|could you|can you|i need to|i want to|i need you to)"
_WISH = r"(?:i need|i want|i would|i'd|i am|i'm)"
_THING = r"(?:pets|kids|hobbies|plans|siblings|children|new)"

_PATTERNS: Mapping[str, str] = {
    "greeting": r"^\W*(?:hi|hello|hey|howdy|greetings|good (?:morning|afternoon|evening|day))\b",
    "opener": (
        r"\b(?:by the way|btw|speaking of|anyways?|on another note|out of curiosity|changing the subject|guess what|"
        r"long time no see|what'?s (?:up|new|been (?:going on|up|happening))|what(?:'s| is) going on|"
        r"how(?:'s| is| are| have| has|'ve) (?:it|you|things|everything|life)|"
        r"since we (?:last )?(?:talked|spoke|chatted))\b"
    ),
    "request": (
        r"\b(?:i(?: a|')?m (?:also )?(?:looking|trying|hoping|interested|planning)|"
        r"i (?:also |would also |really )?(?:need|want|would like)|i'd (?:also )?like|can you|could you|can i|please|"
        r"help me|find me|give me|tell me|show me|remind me|schedule|book|where is|where's|what(?:'s| is| are) the|"
        r"is there|are there|will it|is it going)\b"
    ),
    "command": (
        rf"^\W*(?:{_LEAD}\W+)*(?:schedule|remind|set|find|check|give|show|tell|get|navigate|direct|book|make|locate|"
        r"search|look|put|add|what(?:'s| is| will)? the|where(?:'s| is)|when(?:'s| is)|will (?:it|there)|"
        rf"is it (?:going|gonna)|{_WISH})\b"
    ),
    "thanks": (
        r"\b(?:thanks?|thank you|thx|you(?:'re| are) (?:very |most |quite )?welcome|no problem|my pleasure|"
        r"glad (?:i|to|we)|happy to help)\b"
    ),
    "farewell": (
        r"\b(?:bye|good ?bye|see (?:you|ya)|talk (?:to you )?(?:soon|later)|take care|catch you|keep me posted|"
        r"good luck|have an? (?:\w+ )?(?:day|night|time|evening|trip|stay|one|meal|weekend)|enjoy (?:your|the)|"
        r"drive (?:safe|carefully)|that(?:'s| is| will be|'ll be) (?:all|it|everything)|(?:gotta|got to|have to) go)\b"
    ),
    "anything_else": (
        r"\b(?:anything else|anything more|something else|"
        r"(?:any )?(?:more|further|other|additional) (?:help|assistance|information)|"
        r"(?:assist|help) (?:you )?(?:with )?(?:any|further|more|today|further)|need any ?(?:more|other|thing)|"
        r"else (?:i can|you need|today))\b"
    ),
    "done": (
        r"\b(?:reference number|booked|booking|reserved|reservation|confirmed|all set|scheduled|reminder|will remind|"
        r"i(?:'ve| have| will|'ll) (?:set|sent|send|added|add|booked|made)|setting|set for|navigat\w+)\b"
    ),
    "answer": (
        r"^\W*(?:yes|yeah|yep|yup|yea|no|nope|nah|sure|ok|okay|certainly|absolutely|definitely|of course|correct|right|"
        r"not (?:really|yet|at)|maybe|perhaps|either|neither|both|for sure|exactly|agreed|me (?:too|neither)|same|"
        r"i (?:do|did|am|have|agree|see|know)\b(?! \w+ \w+ \w+))\b"
    ),
    "personal": (
        r"\b(?:do you (?:have|like|work|live|play|enjoy|ever|watch|want|do|go|read|listen|cook|travel)|"
        r"are you (?:a|an|in|from|married|still|into)|have you (?:ever|been|got|tried|seen|read)|"
        r"what (?:do|are|is|kind|type|about) you|what(?:'s| is) your|where (?:do|are) you|"
        rf"how (?:old|long|many|about)|any {_THING})\b"
    ),
    "asks": r"[?？]",
    "ends_asking": r"[?？][\s\"'”’)]*$",
}
_COMPILED = {name: GuardedPattern(pattern, re.IGNORECASE) for name, pattern in _PATTERNS.items()}

_BACKWARD = re.compile(
    r"^\W*+(?:[\w']++\W++){0,5}?(?:its?|it's|that|that's|this|they|them|their|those|these|he|him|his|she|her|there|ones?|"
    r"too|either|instead|then)\b",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"[^.!?？;]+[?？]?")
_ABOUT_YOU = re.compile(
    r"\b(?:do you|are you|have you|what (?:do|are|is) you|what(?:'s| is) your|where (?:do|are) you|how old|"
    rf"any {_THING})\b",
    re.IGNORECASE,
)
_FOLLOWS_UP = re.compile(
    r"\b(?:what (?:kind|type|sort|happened|did|was|were|made|got you|inspired)|which|why|who|"
    r"how (?:long|did|was|were|come|much|often|many|about you|about your)|where (?:did|was)|what about you|and you|"
    r"you too|did (?:it|you|they|he|she)|(?:was|is) (?:it|that)|are (?:they|those))\b|\b(?:you|really) ?\?",
    re.IGNORECASE,
)
_RECENT_LINES = 4


def read_cues(texts: Sequence[str], words: Words, names: Collection[str]) -> dict[str, Strengths]:
    """Cue name → strengths per line; ``words`` are the lines' content words, without those of ``names``."""
    texts = [without_middle(text) for text in texts]  # topic changes show at the ends of an utterance
    cues = {name: _strengths(pattern.search(text) is not None for text in texts) for name, pattern in _COMPILED.items()}
    closing = np.maximum.reduce([cues[name] for name in ("thanks", "done", "farewell")])
    return cues | {
        "backward": _strengths(_BACKWARD.search(text) is not None for text in texts),
        "closing": closing,
        "winding_up": np.maximum(closing, cues["anything_else"]),
        "errand": cues["command"] * (1 - cues["answer"]),
        "open_question": cues["ends_asking"] * (1 - cues["anything_else"]),
        "new_question": _strengths(_asks_anew(text, _recent(words, i), names) for i, text in enumerate(texts)),
        "length": np.log1p([float(len(text.split())) for text in texts]),
    }


def _strengths(shown: Iterable[bool]) -> Strengths:
    return np.array(list(shown), np.float64)


def _recent(words: Words, line: int) -> frozenset[str]:
    return union(words[max(0, line - _RECENT_LINES) : line])


def _asks_anew(text: str, recent: frozenset[str], names: Collection[str]) -> bool:
    """Whether the last question is about the other person, does not follow up, and has a new word."""
    questions = [clause for clause in _CLAUSE.findall(text) if clause[-1] in "?？"]
    if not questions or not _ABOUT_YOU.search(questions[-1]) or _FOLLOWS_UP.search(questions[-1]):
        return False
    return not recent.issuperset(terms(questions[-1], names))
