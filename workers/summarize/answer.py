"""Checks of a model's memories, and the drafts of the good ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime

from eunoe.schemas.events import Line
from eunoe.schemas.memory import MemoryDraft, MemoryKind
from eunoe.workers.models.questions.answer_forms import MemoriesForm, MemoryRow
from eunoe.workers.models.questions.markers import without_marks_of_rows
from eunoe.workers.models.questions.prompt_lines import speakers_in
from eunoe.workers.summarize.prompt import MAX_CITES
from eunoe.workers.text.days import with_days
from eunoe.workers.text.drafts import clip
from eunoe.workers.text.expiry import end_of_day, expiry_of, may_end
from eunoe.workers.text.kinds import kind_of
from eunoe.workers.text.language import is_english

_MAX_NAMED = 5
_DAY_CHARS = len("2026-03-08")


@dataclass(frozen=True, slots=True)
class Window:
    """The lines of one prompt; ``first`` is the number of the first."""

    lines: tuple[Line, ...]
    first: int

    @property
    def last(self) -> int:
        """The number of the last line."""
        return self.first + len(self.lines) - 1

    def line(self, number: int) -> Line | None:
        """The line of that number; `None` where the window has none."""
        return self.lines[number - self.first] if self.first <= number <= self.last else None

    def cited(self, row: MemoryRow) -> tuple[Line, ...]:
        """The lines that a memory cites, replies from memory too, in order, each once; its own line is among them."""
        numbers = sorted({number for number in row.lines if self.line(number) is not None} - {row.own})
        own = [row.own] if self.line(row.own) is not None else []
        kept = sorted([*own, *numbers[: MAX_CITES - len(own)]])
        return tuple(self.lines[number - self.first] for number in kept)

    def halves(self) -> "tuple[Window, Window]":
        """Its two halves, with the same numbers."""
        middle = (len(self.lines) + 1) // 2
        return Window(self.lines[:middle], self.first), Window(self.lines[middle:], self.first + middle)


def fault_of(answer: MemoriesForm, window: Window) -> str | None:
    """The faults of an answer, in words for a model; `None` if there is none."""
    if _is_shifted(answer, window):
        return f"its lines are counted otherwise: they are {window.first} to {window.last}, as they are numbered"
    faults = [(place, _fault(row, window)) for place, row in enumerate(answer.memories, start=1)]
    named = [f"memory {place}: {fault}" for place, fault in faults if fault is not None]
    return "; ".join(named[:_MAX_NAMED]) or None


def good_part(answer: MemoriesForm, window: Window) -> MemoriesForm | None:
    """The answer without faulty memories; `None` where nothing is left, or where its lines are counted otherwise."""
    if _is_shifted(answer, window):
        return None
    good = tuple(row for row in answer.memories if _fault(row, window) is None)
    return MemoriesForm(memories=good) if good else None


def renumbered(row: MemoryRow, part: Window, whole: Window) -> MemoryRow:
    """The memory of a part of a window with the speaker's number in the whole one; 0 for a number that is none.

    Lines that the part does not show are taken out: the model has not read them.
    """
    there = speakers_in(part.lines)
    known = 1 <= row.speaker <= len(there)
    number = speakers_in(whole.lines).index(there[row.speaker - 1]) + 1 if known else 0
    shown = tuple(number for number in row.lines if part.line(number) is not None)
    own = 0 if part.line(row.own) is None else row.own
    return row.model_copy(update={"speaker": number, "own": own, "lines": shown})


def drafts_of(answer: MemoriesForm, window: Window, most: int) -> list[MemoryDraft]:
    """The first ``most`` memories of a valid answer; one that cites only replies from memory is left out."""
    drafts: list[MemoryDraft] = []
    for row in answer.memories[:most]:
        evidence = tuple(line for line in window.cited(row) if line.is_evidence)
        if evidence:
            speaker = _speaker(row, window, evidence)
            drafts.append(_draft(row, speaker, evidence))
    return drafts


def _draft(row: MemoryRow, speaker: str, evidence: tuple[Line, ...]) -> MemoryDraft:
    """The memory of a row; where the row names no kind, the rules decide the kind, and the end if it names none.

    An end that no line speaks of is the model's own; without it a state holds until somebody says otherwise.
    """
    lines = {*row.lines, row.own}
    said, _ = without_marks_of_rows(row.text, lines, lines)
    at = max(line.at for line in evidence)
    text = _named(with_days(said, at.date()), speaker)
    kind = MemoryKind(row.kind) if row.kind else kind_of(text)
    told = [line.text for line in evidence]
    is_told = kind is MemoryKind.PLAN or not is_english(told) or any(map(may_end, told))
    ends = _end_of(row.until, kind, at) if is_told else None
    if ends is None and not row.kind:
        ends = expiry_of(text, at, kind)
    return MemoryDraft(speaker=speaker, text=text, evidence=evidence, kind=kind, expires_at=ends)


def _end_of(until: str, kind: MemoryKind, at: datetime) -> datetime | None:
    """The end of the last day that a row names; `None` for no day, for one before the memory's, and of an event."""
    try:
        ends = end_of_day(date.fromisoformat(until.strip()[:_DAY_CHARS]), at.tzinfo)
    except (ValueError, OverflowError):
        return None
    return ends if ends > at and kind is not MemoryKind.EVENT else None


def _fault(row: MemoryRow, window: Window) -> str | None:
    if not row.text.strip():
        return "its text is blank"
    if not window.cited(row):
        return f"it cites none of the lines {window.first} to {window.last}"
    return None


def _is_shifted(answer: MemoriesForm, window: Window) -> bool:
    """Whether the numbers of the lines are another count than the window's, so that the memories cite wrong lines.

    One says so where it cites line 0; so do most, of two or more, where each tells of its speaker and cites only what
    others said. Of a single one the number of the speaker alone may be wrong, which `_speaker` mends.
    """
    strange = sum(_tells_what_others_said(row, window) for row in answer.memories)
    return any(0 in row.lines for row in answer.memories) or (strange > 1 and 2 * strange > len(answer.memories))


def _tells_what_others_said(row: MemoryRow, window: Window) -> bool:
    speakers, said = speakers_in(window.lines), {line.speaker for line in window.cited(row) if line.is_evidence}
    named = speakers[row.speaker - 1] if 1 <= row.speaker <= len(speakers) else None
    return named is not None and bool(said) and named not in said and _names(row.text, named)


def _speaker(row: MemoryRow, window: Window, evidence: Sequence[Line]) -> str:
    """The participant who told it: the one named if they said a cited line, else the one who said the own line."""
    speakers = speakers_in(window.lines)
    said = [line.speaker for line in evidence]
    named = speakers[row.speaker - 1] if 1 <= row.speaker <= len(speakers) else None
    if named in said:
        return str(named)
    own = window.line(row.own)
    return own.speaker if own is not None and own.is_evidence else said[0]


def _named(text: str, speaker: str) -> str:
    """The text, prefixed with the speaker if it does not name them."""
    return clip(text if _names(text, speaker) else f"{speaker}: {text}")


def _names(text: str, speaker: str) -> bool:
    """Whether a text holds a part of a speaker's name."""
    return any(part in text.casefold() for part in speaker.casefold().split())
