"""The summarizer that needs no language model: it selects statements of speakers about themselves."""

from collections.abc import Sequence

from eunoe.schemas.events import Line, Provenance, Span
from eunoe.schemas.memory import MemoryDraft
from eunoe.workers.models.local.offload import offload
from eunoe.workers.summarize.settings import SummarizeSettings
from eunoe.workers.summarize.summarizer import CODE, Summary
from eunoe.workers.text.drafts import limit_bytes, without_repeats
from eunoe.workers.text.extraction import EXTRACTION, MIN_OTHERS, choose, with_corrections
from eunoe.workers.text.statements import statements_in


class OfflineSummarizer:
    """Selects statements of fact, preferring changes of state, each citing its utterance; deterministic."""

    def __init__(self, settings: SummarizeSettings) -> None:
        self._settings = settings

    async def summarize(self, lines: Sequence[Line], spans: Sequence[Span]) -> Summary:
        """The memories of a session, in order; ``spans`` have no effect."""
        drafts = await offload(len(lines), _drafts, lines, self._settings)
        return Summary(drafts, Provenance(code=CODE, model=EXTRACTION))


def _drafts(lines: Sequence[Line], settings: SummarizeSettings) -> tuple[MemoryDraft, ...]:
    others = max(MIN_OTHERS, len(lines) // settings.lines_per_memory)
    statements = statements_in(lines)
    chosen = choose(statements, others, settings.max_memories)
    return limit_bytes(without_repeats(with_corrections(chosen, statements)), settings.max_evidence_bytes)
