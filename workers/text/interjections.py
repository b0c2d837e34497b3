"""Words before a sentence, and asides in it, that say nothing. Hand-written, for English."""

import re

_BREAK = r"(?:[,:;!.–—]|-(?!\w))"
_INTERJECTION = re.compile(
    r"^(?:(?:oh|wow|yeah|yep|yes|yup|nope|well|hey|hi|hello|ha|haha|actually|anyway|ok|okay|"
    r"so(?! (?:far|that|many|much|long|few|little|do|did|am|is|are)\b)|hmm|aw|"
    r"luckily|honestly|(?:it )?turn(?:s|ed) out(?: that)?|by the way|btw|and|"
    r"but|plus|also|because|definitely|absolutely|"
    rf"speaking of which)\b(?:\s|{_BREAK})+|"
    # these begin sentences too: "no alcohol for me", "good news", "thanks to her"
    rf"(?:no|sure|man|thanks|thank you|good|true|right)\b(?:\s{{0,2}}{_BREAK}(?:\s|{_BREAK})*|"
    r"\s+(?=(?:I|I['’]\w{1,2}|we|we['’]\w{1,2}|he|she|it|it['’]s|they|you|my|our|that['’]s|there|not)\b)))+",
    re.IGNORECASE,
)
_IRONY = re.compile(
    r"^\W*(?:oh,? (?:sure|yeah,? sure|of course)|yeah,? (?:right|sure)|(?:sure|right),? because|as if)\b.{0,60}"
    r"\b(?:love|adore|enjoy|like|thrilled|delighted|happy|can['’]t wait|dream|favou?rite)\b",
    re.IGNORECASE,
)
"""An opening that is seldom meant, before praise: "Oh sure, I love being shouted at"."""
_ASIDE = re.compile(r",? (?:but|so|and) (?:please )?(?:do not|don['’]t) (?:tell|ask|worry|laugh|judge)\b[^.!?]*")


def without_interjections(sentence: str) -> str:
    """The sentence without the interjections before it."""
    return _INTERJECTION.sub("", sentence)


def without_asides(sentence: str) -> str:
    """The sentence without requests to the one spoken to: "but don't laugh"."""
    return _ASIDE.sub("", sentence)


def is_ironic(sentence: str) -> bool:
    """Whether a sentence opens as ironic praise does."""
    return _IRONY.search(sentence) is not None
