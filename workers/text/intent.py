"""Recognizes what a speaker states of themselves, and what they always or never want. Hand-written tables."""

import re

_STATES = re.compile(
    r"(?<!\bcan )(?<!\bshould )(?<!\bdo )(?<!\bcould )\bI(?:['’](?:m|ve|d|ll))?\b"
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


def states_self(text: str) -> bool:
    """Whether the text states something of its speaker, in the first person."""
    return _STATES.search(text) is not None


def wishes(text: str) -> bool:
    """Whether the text says how its speaker always, never or whenever wants things to be."""
    return _WISH.search(text) is not None
