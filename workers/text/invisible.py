"""Takes out what cannot be seen, so that a text tells a model what it shows to people, and no more."""

import re
from collections.abc import Callable

_CONTROLS = r"\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f"
"""All but the tab, the ends of lines and of pages."""
_IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""The property Default_Ignorable_Code_Point of Unicode 16, and the marks of interlinear annotations."""

_EMOJI = (
    "#*0-9©®‼⁉™ℹ\u2190-\u21ff\u2300-\u2328\u232b-\u276b\u2772-\u27bf\u2934\u2935\u2b05-\u2b55〰〽㊗㊙"
    "\U0001f000-\U0001faff"
)
"""Signs that may be shown as emoji; no brackets."""
_VARIED = "\u1000-\u109f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Ideographs, and the letters of Myanmar."""
_MONGOLIAN = "\u1800-\u180a\u1820-\u18aa"
_JOINED = (
    "\u0620-\u08ff\u0900-\u0dff\u1000-\u109f\u1780-\u17b3\u17b6-\u17ff\u1800-\u180a\u1810-\u18af\u1a00-\u1cff\ua800-\uabff"
    "\U00010a00-\U00011fff\U0001e900-\U0001e95f"
)
"""Scripts whose letters join, from Arabic to those of India and the south-east of Asia."""


def _flag_of(region: str) -> str:
    """The tag characters of a region's flag, behind a black flag."""
    return "".join(chr(0xE0000 + ord(char)) for char in region) + "\U000e007f"


_SEEN = "|".join(
    (
        f"(?<=[{_EMOJI}])[\ufe0e\ufe0f]?\u200d(?=[{_EMOJI}])",
        f"(?<=[{_EMOJI}])[\ufe0e\ufe0f]",
        f"(?<=[{_JOINED}])[\u200c\u200d]",
        f"(?<=[{_VARIED}])[\ufe00-\ufe02\U000e0100-\U000e01ef]",
        f"(?<=[{_MONGOLIAN}])[\u180b-\u180f]",
        f"(?<=\U0001f3f4)(?:{'|'.join(map(_flag_of, ('gbeng', 'gbsct', 'gbwls')))})",
    )
)
"""Ignorable characters that change the look of what stands before them."""
_INVISIBLE = re.compile(f"(?P<seen>{_SEEN})|[{_CONTROLS}{_IGNORABLE}]")


def without_invisible(text: str) -> str:
    """The text without controls and characters that are not shown (Unicode's default-ignorable ones).

    They can hold what no reader sees: sentences in tag characters or variation selectors, words cut by soft hyphens
    and zero-width spaces, an order turned round by bidirectional controls. Spaces, tabs and ends of lines stay. So does
    what gives the sign before it its look, once: a joiner (ZWJ, ZWNJ) behind a letter of Arabic, of an Indic script or
    of another whose letters join, a ZWJ between two emoji, a variation selector behind an emoji, an ideograph or a
    Mongolian letter, and the tags that spell the flags of England, Scotland and Wales. Dropped with the rest are
    joiners in other scripts, Hangul fillers and selectors of mathematical signs: the text is read without them.
    """
    return _INVISIBLE.sub(r"\g<seen>", text)


def invisible_written(text: str, write: Callable[[str], str]) -> str:
    """The text with ``write`` of each character that `without_invisible` drops, in its place."""
    return _INVISIBLE.sub(lambda found: found["seen"] or write(found[0]), text)
