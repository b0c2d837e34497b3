"""Long patterns that are tried only on texts that have a piece of one of their phrases.

Most lines match none of the long tables of English phrases, and a pattern tries all of its phrases at each place of a
line. To look for a piece of each phrase first, as plain text, takes a fraction of the time, and finds the same.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from math import inf
from typing import Any, Final

# by name: typeshed lacks both, and mypy says so only where it has no cache
codes: Any = import_module("re._constants")
parser: Any = import_module("re._parser")

_LEAST_CHARS: Final = 3
"""Length of the shortest piece that is worth looking for: shorter ones are in most lines."""
_ASCII: Final = 128

_Pieces = frozenset[str]


class GuardedPattern:
    """A compiled pattern that is not tried on an ASCII text without any of its ``pieces``.

    Its methods are those of `re.Pattern`.
    """

    def __init__(self, pattern: str, flags: re.RegexFlag) -> None:
        self.unguarded = re.compile(pattern, flags)
        self.pieces = pieces_of(pattern, flags)

    def search(self, text: str) -> re.Match[str] | None:
        """The first match in the text."""
        return self.unguarded.search(text) if self._may_match(text) else None

    def finditer(self, text: str) -> Iterable[re.Match[str]]:
        """All matches in the text, none of which overlap."""
        return self.unguarded.finditer(text) if self._may_match(text) else ()

    def sub(self, instead: str | Callable[[re.Match[str]], str], text: str) -> str:
        """The text with something else in the place of each match."""
        return self.unguarded.sub(instead, text) if self._may_match(text) else text

    def _may_match(self, text: str) -> bool:
        if not (self.pieces and text.isascii()):  # to ignore case, re takes the long s for an s
            return True
        lower = text.lower()
        for piece in self.pieces:  # noqa: SIM110 - any() over a generator takes twice the time
            if piece in lower:
                return True
        return False


def pieces_of(pattern: str, flags: re.RegexFlag) -> tuple[str, ...]:
    """Texts in lower case, one of which is part of each match in an ASCII text; none where a match may lack them.

    Raises `re.error` for what is no pattern.
    """
    found = _needed(parser.parse(pattern, flags)) or _Pieces()
    if min(map(len, found), default=0) < _LEAST_CHARS:
        return ()
    return tuple(sorted(one for one in found if not any(other in one for other in found - {one})))


def _needed(parts: Iterable[tuple[Any, Any]]) -> _Pieces | None:
    """Pieces of which a sequence needs one, those of the part whose shortest is longest; `None` where it needs none.

    No pieces at all where a part matches nothing in ASCII, such as a phrase in another script.
    """
    return max(_choices(parts), key=lambda pieces: (min(map(len, pieces), default=inf), -len(pieces)), default=None)


def _choices(parts: Iterable[tuple[Any, Any]]) -> Iterator[_Pieces]:
    run = ""
    for code, value in parts:
        char = _only_char(code, value)
        run += char
        if not char:
            if run:
                yield _Pieces([run])
            run = ""
            if (pieces := _pieces_of_part(code, value)) is not None:
                yield pieces
    if run:
        yield _Pieces([run])


def _only_char(code: Any, value: Any) -> str:  # noqa: ANN401 - as the parser has them
    """The one ASCII character that a part can match, in lower case; empty where there is none, or a choice."""
    members = value if code is codes.IN else [(code, value)]
    if any(kind is not codes.LITERAL for kind, _ in members):
        return ""
    # to ignore case, re takes an s for a long s: of other characters only marks count as no ASCII one
    chars = {chr(char).lower() for _, char in members if char < _ASCII or chr(char).isalpha()}
    return chars.pop() if len(chars) == 1 and all(map(str.isascii, chars)) else ""


def _is_beyond_ascii(code: Any, value: Any) -> bool:  # noqa: ANN401 - as the parser has them
    """Whether a part is a character, or one of some, none of which is an ASCII one in whatever case."""
    members = value if code is codes.IN else [(code, value)]
    return all(
        kind is codes.LITERAL and not any(map(str.isascii, chr(char).lower() + chr(char).upper()))
        for kind, char in members
    )


def _pieces_of_part(code: Any, value: Any) -> _Pieces | None:  # noqa: ANN401 - as the parser has them
    if _is_beyond_ascii(code, value):
        return _Pieces()
    if code is codes.SUBPATTERN:
        return _needed(value[-1])
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        least, _, repeated = value
        return _needed(repeated) if least else None
    if code is codes.BRANCH:
        each = [_needed(alternative) for alternative in value[1]]
        return None if None in each else _Pieces().union(*filter(None, each))
    return None
