"""The summarizer that needs no language model: picks what people said of themselves, and names them."""

from collections.abc import Sequence

from eunoe.schemas.events import Line, Provenance, Span
from eunoe.schemas.memory import MemoryDraft
from eunoe.workers.models.offload import offload
from eunoe.workers.segment.cues import is_english
from eunoe.workers.summarize.settings import SummarizeSettings
from eunoe.workers.summarize.summarizer import CODE, Summary
from eunoe.workers.text.days import with_days
from eunoe.workers.text.drafts import MAX_TEXT_CHARS, clip, that_fit, told_once
from eunoe.workers.text.person import in_third_person
from eunoe.workers.text.statements import Statement, statements_of

MODEL = "extraction/1"
_LEAST = 3


class OfflineSummarizer:
    """Extractive and deterministic: statements of fact, above all changes of state, each citing its utterance."""

    def __init__(self, settings: SummarizeSettings) -> None:
        self._settings = settings

    async def summarize(self, lines: Sequence[Line], spans: Sequence[Span]) -> Summary:
        """The memories of a session, in its order; topic segments make no difference."""
        drafts = await offload(len(lines), _drafts, lines, self._settings)
        return Summary(drafts, Provenance(code=CODE, model=MODEL))


def _drafts(lines: Sequence[Line], settings: SummarizeSettings) -> tuple[MemoryDraft, ...]:
    chosen = choose(statements_in(lines), len(lines), settings)
    return that_fit(told_once(draft_of(statement) for statement in chosen), settings.max_evidence_bytes)


def statements_in(lines: Sequence[Line]) -> list[Statement]:
    """What the lines that are evidence state, in order; replies from memory state nothing."""
    evidence = [(number, line) for number, line in enumerate(lines) if line.is_evidence]
    speakers = sorted({line.speaker for line in lines})
    english = is_english([line.text for _, line in evidence])
    return [statement for number, line in evidence for statement in statements_of(number, line, speakers, english)]


def choose(statements: Sequence[Statement], lines: int, settings: SummarizeSettings) -> list[Statement]:
    """The statements worth remembering, in order: every change of state, and the most telling others.

    Others are as many as the settings allow for ``lines`` lines; together they are at most ``max_memories``.
    """
    worthy = [(place, statement) for place, statement in enumerate(statements) if statement.worth >= 0]
    ranked = sorted(worthy, key=lambda pair: (-round(pair[1].worth, 6), pair[0]))
    changes = [pair for pair in ranked if pair[1].is_change]
    others = [pair for pair in ranked if not pair[1].is_change]
    room = max(_LEAST, lines // settings.lines_per_memory)
    kept = [*changes, *others[:room]][: settings.max_memories]
    return [statement for _, statement in sorted(kept, key=lambda pair: pair[0])]


def draft_of(statement: Statement) -> MemoryDraft:
    """The memory of a statement: in the third person where that is safe, else as a quotation."""
    line = statement.line
    told = in_third_person(statement.text, line.speaker) if statement.english else None
    if told is not None:
        text = with_days(told, line.at.date())
    else:
        dated = with_days(statement.text, line.at.date(), "[]") if statement.english else statement.text
        room = MAX_TEXT_CHARS - len(line.speaker) - len(' said: ""')
        text = f'{line.speaker} said: "{clip(dated, room).replace(chr(34), chr(39))}"'
    return MemoryDraft(speaker=line.speaker, text=clip(text), evidence=(line,))
