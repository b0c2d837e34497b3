"""The JSON in the text of an answer: without a model's thoughts, and mended where it is almost right."""

import json
import re
from contextlib import suppress
from typing import Final

DECODER: Final = json.JSONDecoder(strict=False)
OPENING: Final = re.compile(r"[{\[]")

_NAMES = r"(?:seed:)?(?:think|thinking|thought|reasoning)"
_LEFT, _RIGHT = r"[<\[◁]", r"[>\]▷]"
_OPEN = re.compile(rf"{_LEFT}{_NAMES}{_RIGHT}", re.IGNORECASE)
_CLOSED = re.compile(rf"{_LEFT}/{_NAMES}{_RIGHT}", re.IGNORECASE)
_CHANNEL, _FINAL, _MESSAGE = "<|channel|>", "<|channel|>final", "<|message|>"
_BARE_CHANNEL, _BARE_FINAL = "analysis", "assistantfinal"
"""The channels of gpt-oss, and what is left of them where a server leaves out the special tokens."""
_MARK = re.compile(rf"{_LEFT}/?{_NAMES}{_RIGHT}|<\|channel\|>|\A\s*{_BARE_CHANNEL}", re.IGNORECASE)
_JSON = re.compile(r"[{\[]\s*[\"{\]}]")
"""The beginning of an object, or of a list of objects."""
_QUOTE = '\\"'
_OTHER_OBJECT = re.compile(r"{\s{0,99}['“]")
"""The beginning of an object in another notation: an empty list in it is no answer."""
_WORDS: Final = {"None": "null", "True": "true", "False": "false"}
_OTHER = re.compile(r'"(?:[^"\\]|\\.)*+"|\'(?:[^\'\\]|\\.)*+\'|“[^“”]*+”|\b(?:None|True|False)\b', re.DOTALL)
"""Strings, also of Python or in typographic quotation marks, and the words of Python."""
_ALMOST = re.compile(r'"(?:[^"\\]|\\.)*+\\?(?:"|\Z)|//[^\n]*|/\*[^*]*\*/|,(?=\s*[}\]])', re.DOTALL)
"""Strings, comments, and commas behind the last item."""


def json_part(text: str) -> str:
    """The text of an answer without thoughts, with its JSON mended if that makes it readable.

    Mended are commas behind the last item, comments, JSON that is written as a string, and what is written as a
    dictionary of Python or with typographic quotation marks.
    """
    bare = without_thoughts(text)
    if _begins_readably(bare):
        return bare
    mended = _mended(bare)
    for other in (_unquoted(bare), mended, _retold(mended)):
        if _begins_readably(other):
            return other
    return bare


def without_thoughts(text: str) -> str:
    """The text without the thoughts of a reasoning model, closed or not. Marks of thoughts inside of JSON are text."""
    if _MARK.search(text) is None or _is_json_alone(text):
        return text
    if (closed := _CLOSED.search(text)) is not None and _OPEN.match(text.lstrip()):
        answer = text[closed.end() :]
        if _is_json_alone(answer):
            return answer
    if _FINAL in text:
        return text.rpartition(_FINAL)[2].partition(_MESSAGE)[2].partition("<|")[0]
    if text.lstrip().startswith(_BARE_CHANNEL) and _BARE_FINAL in text:
        return text.rpartition(_BARE_FINAL)[2]
    return "" if text.lstrip().startswith(_CHANNEL) else _without_marked(text)


def _without_marked(text: str) -> str:
    """The text without what stands between marks of thoughts, and up to an end of thoughts that have no beginning."""
    kept: list[str] = []
    at = 0
    while (opening := _OPEN.search(text, at)) is not None and (closing := _CLOSED.search(text, opening.end())):
        kept.append(text[at : opening.start()])
        at = closing.end()
    bare = "".join((*kept, text[at:]))
    if _OPEN.match(bare.lstrip()):
        return ""
    closed = _CLOSED.search(bare)
    return bare if closed is None else bare[closed.end() :]


def _is_json_alone(text: str) -> bool:
    """Whether all marks of thoughts in a text stand inside of its first JSON value."""
    opening = OPENING.search(text)
    if opening is None:
        return False
    try:
        _, end = DECODER.raw_decode(text, opening.start())
    except (ValueError, RecursionError):
        return False
    return _MARK.search(text[: opening.start()]) is None and _MARK.search(text, end) is None


def _retold(text: str) -> str:
    """The text from its first bracket on, with the strings and words of other notations as those of JSON."""
    opening = OPENING.search(text)
    return "" if opening is None else _OTHER.sub(_token, text[opening.start() :])


def _token(found: re.Match[str]) -> str:
    """A string or word as JSON writes it."""
    token = found.group()
    if token[0] in "'“":
        inner = token[1:-1].replace("\\'", "'").replace(_QUOTE, '"').replace('"', _QUOTE)
        return f'"{inner}"'
    return token if token[0] == '"' else _WORDS[token]


def _begins_readably(text: str) -> bool:
    """Whether the first object or list of objects in a text is whole JSON."""
    found, other = _JSON.search(text), _OTHER_OBJECT.search(text)
    if found is None or (other is not None and other.start() < found.start()):
        return False
    try:
        DECODER.raw_decode(text, found.start())
    except (ValueError, RecursionError):
        return False
    return True


def _unquoted(text: str) -> str:
    """The text that a JSON string holds; empty for any other text."""
    if text.lstrip().startswith('"'):
        with suppress(ValueError):
            inner, _ = DECODER.raw_decode(text.lstrip())
            return str(inner)
    return ""


def _mended(text: str) -> str:
    """The text without comments, and then without commas behind a last item."""
    return _ALMOST.sub(_string_alone, _ALMOST.sub(_string_alone, text))


def _string_alone(found: re.Match[str]) -> str:
    return found.group() if found.group().startswith('"') else ""
