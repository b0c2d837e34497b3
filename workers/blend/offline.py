"""The blender that needs no language model: statements of the last utterances, new unless memory has them."""

import re
from collections.abc import Iterable, Sequence

from eunoe.schemas.events import Insight, InsightKind, Line, Provenance
from eunoe.schemas.memory import Memory, MemoryDraft
from eunoe.workers.blend.settings import BlendSettings
from eunoe.workers.blend.turn import CODE, Blend, BlendInput, speakers_of
from eunoe.workers.text.drafts import plain_words, without_repeats
from eunoe.workers.text.extraction import EXTRACTION, MIN_OTHERS, choose, with_corrections
from eunoe.workers.text.statements import statements_in
from eunoe.workers.text.terms import STOPWORDS
from eunoe.workers.text.tokens import ACCENTS, VOWEL_SIGNS

_LETTERS = f"(?:\\w|[{ACCENTS}{VOWEL_SIGNS}])+"
_WORD = re.compile(f"{_LETTERS}(?:['’]{_LETTERS})*")


class OfflineBlender:
    """Selects statements; deterministic. It never says Updated: that is left to the strict rules of `update`."""

    def __init__(self, settings: BlendSettings) -> None:
        self._settings = settings

    async def question(self, lines: Sequence[Line], *, urgent: bool) -> str:
        """The content words of the last utterance that has any, without names."""
        del urgent
        return search_words(lines)

    async def blend(self, turn: BlendInput, *, urgent: bool) -> Blend:
        """The salient statements of the last two utterances."""
        del urgent
        statements = statements_in(turn.latest)
        chosen = choose(statements, MIN_OTHERS, self._settings.max_insights)
        fresh = without_noted(with_corrections(chosen, statements), turn.earlier)
        insights = tuple(_insight(draft, turn.memories) for draft in fresh)
        return Blend(insights, Provenance(code=CODE, model=EXTRACTION))


def search_words(lines: Sequence[Line]) -> str:
    """The content words of the last line that has any; the last line itself if none has."""
    names = {word.casefold() for speaker in speakers_of(lines) for word in _WORD.findall(speaker)}
    for line in reversed(lines):
        words = [word for word in _WORD.findall(line.text) if _is_content(word, names)]
        if words:
            return " ".join(words)
    return lines[-1].text if lines else ""


def _is_content(word: str, names: set[str]) -> bool:
    plain = word.casefold().replace("’", "'")
    return plain not in STOPWORDS and plain.removesuffix("'s") not in names


def without_noted(drafts: Iterable[MemoryDraft], earlier: Sequence[Insight]) -> list[MemoryDraft]:
    """The drafts in order, without repetitions of the session's earlier insights or of each other."""
    before = without_repeats(
        MemoryDraft(speaker=insight.speaker, text=insight.text, evidence=insight.evidence) for insight in earlier
    )
    return without_repeats([*before, *drafts])[len(before) :]


def _insight(draft: MemoryDraft, memories: Sequence[Memory]) -> Insight:
    same = tuple(memory.memory_id for memory in memories if is_near_identical(draft, memory))
    kind = InsightKind.REDUNDANT if same else InsightKind.NEW
    return Insight(kind=kind, speaker=draft.speaker, text=draft.text, evidence=draft.evidence, replaces=same)


def is_near_identical(draft: MemoryDraft, memory: Memory) -> bool:
    """Whether both have the same speaker and words, except for case, punctuation and fillers (not negations)."""
    return draft.speaker == memory.speaker and plain_words(draft.text) == plain_words(memory.text)
