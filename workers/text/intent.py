"""Recognizes what a speaker states of themselves, wants always or never, and asks of all replies. Written by hand."""

import re
from collections.abc import Set as AbstractSet

_STATES = re.compile(
    # what stands before is looked at where there is an I, not at each character
    r"\bI(?<!\bcan I)(?<!\bshould I)(?<!\bdo I)(?<!\bcould I)(?:['’](?:m|ve|d|ll))?\b"
    r"|\bmy\b|\b(?:ich|mein(?:e[mnrs]?)?|mir|yo|mi|mis)\b"
    r"|내가|나는|저는|제가|我(?:的|在|是|有)|私(?:は|の)",
)
_WISH = re.compile(
    r"\b(?:always|never|prefer(?:red|s)?|preferably|whenever|every time|each time|from now on|in (?:the )?future"
    r"|(?:when|if) I ask|I(?:['’]d| would) (?:like|rather|love) (?:you|it)"
    r"|please (?:don['’]t|avoid|keep|remember|make sure)|make sure (?:to|you|that)|remember (?:to|that)|instead of"
    r"|immer|nie(?:mals)?|bevorzuge?|lieber|ab jetzt|künftig|jedes Mal"
    r"|siempre|nunca|prefiero|cada vez|de ahora en adelante)\b"
    r"|항상|절대|앞으로|선호|总是|從不|从不|每次|以后|偏好|いつも|必ず|決して",
    re.IGNORECASE,
)
_INSTRUCTION = re.compile(
    r"(?:^|[.!?]\s)\s{0,8}(?:please |also |and )?(?:always|never|from now on|going forward)\b"
    r"(?! (?:\w+ed|been|had|have|really|actually|thought|heard|done|tried|used to|mind)\b)"
    r"|\b(?:when(?:ever)?|if|each time|every time) I ask\b|\bI(?: always| really| usually| generally)? prefer\b"
    r"|\bI(?:['’]d| would) (?:prefer|rather)\b|\bfrom now on\b|\bplease (?:always|never|remember)\b"
    r"|\b(?:ab jetzt|künftig|wenn ich (?:dich |nach )?frage|ich bevorzuge|de ahora en adelante|prefiero)\b"
    r"|앞으로|以后|從現在|从现在|これからは",
    re.IGNORECASE,
)


_SELF = frozenset(["i", "my", "ich", "mein", "meine", "meinem", "meinen", "meiner", "meines", "mir", "yo", "mi", "mis"])
_WILL = frozenset(
    """
    always never prefer preferred prefers preferably whenever time future ask like rather love avoid don keep remember
    make instead immer nie niemals bevorzug bevorzuge lieber ab künftig jedes siempre nunca prefiero vez ahora
    """.split()  # noqa: SIM905 - a table of words
)
_TOLD = frozenset(
    """
    always never now going ask prefer rather remember ab künftig frage bevorzuge ahora prefiero
    """.split()  # noqa: SIM905 - a table of words
)


def states_self(text: str, words: AbstractSet[str]) -> bool:
    """Whether the text states something of its speaker, in the first person.

    ``words``: its words in lower case; they save most searches.
    """
    return _may(text, words, _SELF) and _STATES.search(text) is not None


def wishes(text: str, words: AbstractSet[str]) -> bool:
    """Whether the text says how its speaker always, never or whenever wants things to be; ``words`` as above."""
    return _may(text, words, _WILL) and _WISH.search(text) is not None


def instructs(text: str, words: AbstractSet[str]) -> bool:
    """Whether it tells the one spoken to how to reply from now on, or what its speaker prefers; ``words`` as above."""
    return _may(text, words, _TOLD) and _INSTRUCTION.search(text) is not None


def _may(text: str, words: AbstractSet[str], needed: frozenset[str]) -> bool:
    """Whether a pattern may match: it needs one of these words, or a script without spaces."""
    return not text.isascii() or not words.isdisjoint(needed)
