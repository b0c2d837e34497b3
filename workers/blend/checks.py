"""Checks of a model's insights, and the good ones."""

from collections.abc import Sequence

from eunoe.schemas.events import Insight, InsightKind, Line
from eunoe.workers.blend.prompt import MAX_CITES, BlendContext
from eunoe.workers.blend.turn import LATEST
from eunoe.workers.models.questions.answer_forms import InsightRow, InsightsForm
from eunoe.workers.models.questions.prompt_lines import speakers_in
from eunoe.workers.text.drafts import clip


def fault_of(answer: InsightsForm, context: BlendContext) -> str | None:
    """The faults of an answer, in words for a model; `None` if there is none.

    Insights beyond the maximum are ignored.
    """
    named = [
        f"insight {place}: {fault}"
        for place, (_, fault) in enumerate(_judged(answer, context), start=1)
        if fault is not None
    ]
    return "; ".join(named) or None


def good_part(answer: InsightsForm, context: BlendContext) -> InsightsForm | None:
    """The answer without faulty insights; `None` if nothing is left, or where the model counted from 0."""
    if any(0 in (*row.lines, *row.replaces) for row in answer.insights):
        return None
    good = tuple(row for row, fault in _judged(answer, context) if fault is None)
    return InsightsForm(insights=good) if good else None


def _judged(answer: InsightsForm, context: BlendContext) -> list[tuple[InsightRow, str | None]]:
    """Each insight with its fault; a memory that an earlier one replaces is a fault of the later."""
    judged: list[tuple[InsightRow, str | None]] = []
    taken: set[int] = set()
    for row in answer.insights[: context.max_insights]:
        fault = _citing_fault(row, context) or _replacing_fault(row, context, taken)
        judged.append((row, fault))
        taken |= set(row.replaces) if fault is None else set()
    return judged


def _citing_fault(row: InsightRow, context: BlendContext) -> str | None:
    count = len(context.lines)
    unknown = [number for number in row.lines if not 1 <= number <= count]
    if unknown:
        return f"it names line {unknown[0]}, but the lines are 1 to {count}"
    if not row.text.strip():
        return "its text is blank"
    speaker = speaker_of(row, context.lines)
    if speaker is None:
        return f"its speaker is none of the numbers 1 to {len(speakers_in(context.lines))} of the list"
    evidence = evidence_of(row, context.lines)
    if speaker not in {line.speaker for line in evidence}:
        return f"speaker {row.speaker} said none of the lines that it names as evidence"
    if not any(line in context.lines[-LATEST:] for line in evidence):
        return "it names none of the last two lines as evidence"
    return None


def _replacing_fault(row: InsightRow, context: BlendContext, taken: set[int]) -> str | None:
    count = len(context.memories)
    unknown = [number for number in row.replaces if not 1 <= number <= count]
    if unknown:
        return f"it replaces memory {unknown[0]}, but {f'the memories are 1 to {count}' if count else 'there is none'}"
    if row.kind == "New" and row.replaces:
        return "it is New, so it replaces nothing; or else it is Redundant or Updated"
    if row.kind != "New" and not row.replaces:
        return f"it is {row.kind}, so it must name the memories that it replaces; or else it is New"
    speaker = speaker_of(row, context.lines)
    others = [number for number in row.replaces if context.memories[number - 1].speaker != speaker]
    if others:
        return f"memory {others[0]} is about another speaker"
    twice = sorted(taken.intersection(row.replaces))
    return f"memory {twice[0]} is replaced by two insights" if twice else None


def speaker_of(row: InsightRow, lines: Sequence[Line]) -> str | None:
    """The speaker of an insight; `None` if the number is none of the list.

    Of one without a number, as where a name stands in its place, whoever said all of its evidence.
    """
    speakers = speakers_in(lines)
    if row.speaker == 0:
        said = {line.speaker for line in evidence_of(row, lines)}
        return said.pop() if len(said) == 1 else None
    return speakers[row.speaker - 1] if 1 <= row.speaker <= len(speakers) else None


def evidence_of(row: InsightRow, lines: Sequence[Line]) -> tuple[Line, ...]:
    """The evidence lines, in order, without duplicates; the numbers must be those shown.

    Of too many the latest stay.
    """
    named = [lines[number - 1] for number in sorted(set(row.lines))]
    return tuple(line for line in named if line.is_evidence)[-MAX_CITES:]


def insights_of(answer: InsightsForm, context: BlendContext) -> tuple[Insight, ...]:
    """The insights of a valid answer."""
    return tuple(
        Insight(
            kind=InsightKind(row.kind.lower()),
            speaker=speaker_of(row, context.lines) or "",
            text=clip(row.text),
            evidence=evidence_of(row, context.lines),
            replaces=tuple(context.memories[number - 1].memory_id for number in sorted(set(row.replaces))),
        )
        for row in answer.insights[: context.max_insights]
    )
