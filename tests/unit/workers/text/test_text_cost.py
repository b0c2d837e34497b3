"""Any text costs bounded time: each stage takes half a second at most, each pattern less."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping

import pytest

from eunoe.workers.text.bounds import MAX_SENTENCE_CHARS, without_middle
from eunoe.workers.text.brackets import without_brackets
from tests.support import text_cost
from tests.support.text_cost import (
    PATTERN_S,
    SHORT_BYTES,
    SHORT_TEXTS,
    TEXT_BYTES,
    TEXTS,
    WORD_BYTES,
    WORD_S,
    text_seconds,
    word_seconds,
)

STAGE_S = 0.5
"""Seconds of processor time that a stage may take for one text."""
OF_A_BUSY_MACHINE_S = 900
"""Ten seconds of processor time take so long where others have the rest of it; no case can hold its process longer."""
STAGES = {"segment", "compress", "summarize", "update", "link", "tree", "blend", "respond"}


Found = dict[str, dict[str, float] | None]


def measured(group: str, *names: str) -> Found:
    command = [sys.executable, "-m", "tests.support.text_cost", group, *names]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    )
    return json.loads(done.stdout)


def too_slow(found: Found) -> dict[str, dict[str, float] | None]:
    """Case → the parts above their bound in seconds; `None` for one that was killed or failed."""
    slow = {
        name: parts and {part: round(s, 2) for part, s in parts.items() if s > bound_of(name, part)}
        for name, parts in found.items()
    }
    return {name: parts for name, parts in slow.items() if parts is None or parts}


def slow_each_time(group: str, found: Found, again: int = 3) -> Mapping[str, object]:
    """What is too slow in ``found`` and in each further measure, in which a machine that is slow just then counts less.

    Another process may take the processor's caches, too.
    """
    slow = too_slow(found)
    for _ in range(again):
        slow = slow and too_slow(measured(group, *slow))
    return slow


def test_the_texts_are_as_long_as_an_utterance_may_be():
    assert all(TEXT_BYTES - 60 <= len(text.encode()) <= TEXT_BYTES for text in TEXTS.values())


def test_the_short_texts_are_the_same_in_less():
    assert SHORT_TEXTS.keys() == TEXTS.keys()
    assert all(SHORT_BYTES - 60 <= len(text.encode()) <= SHORT_BYTES for text in SHORT_TEXTS.values())
    assert all(text[-1] == SHORT_TEXTS[name][-1] for name, text in TEXTS.items() if text.endswith("x"))


@pytest.mark.parametrize(
    ("power", "whole_s"), [(1, 0.01), (1, 0.1), (2, 0.19), (2, 0.21), (2, 30.0), (3, 1.0), (3, 900.0)]
)
def test_what_the_short_text_does_not_show_to_be_fast_reads_the_whole(
    monkeypatch: pytest.MonkeyPatch, power: int, whole_s: float
):
    monkeypatch.setattr(text_cost, "_seconds_of", lambda pattern, text: whole_s * (len(text) / TEXT_BYTES) ** power)
    found = text_seconds(re.compile("a"), "a" * SHORT_BYTES, "a" * TEXT_BYTES)
    assert (found > PATTERN_S) == (whole_s > PATTERN_S)


@pytest.mark.parametrize(("power", "whole_s"), [(1, 0.001), (1, 0.03), (2, 0.02), (2, 0.03), (3, 0.024), (3, 0.026)])
def test_few_words_that_do_not_show_many_to_be_fast_are_followed_by_many(
    monkeypatch: pytest.MonkeyPatch, power: int, whole_s: float
):
    monkeypatch.setattr(text_cost, "_seconds_of", lambda pattern, text: whole_s * (len(text) / WORD_BYTES) ** power)
    assert (word_seconds(re.compile("a"), "a") > WORD_S) == (whole_s > WORD_S)


def test_a_case_that_was_killed_leaves_its_neighbours_their_measures(monkeypatch: pytest.MonkeyPatch):
    tried = []

    def in_a_process(some):
        tried.append(list(some))
        return None if "endless" in some else {name: {"text": 0.1} for name in some}

    monkeypatch.setattr(text_cost, "_in_a_process", in_a_process)
    cases = dict.fromkeys(("a", "b", "endless", "c", "d"), dict)
    found = text_cost.measured(cases, 3)
    assert found == {name: None if name == "endless" else {"text": 0.1} for name in cases}
    assert tried == [["a", "b", "endless"], ["a"], ["b"], ["endless"], ["c", "d"]]


def test_a_measure_that_is_taken_again_counts_no_slowness_of_the_machine(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(text_cost, "_slowness", iter([1.0, 3.0]).__next__)
    assert text_cost.steady_seconds(lambda: {"text": 0.3}) == {"text": 0.15}


@pytest.mark.slow
@pytest.mark.timeout(OF_A_BUSY_MACHINE_S)
def test_every_stage_reads_every_text_in_half_a_second():
    found = measured("stages")
    assert set(found["'a'"] or {}) >= STAGES
    assert not slow_each_time("stages", found)


@pytest.mark.timeout(OF_A_BUSY_MACHINE_S)
def test_every_pattern_reads_every_text_in_time_that_grows_with_its_length():
    found = measured("patterns")
    assert len(found) > 80
    assert not slow_each_time("patterns", found)


def bound_of(case: str, part: str) -> float:
    if case in TEXTS:
        return STAGE_S
    return PATTERN_S if part in TEXTS else WORD_S


@pytest.mark.parametrize("length", [1, MAX_SENTENCE_CHARS])
def test_a_sentence_within_the_bound_stays(length: int):
    assert without_middle("a" * length) == "a" * length


def test_a_longer_sentence_keeps_both_ends():
    assert without_middle("a" * 600 + "b" * 600) == "a" * 500 + " … " + "b" * 500


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("look [a photo] here", "look   here"),
        ("[a] [b", "  [b"),
        ("[[a] b]", "  b]"),
        ("a] b", "a] b"),
        ("[[[", "[[["),
    ],
)
def test_brackets_are_taken_out(text: str, left: str):
    assert without_brackets(text) == left
