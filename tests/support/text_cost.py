"""Measures the processor time of hostile texts: ``python -m tests.support.text_cost patterns`` or ``stages`` [case]….

Cases run in processes of their own under a hard limit of processor time, because a pattern that does not end holds its
process and cannot be interrupted: where one was killed, each of its cases runs again by itself. Writes JSON: case →
part → seconds, or null for a case that was killed. For cases that are named, a machine that is slow just then does not
count: their seconds are those of one on which `_loop` takes `LOOP_S`.
"""

import asyncio
import importlib
import itertools
import json
import os
import pkgutil
import re
import resource
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from eunoe.schemas.decisions import Work
from eunoe.schemas.events import Ask, Line, Provenance, Strategy
from eunoe.schemas.memory import Memory
from eunoe.workers.link.cues import judge_by_cues
from eunoe.workers.link.judge import RelationPair
from eunoe.workers.link.settings import LinkSettings
from eunoe.workers.stage import Stage
from eunoe.workers.text.guarded import GuardedPattern
from eunoe.workers.update.english.rules import judge_by_rules
from eunoe.workers.update.operator import OperationPair
from tests.support.in_memory import ended, make_pipeline, utterance

TEXT_BYTES = 32_768
"""The bytes of the longest utterance that intake takes."""
WORD_BYTES = 4096
BRIEF_BYTES = WORD_BYTES // 4
SHORT_BYTES = TEXT_BYTES // 4
GROWTH = (TEXT_BYTES // SHORT_BYTES) ** 2
"""How many times longer the whole text takes than the short one, where time grows with the square of the length.

A pattern that is slower than that takes far too long for the short text already: where time grows with the third power,
three hundred pieces of text are four million steps.
"""
PATTERN_S = 0.2
"""Seconds of processor time that a pattern may take for one text."""
WORD_S = PATTERN_S * WORD_BYTES / TEXT_BYTES
"""Those that it may take for one of its own words, as often as there is room for it in `WORD_BYTES`."""
BRIEF_GROWTH = (WORD_BYTES // BRIEF_BYTES) ** 3
"""The same of words, where time grows with the third power: no slower pattern is let through by the brief text."""
KILLED_AFTER_S = 5
TOGETHER = {"patterns": 10, "stages": 1}
"""Group → cases in one process: ten patterns take half a second, and a process costs as much as one of them."""
LOOPS, LOOP_S = 200_000, 0.01
AT = datetime(2026, 1, 1, tzinfo=UTC)

Seconds = dict[str, float]


def filled(unit: str, tail: str = "", size: int = TEXT_BYTES) -> str:
    """``unit`` repeated and ``tail``, ``size`` bytes of UTF-8 at most."""
    room = size - len(tail.encode())
    return (unit * (room // len(unit.encode()) + 1)).encode()[:room].decode(errors="ignore") + tail


UNITS = (
    # one character
    "a", " ", "\n", ".", "?", "'", '"', "(", "[", "-", "@", "…", "中", "🙂", "\u0301", "ﷺ",
    # alternations, quotes in quotes, words without spaces, marks on letters
    "a ", "a.", "a. ", "a'", "'\"", "(1", ".-", "?x", "Ann:\n", "e\u0301\u0316",
    # cues
    "not ", "I moved to Lyon ", "Mr. ", "and I. ", "may 1 ",
)  # fmt: skip


def texts(size: int) -> Mapping[str, str]:
    """The hostile texts by name, each of ``size`` bytes of UTF-8 at most."""
    return {
        **{repr(unit): filled(unit, " x", size) for unit in UNITS},
        "dots and a letter": filled(".", "x", size),
        "questions and a letter": filled("?", "x", size),
        "marks out of order": filled("\u0301", size=size // 2) + filled("\u0316", size=size // 2),
        "brackets in brackets": "[" * (size // 2) + "]" * (size // 2),
        "quotes in quotes": filled("I said \"he said 'she said “", size=size),
        "changes and causes": filled(" ".join(f"I moved to town{n} because of job{n}" for n in range(1000)), size=size),
        "other words": filled(" ".join(f"word{n}" for n in range(4000)), size=size),
        "other names": filled(". ".join(f"x{n} is not Name{n}" for n in range(2000)), size=size),
        "dates": filled(" ".join(f"{day} May {year}" for year in range(1900, 2000) for day in range(1, 29)), size=size),
    }


TEXTS, SHORT_TEXTS = texts(TEXT_BYTES), texts(SHORT_BYTES)


def patterns() -> dict[str, re.Pattern[str]]:
    """All compiled patterns of strings in the modules of the workers, each once."""
    found: dict[str, re.Pattern[str]] = {}
    for info in pkgutil.walk_packages(importlib.import_module("eunoe.workers").__path__, "eunoe.workers."):
        for name, value in vars(importlib.import_module(info.name)).items():
            for place, pattern in _patterns_in(value, f"{info.name}.{name}"):
                if isinstance(pattern.pattern, str) and pattern not in found.values():
                    found[place] = pattern
    return found


def _patterns_in(value: object, place: str) -> Iterator[tuple[str, re.Pattern[str]]]:
    if isinstance(value, re.Pattern):
        yield place, value
    elif isinstance(value, GuardedPattern):
        yield place, value.unguarded
    elif isinstance(value, Mapping):
        for key, part in list(value.items()):
            yield from _patterns_in(part, f"{place}[{key!r}]")
    elif type(value) in {list, tuple}:
        for index, part in enumerate(value):
            yield from _patterns_in(part, f"{place}[{index}]")


def pattern_seconds(pattern: re.Pattern[str]) -> Seconds:
    """All texts, and the pattern's own words one by one, in less text: there are many."""
    words = dict.fromkeys(re.findall(r"[A-Za-z]{2,}", pattern.pattern))
    found = {name: text_seconds(pattern, short, TEXTS[name]) for name, short in SHORT_TEXTS.items()}
    return found | {f"{word} …": word_seconds(pattern, word) for word in words}


def text_seconds(pattern: re.Pattern[str], short: str, whole: str) -> float:
    """Most that the pattern takes for ``whole``, of which ``short`` has the same pieces.

    It reads the whole where the short one does not show that `PATTERN_S` are enough.
    """
    most = _seconds_of(pattern, short) * GROWTH
    return most if most <= PATTERN_S else _seconds_of(pattern, whole)


def word_seconds(pattern: re.Pattern[str], word: str) -> float:
    """Most that the pattern takes for `WORD_BYTES` of the word; it reads them where fewer do not show `WORD_S`."""
    most = _seconds_of(pattern, filled(word + " ", size=BRIEF_BYTES)) * BRIEF_GROWTH
    return most if most <= WORD_S else _seconds_of(pattern, filled(word + " ", size=WORD_BYTES))


def _seconds_of(pattern: re.Pattern[str], text: str) -> float:
    return _seconds(lambda: sum(1 for _ in pattern.finditer(text)))


def _loop() -> None:
    for number in range(LOOPS):
        number * number % 7


def _slowness() -> float:
    """How many times longer than `LOOP_S` the loop takes now, 1 where it takes less."""
    return max(1.0, _seconds(_loop) / LOOP_S)


def _seconds(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def stage_seconds(text: str, strategy: Strategy) -> Seconds:
    """A session with the text, one more, and a question that is the text; then memories that hold all of it."""
    found: Seconds = {}

    class Timed:
        def __init__(self, name: str, stage: Stage) -> None:
            self._name, self._stage = name, stage

        def __getattr__(self, name: str) -> object:
            return getattr(self._stage, name)

        async def decide(self, work: Work[Any]) -> object:
            start = time.process_time()
            decision = await self._stage.decide(work)
            found[self._name] = max(found.get(self._name, 0.0), time.process_time() - start)
            return decision

    async def play() -> None:
        pipeline = make_pipeline(wrap=Timed)
        for first in (1, 3):
            moved = utterance(first + 1, "I moved to Lyon because of my new job as a nurse.")
            await pipeline.produce(utterance(first, text), moved, ended())
        await pipeline.produce(utterance(5, text, ask=Ask(request_id="r", strategy=strategy)))
        if len(pipeline.replies()) != 1 or pipeline.dead_letters():
            raise AssertionError("the text was not answered")

    asyncio.run(play())
    old, new = _memory(1, text), _memory(2, f"{text} y")
    found["update, a long memory"] = _seconds(lambda: judge_by_rules(OperationPair(old, new)))
    found["link, a long memory"] = _seconds(lambda: judge_by_cues(RelationPair(old, new, 0.5), ["Ann"], LinkSettings()))
    return found


def _memory(session: int, text: str) -> Memory:
    line = Line(utterance_id=f"u{session}", speaker="Ann", text=text, at=AT)
    made_by = Provenance(code="test", model="test")
    return Memory(
        memory_id=f"m{session}",
        session=session,
        index=0,
        speaker="Ann",
        text=text,
        evidence=(line,),
        at=AT,
        known_from=AT,
        made_by=made_by,
    )


def measured(wanted: Mapping[str, Callable[[], Seconds]], together: int) -> dict[str, Seconds | None]:
    """The measures of all cases, so many in a process; `None` for one that was killed or failed."""
    found: dict[str, Seconds | None] = {}
    for start in range(0, len(wanted), together):
        names = list(wanted)[start : start + together]
        answer = _in_a_process({name: wanted[name] for name in names})
        if answer is None and len(names) > 1:  # one of them: each by itself, with all of its time
            found |= measured({name: wanted[name] for name in names}, 1)
        else:
            found |= answer or dict.fromkeys(names)
    return found


def _in_a_process(some: Mapping[str, Callable[[], Seconds]]) -> dict[str, Seconds] | None:
    """The measures of cases, taken in a process of their own; `None` where it was killed or one of them failed."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        resource.setrlimit(resource.RLIMIT_CPU, (KILLED_AFTER_S, KILLED_AFTER_S))
        try:
            answer = json.dumps({name: case() for name, case in some.items()}).encode()
            with os.fdopen(writing, "wb") as out:
                out.write(answer)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answered:
        answer = answered.read()
    os.waitpid(child, 0)
    return json.loads(answer) if answer else None


def steady_seconds(case: Callable[[], Seconds]) -> Seconds:
    """The measures of a case, in the seconds of a machine on which the loop takes `LOOP_S` before and after it."""
    before = _slowness()
    found = case()
    slowness = (before + _slowness()) / 2
    return {part: seconds / slowness for part, seconds in found.items()}


def cases(group: str) -> dict[str, Callable[[], Seconds]]:
    if group == "patterns":
        return {name: lambda one=one: pattern_seconds(one) for name, one in patterns().items()}
    texts = ((name, text) for name, text in TEXTS.items() if text.strip())
    return {
        name: lambda text=text, strategy=strategy: stage_seconds(text, strategy)
        for (name, text), strategy in zip(texts, itertools.cycle(Strategy), strict=False)
    }


if __name__ == "__main__":
    group, *chosen = sys.argv[1:]
    wanted = cases(group)
    if chosen:  # they were too slow once: the machine may have been
        wanted = {name: partial(steady_seconds, wanted[name]) for name in chosen}
    json.dump(measured(wanted, TOGETHER[group]), sys.stdout)
