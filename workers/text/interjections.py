"""Words before a sentence, and asides in it, that say nothing. Hand-written, for English."""

import re

_BREAK = r"(?:[,:;!.–—]|-(?!\w))"
_LAUGHTER = r"(?:lol|lmao|rofl|omg|(?:ha){2,8}h?|(?:he){2,8}|xd|ugh|yay|tbh|btw|imo|ngl)"
"""Laughter, and what people write in haste beside what they say."""
_FACE = r"(?:[:;=][-']?[()DPpOo3*/|]{1,4}|<3)(?![\w(])"
_INTERJECTION = re.compile(
    rf"^(?:(?:{_LAUGHTER}|oh|wow|yeah|yep|yes|yup|nope|well|hey|hi|hello|ha|haha|actually|anyway|ok|okay|"
    r"so(?! (?:far|that|many|much|long|few|little|do|did|am|is|are)\b)|hmm|aw|"
    r"luckily|honestly|(?:it )?turn(?:s|ed) out(?: that)?|by the way|and|"
    r"but|plus|also|because|definitely|absolutely|"
    rf"speaking of which)\b(?:\s|{_BREAK})+|"
    # these begin sentences too: "no alcohol for me", "good news", "thanks to her"
    r"(?:no|sure|man|guys|folks|thanks|thank you|good(?: (?:morning|afternoon|evening))?|true|right)\b"
    rf"(?:\s{{0,2}}{_BREAK}(?:\s|{_BREAK})*|"
    r"\s+(?=(?:I|I['’]\w{1,2}|we|we['’]\w{1,2}|he|she|it|it['’]s|they|you|my|our|that['’]s|there|not)\b)))+",
    re.IGNORECASE,
)
_IRONY = re.compile(
    r"^\W*(?:oh,? (?:sure|yeah,? sure|of course)|yeah,? (?:right|sure)|(?:sure|right),? because|as if)\b.{0,60}"
    r"\b(?:love|adore|enjoy|like|thrilled|delighted|happy|can['’]t wait|dream|favou?rite)\b",
    re.IGNORECASE,
)
"""An opening that is seldom meant, before praise: "Oh sure, I love being shouted at"."""
_SIGNS_BEFORE = re.compile(
    # not what opens a quotation, a list, a heading, an amount or code
    rf"^(?:(?:{_FACE}|[^\w\s\"'“”‘’()\[\]{{}}<>$€£¥%#+*`~@&=|\\/.,;:!?¡¿–—_-]{{1,40}}) *)+",
)
"""Faces and pictures before a sentence."""
_LAUGHTER_BEHIND = re.compile(rf"(?:[ ,]{{1,3}}(?:{_LAUGHTER}|{_FACE})){{1,4}}(?=[.!?…]{{0,4}} ?\Z)", re.IGNORECASE)
_ASIDE = re.compile(r",? (?:but|so|and) (?:please )?(?:do not|don['’]t) (?:tell|ask|worry|laugh|judge)\b[^.!?]*")


def without_interjections(sentence: str) -> str:
    """The sentence without the interjections, faces and pictures before it, and the laughter and faces behind it."""
    return _LAUGHTER_BEHIND.sub("", _INTERJECTION.sub("", _SIGNS_BEFORE.sub("", sentence)))


def without_asides(sentence: str) -> str:
    """The sentence without requests to the one spoken to: "but don't laugh"."""
    return _ASIDE.sub("", sentence)


def is_ironic(sentence: str) -> bool:
    """Whether a sentence opens as ironic praise does."""
    return _IRONY.search(sentence) is not None
