"""The part of a prompt that shows memory: numbered rows within a token budget."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import TypeVar

from eunoe.schemas.events import Line, Strategy
from eunoe.schemas.memory import Memory
from eunoe.schemas.relations import Relation
from eunoe.schemas.replies import LeftOut, LeftOutReason, Source
from eunoe.workers.respond.left_out import MOST, few, left_out
from eunoe.workers.text.passages import GAP, cut_passages, excerpt_spans
from eunoe.workers.text.printed_names import printed_name
from eunoe.workers.text.sentences import sentence_spans
from eunoe.workers.text.tokens import count_tokens

T = TypeVar("T")

MIN_ROWS = 4
"""Lines below which a context or a dialogue is not halved."""
REPLY_MARK = " (an earlier reply)"
"""Behind the speaker of an earlier reply of the responder."""
PARTLY = "a part of it "
"""Words before the end of what is not all that an utterance says."""
NOTED = "Noted in this session"
"""Heading of the insights of the open session."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the prompt, with the number by which an answer may cite it."""

    number: int
    speaker: str
    text: str
    at: datetime
    cites: tuple[str, ...]
    """Ids of its utterances."""
    reply_id: str | None = None
    """Set for an earlier reply of the responder: no evidence itself; citing it cites what it rests on."""
    is_memory: bool = False
    """Whether the text is a memory instead of an utterance."""
    is_current: bool = True
    """Whether it is neither a memory that was superseded or retired, nor something that ended before the ask."""
    in_timeline: bool = False
    """Whether it stands in a timeline."""
    is_noted: bool = False
    """Whether it is an insight of the open session."""
    excerpts: tuple[str, ...] = ()
    """The connected parts of a long utterance that the text shows; empty where it shows all of it. Only these are
    quoted: what stands between two of them is left out."""

    past: str = ""
    """The end of what it says, in words, where that is before the ask; a timeline says it of its rows itself."""

    @property
    def quotable(self) -> "tuple[Row, ...]":
        """The row as parts that may be quoted: one for each excerpt, or the row itself."""
        return tuple(replace(self, text=part, excerpts=()) for part in self.excerpts) or (self,)


