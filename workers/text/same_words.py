"""Comparison of texts by their words: whether one only says again what another says."""

import re

from eunoe.workers.text.terms import composed
from eunoe.workers.text.tokens import ACCENTS, VOWEL_SIGNS

_WORD = re.compile(
    rf"[\w{ACCENTS}{VOWEL_SIGNS}]+(?:[+#]{{1,2}}(?!\w)|[-−](?![\w-]))?"  # C++, C#, a blood group of A-
    r"|(?<!\w)[-−+$€£¥<>](?=\d)|(?<=\d)%"  # -5, $5, <5, 5%
)


def same_words(text: str) -> str:
    """The words of a text for comparison: equal for texts that differ in case, spaces and punctuation only.

    Accents and vowel signs are part of their words, composed or not, and so are signs that make another word or number
    of it ("C++", "A-", "-5").
    """
    return " ".join(_WORD.findall(composed(text.casefold().replace("_", " "))))
