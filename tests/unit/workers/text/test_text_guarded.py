import importlib
import pkgutil
import re
from collections.abc import Iterable, Iterator
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunoe.workers.text.guarded import GuardedPattern, pieces_of


def guarded() -> Iterator[tuple[str, GuardedPattern]]:
    """Each guarded pattern of the workers with its place."""
    package = importlib.import_module("eunoe.workers")
    for found in pkgutil.walk_packages(package.__path__, "eunoe.workers."):
        for name, value in vars(importlib.import_module(found.name)).items():
            named = value.items() if isinstance(value, dict) else [(name, value)]
            yield from ((f"{found.name}.{key}", one) for key, one in named if isinstance(one, GuardedPattern))


GUARDED = dict(guarded())


def spans(matches: Iterable[re.Match[str]]) -> list[tuple[int, int]]:
    return [found.span() for found in matches]


def assert_same(pattern: GuardedPattern, text: str) -> None:
    """Assert that a guarded pattern finds what it finds without its guard."""
    bare = pattern.unguarded
    found, expected = pattern.search(text), bare.search(text)
    assert (found and found.span()) == (expected and expected.span())
    assert spans(pattern.finditer(text)) == spans(bare.finditer(text))
    assert pattern.sub(lambda match: f"<{match.group()}>", text) == bare.sub(lambda match: f"<{match.group()}>", text)


@pytest.mark.parametrize(
    ("pattern", "pieces"),
    [
        (r"\b(?:moved|moving (?:in|out))\b", ("mov",)),
        (r"\b(?:sold|bought|lost my (?:job|keys))\b", ("bought", "lost my ", "sold")),
        (r"\bgave (?:it )?up\b", ("gave ",)),
        (r"\b(?:any(?: )?more|more)\b", ("more",)),
        (r"can['’]t wait", ("can't wait",)),
        (r"(?:really ){1,3}(?:late|l8)", ("really ",)),
        (r"(?:really ){0,3}late", ("late",)),
        (r"(?:sold)?", ()),
        (r"sold|", ()),
        (r"\b(?:I|my|mine)\b", ()),
        (r"(?=sold)\w+", ()),
        (r"(?-i:[A-Z])\w+ Street", (" street",)),
        (r"[sS]old", ("sold",)),
        (r"[st]old", ("old",)),
        (r"[^s]old", ("old",)),
        (r"straße", ("stra",)),
        ("(?:[x\u017f]old|[k\u212a]ept)", ("kept", "old")),
        (r"\b(?:when|since)\b|언제|[什几]时候", ("since", "when")),
        (r"\b(?:when|cuándo|[àâ] quand)\b", ("when",)),
        (r"\b(?:when|\u017f|\u0131)\b", ()),
        (r"언제", ()),
        (r"(?:언제)?when", ("when",)),
    ],
)
def test_pieces_are_what_each_match_has(pattern: str, pieces: tuple[str, ...]):
    assert pieces_of(pattern, re.IGNORECASE) == pieces


def test_letters_that_are_ascii_but_for_their_case_are_found():
    pattern = GuardedPattern("(?:[\u017fx]old|kept|\u212aeep)", re.IGNORECASE)
    for text in ("\u017fold", "\u212aept", "SOLD", "it was Kept", "KEEP"):
        assert pattern.search(text) is not None, text
        assert_same(pattern, text)


def test_each_guarded_pattern_has_pieces_or_needs_none():
    assert len(GUARDED) >= 20
    without = {name for name, pattern in GUARDED.items() if not pattern.pieces}
    assert without == {
        f"eunoe.workers.segment.cues.{name}" for name in ("greeting", "command", "answer", "asks", "ends_asking")
    }


ASCII = st.characters(max_codepoint=127)
CASES = 32
"""So many letters in a row have the case of their own."""


def in_cases(text: str, swapped: int) -> str:
    """The text with the other case of each letter whose bit is set, the bits over and over again."""
    return "".join(char.swapcase() if swapped >> place % CASES & 1 else char for place, char in enumerate(text))


@cache
def told(name: str) -> st.SearchStrategy[str]:
    """Texts in which the pattern of this name matches, and a few others.

    Cases are mixed behind the matches: with the flag, each letter would be a choice of its own, thousands of them.
    """
    pattern = GUARDED[name].unguarded
    in_one_case = re.compile(pattern.pattern, pattern.flags & ~re.IGNORECASE)
    matches = st.builds(in_cases, st.from_regex(in_one_case, alphabet=ASCII), st.integers(0, 2**CASES - 1))
    return st.one_of(matches, matches.map(str.upper), st.text(ASCII))


def test_all_cases_are_told():
    assert {in_cases("ab1", swapped) for swapped in range(4)} == {"ab1", "Ab1", "aB1", "AB1"}


@pytest.mark.parametrize("name", GUARDED)
@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_a_guard_hides_no_match(name: str, data: st.DataObject):
    assert_same(GUARDED[name], data.draw(told(name)))