@dataclass(frozen=True, slots=True)
class Context:
    """The memory part of a prompt, with its token count, sources and rows."""

    text: str = ""
    tokens: int = 0
    sources: tuple[Source, ...] = ()
    rows: tuple[Row, ...] = ()
    plain: str = ""
    """The text without its timelines, where it has any."""
    left_out: tuple[LeftOut, ...] = ()
    """The best of what was found and is not shown."""

    @property
    def has_timelines(self) -> bool:
        """Whether it shows timelines."""
        return any(source.kind is Strategy.TIMELINE for source in self.sources)

    @property
    def relations(self) -> frozenset[Relation]:
        """The relations that its timelines show."""
        return frozenset(relation for source in self.sources for relation in source.relations)

    def latest_half(self) -> "Context | None":
        """The latest half of its printed lines, with the rows that these show; `None` if it has hardly any."""
        lines = self.text.splitlines()
        if len(lines) < MIN_ROWS:
            return None
        kept = lines[len(lines) // 2 :]
        numbers = {line.partition(" ")[0] for line in kept}
        text = "\n".join(kept)
        rows = tuple(row for row in self.rows if str(row.number) in numbers)
        return replace(self, text=text, tokens=count_tokens(text), rows=rows)

    def without_timelines(self, notes: str = "") -> "Context":
        """The context with ``notes`` in place of its timelines.

        Rows of timelines stay, to be cited through the notes; without notes they go.
        """
        text = "\n".join(part for part in (self.plain, notes) if part)
        return Context(
            text=text,
            tokens=count_tokens(text),
            sources=tuple(source for source in self.sources if source.kind is not Strategy.TIMELINE),
            rows=tuple(row for row in self.rows if notes or not row.in_timeline),
            plain=self.plain,
        )


def line_row(number: int, line: Line) -> Row:
    """The row of an utterance."""
    return Row(number, line.speaker, line.text, line.at, (line.utterance_id,), line.reply_id)


def excerpt_row(line: Line, spans: Sequence[tuple[int, int]]) -> Row:
    """The row of parts of an utterance, not yet numbered; ``spans``: (start, end) in order, with gaps between them.

    Without spans, or with one that is all of the utterance, the row shows the utterance whole.
    """
    row = line_row(0, line)
    if not spans or (not line.text[: spans[0][0]].strip() and not line.text[spans[0][1] :].strip()):
        return row
    parts = tuple(line.text[start:end] for start, end in spans)
    before = [GAP] if line.text[: spans[0][0]].strip() else []
    behind = [GAP] if line.text[spans[-1][1] :].strip() else []
    text = f" {GAP} ".join(parts)
    return replace(row, text=" ".join([*before, text, *behind]), excerpts=parts)


def memory_row(number: int, memory: Memory, at: datetime | None = None) -> Row:
    """The row of a memory; ``at``: event time of the ask."""
    cites = tuple(line.utterance_id for line in memory.evidence)
    expired = memory.has_expired(at)
    current, past = memory.ending is None and not expired, held_until(memory.expires_at) if expired else ""
    return Row(number, memory.speaker, memory.text, memory.at, cites, is_memory=True, is_current=current, past=past)


def held_until(expires_at: datetime | None) -> str:
    """The words for an end: ``held until 8 May 2023``, the last day; empty for none."""
    return "" if expires_at is None else f"held until {write_day(expires_at - timedelta(microseconds=1))}"


def past_words(text: str, ended: datetime, *, partly: bool) -> str:
    """The words for an end of what an utterance says: of it all, or ``partly``, or of one of its several sentences."""
    several = sum(1 for _ in islice(sentence_spans(fold(text)), 2)) > 1
    return f"{PARTLY if partly or several else ''}{held_until(ended)}"


def mark_past(row: Row, past: str) -> Row:
    """The row with such words; it is not current where they are of it all."""
    if past == row.past == "":
        return row
    return replace(row, past=past, is_current=row.is_current and (not past or past.startswith(PARTLY)))


def heading_of(row: Row) -> str:
    """The heading of a row: its day, or that it was noted in the open session."""
    return NOTED if row.is_noted else write_day(row.at)


def same_day(time: datetime, other: datetime) -> bool:
    """Whether two times are of one day, by the clock of the first."""
    clock = time.tzinfo
    return time.date() == (other if other.tzinfo is clock else other.astimezone(clock)).date()


def write_day(time: datetime) -> str:
    """A day in the form ``8 May 2023``."""
    return _write_date(time.date())


def write_ordinal(day: int) -> str:
    """A day by its ordinal, in the same form."""
    return _write_date(date.fromordinal(day))


@lru_cache(maxsize=4096)
def _write_date(day: date) -> str:
    return f"{day.day} {day:%B %Y}"


def fold(text: str) -> str:
    """The text with white space folded, so that it cannot look like another row."""
    return " ".join(text.split())


def write_row(row: Row) -> str:
    """``12 Ann: I moved to Lyon.``, or for a memory ``12 Ann moved to Lyon.``

    An earlier reply is marked as one; what is past says until when it held.
    """
    past = f" ({row.past})" if row.past else ""
    if row.is_memory:
        return f"{row.number} {fold(row.text)}{past}"
    mark = REPLY_MARK if row.reply_id is not None else ""
    return f"{row.number} {printed_name(row.speaker)}{mark}: {fold(row.text)}{past}"


def make_context(
    printed: Sequence[str], sources: Sequence[Source], rows: Sequence[Row], plain: Sequence[str] = ()
) -> Context:
    """The context with these printed lines; tokens are counted over the joined text.

    ``plain``: the lines that do not belong to timelines, where there are any.
    """
    text = "\n".join(printed)
    return Context(
        text=text, tokens=count_tokens(text), sources=tuple(sources), rows=tuple(rows), plain="\n".join(plain)
    )


def pack(
    ranked: Sequence[T],
    budget_tokens: int,
    lay_out: Callable[[Sequence[T]], Context],
    shorter: Callable[[T], T | None] = lambda candidate: None,
    least: Callable[[T], int] = lambda candidate: 0,
    hidden: Sequence[LeftOut] = (),
) -> Context:
    """Choose the best of ``ranked`` that fit the budget together, as printed by ``lay_out``.

    A candidate that does not fit is skipped; smaller ones after it may still fit. If none fits, the best one is made
    ``shorter`` until it fits or that returns `None`. ``least``: a lower bound on the tokens of a candidate, which saves
    layouts. ``hidden`` was found and is no candidate.
    """
    chosen: list[T] = []
    skipped: list[T] = []
    too_long = 0
    context = Context()
    for candidate in ranked:
        grown = lay_out([*chosen, candidate]) if context.tokens + least(candidate) <= budget_tokens else None
        if grown is not None and grown.tokens <= budget_tokens:
            chosen, context, too_long = [*chosen, candidate], grown, len(skipped)
        else:
            skipped.append(candidate)
    if ranked and not chosen:
        context = _clipped(ranked[0], budget_tokens, lay_out, shorter)
    found = [*hidden, *_skipped(skipped[:too_long], LeftOutReason.BUDGET, lay_out)]
    found += _skipped(skipped[too_long:], LeftOutReason.RANK if chosen else LeftOutReason.BUDGET, lay_out)
    return replace(context, left_out=few(found, {id_ for row in context.rows for id_ in row.cites}))


def _skipped(
    candidates: Sequence[T], reason: LeftOutReason, lay_out: Callable[[Sequence[T]], Context]
) -> list[LeftOut]:
    """The best of the candidates as what was left out for a reason."""
    found = (source for candidate in candidates[:MOST] for source in lay_out([candidate]).sources)
    return [left_out(reason, source, source.score) for source in found]


def _clipped(
    best: T, budget_tokens: int, lay_out: Callable[[Sequence[T]], Context], shorter: Callable[[T], T | None]
) -> Context:
    clipped = shorter(best)
    while clipped is not None:
        context = lay_out([clipped])
        if context.tokens <= budget_tokens:
            return context
        clipped = shorter(clipped)
    return Context()


def latest(lines: Sequence[Line], budget_tokens: int, first_number: int, about: str = "") -> tuple[Row, ...]:
    """The latest lines whose rows fit the budget, in order, numbered from ``first_number``.

    The first of them that does not fit is shown in excerpts, the passages that share most with ``about``.
    """
    kept: list[Row] = []
    left = budget_tokens
    for line in reversed(lines):
        cost = count_tokens(write_row(line_row(0, line)))
        if cost > left:
            kept += _excerpted(line, left, about)
            break
        left -= cost
        kept.append(line_row(0, line))
    return tuple(replace(row, number=number) for number, row in enumerate(reversed(kept), first_number))


def _excerpted(line: Line, tokens: int, about: str) -> list[Row]:
    """The row of a long line in excerpts; none where no passage fits, or where the line is no long one."""
    if len(cut_passages(line.text)) == 1:
        return []
    head = count_tokens(write_row(replace(line_row(0, line), text="")))
    spans = excerpt_spans(line.text, about, tokens - head - 1)
    row = excerpt_row(line, spans)
    return [row] if spans and count_tokens(write_row(row)) <= tokens else []
