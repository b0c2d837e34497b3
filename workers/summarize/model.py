"""The summarizer that uses a language model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from eunoe.schemas.events import Line, Provenance, Span
from eunoe.schemas.memory import MemoryDraft
from eunoe.schemas.ports import LanguageModel
from eunoe.workers.models.asking import ask_checked
from eunoe.workers.models.prompt_lines import line_cost, speakers_in
from eunoe.workers.summarize.form import memories_form
from eunoe.workers.summarize.offline import OfflineSummarizer
from eunoe.workers.summarize.prompt import (
    NAME,
    FormedMemory,
    MemoriesAnswer,
    SummarizeContext,
    summarize_prompt,
)
from eunoe.workers.summarize.settings import SummarizeSettings
from eunoe.workers.summarize.summarizer import CODE, Summary
from eunoe.workers.summarize.windows import windows
from eunoe.workers.text.drafts import clip, limit_bytes, without_repeats


class ModelSummarizer:
    """Asks one question a session, or one per window of a long one.

    An answer is valid if its citations are. An invalid one is asked once more with the fault named; after that the
    offline summarizer decides the whole session.
    """

    def __init__(self, model: LanguageModel, offline: OfflineSummarizer, settings: SummarizeSettings) -> None:
        self._model = model
        self._offline = offline
        self._settings = settings

    async def summarize(self, lines: Sequence[Line], spans: Sequence[Span]) -> Summary:
        """The memories of a session; raises `Unavailable` if the endpoint is unavailable.

        A session without evidence has no memories and needs no call.
        """
        if not speakers_in(lines):
            return await self._offline.summarize(lines, spans)
        drafts = await self._ask(lines, spans)
        if drafts is None:
            found = await self._offline.summarize(lines, spans)
            return replace(found, made_by=found.made_by.model_copy(update={"prompt": NAME, "fallback": True}))
        kept = limit_bytes(without_repeats(drafts), self._settings.max_evidence_bytes)
        return Summary(kept, Provenance(code=CODE, model=self._model.name, prompt=NAME))

    async def _ask(self, lines: Sequence[Line], spans: Sequence[Span]) -> list[MemoryDraft] | None:
        costs = [line_cost(line, self._settings.max_line_chars) for line in lines]
        drafts: list[MemoryDraft] = []
        for span in windows(costs, spans, self._settings.prompt_budget_tokens):
            window = Window(tuple(lines[span.first : span.last + 1]), span.first + 1)
            if not speakers_in(window.lines):
                continue
            answer = await self._ask_window(window)
            if answer is None:
                return None
            drafts += drafts_of(answer, window)
        return drafts

    async def _ask_window(self, window: "Window") -> MemoriesAnswer | None:
        context = SummarizeContext(
            lines=window.lines,
            first=window.first,
            max_line_chars=self._settings.max_line_chars,
            max_memories=self._settings.max_memories,
        )
        prompt = summarize_prompt(context)
        form: type[MemoriesAnswer] = memories_form(window.lines_by_speaker)
        asked = await ask_checked(self._model, prompt, form, lambda answer: fault_of(answer, window))
        return asked.answer


@dataclass(frozen=True, slots=True)
class Window:
    """The lines of one prompt; ``first`` is the number of the first."""

    lines: tuple[Line, ...]
    first: int

    @property
    def last(self) -> int:
        """The number of the last line."""
        return self.first + len(self.lines) - 1

    @property
    def lines_by_speaker(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """(speaker, numbers of their evidence lines), in order of appearance."""
        found: dict[str, list[int]] = {}
        for number, line in enumerate(self.lines, self.first):
            if line.is_evidence:
                found.setdefault(line.speaker, []).append(number)
        return tuple((speaker, tuple(numbers)) for speaker, numbers in found.items())

    def evidence(self, cites: Sequence[int]) -> tuple[Line, ...]:
        """The cited evidence lines, in order, without duplicates; the numbers must be in the window."""
        cited = [self.lines[number - self.first] for number in sorted(set(cites))]
        return tuple(line for line in cited if line.is_evidence)


def fault_of(answer: MemoriesAnswer, window: Window) -> str | None:
    """The first fault of an answer, in words for a model; `None` if there is none."""
    for place, memory in enumerate(answer.memories, start=1):
        fault = _fault(memory, window)
        if fault is not None:
            return f"memory {place}: {fault}"
    return None


def _fault(memory: FormedMemory, window: Window) -> str | None:
    unknown = [number for number in memory.cites if not window.first <= number <= window.last]
    if unknown:
        return f"it cites {unknown[0]}, but the lines are {window.first} to {window.last}"
    if not memory.text.strip():
        return "its text is blank"
    if memory.speaker not in speakers_in(window.lines):
        return "its speaker is none of the speakers listed; spell the name as it is there"
    evidence = window.evidence(memory.cites)
    if evidence and memory.speaker not in {line.speaker for line in evidence}:
        return f"{memory.speaker} said none of the lines that it cites"
    return None


def drafts_of(answer: MemoriesAnswer, window: Window) -> list[MemoryDraft]:
    """The memories of a valid answer; one without evidence is left out."""
    return [
        MemoryDraft(speaker=memory.speaker, text=_named(memory), evidence=evidence)
        for memory in answer.memories
        if (evidence := window.evidence(memory.cites))
    ]


def _named(memory: FormedMemory) -> str:
    """The text, prefixed with the speaker if it does not name them."""
    names = {part.casefold() for part in memory.speaker.split()}
    named = any(name in memory.text.casefold() for name in names)
    return clip(memory.text if named else f"{memory.speaker}: {memory.text}")
