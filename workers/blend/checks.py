"""Checks of a model's insights, and the good ones."""

from collections.abc import Sequence

from eunoe.schemas.events import Insight, InsightKind, Line
from eunoe.schemas.memory import Memory
from eunoe.workers.blend.prompt import MAX_CITES, BlendContext
from eunoe.workers.blend.turn import LATEST
from eunoe.workers.models.questions.answer_forms import InsightRow, InsightsForm
from eunoe.workers.models.questions.markers import without_marks_of_rows
from eunoe.workers.models.questions.prompt_lines import speakers_in
from eunoe.workers.text.days import with_days
from eunoe.workers.text.drafts import clip
from eunoe.workers.text.names import without_names
from eunoe.workers.text.terms import terms


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
    """The answer without faulty insights; `None` if nothing is left, or where the model counted from 0.

    An insight that only replaces a memory which speaks of something else is New: the update stage judges it.
    """
    if any(0 in row.lines or "m0" in row.replaces for row in answer.insights):
        return None
    rows = (
        row.model_copy(update={"kind": "New", "replaces": ()}) if _is_only_mistaken(row, context) else row
        for row in answer.insights
    )
    mended = InsightsForm(insights=tuple(rows))
    good = tuple(row for row, fault in _judged(mended, context) if fault is None)
    return InsightsForm(insights=good) if good else None


def _is_only_mistaken(row: InsightRow, context: BlendContext) -> bool:
    """Whether nothing else is wrong with an insight than that it replaces a memory of something else."""
    is_sound = (_citing_fault(row, context) or _replacing_fault(row, context, set())) is None
    return is_sound and _mistaken(row, context) is not None


def _judged(answer: InsightsForm, context: BlendContext) -> list[tuple[InsightRow, str | None]]:
    """Each insight with its fault; a memory that an earlier one replaces is a fault of the later."""
    judged: list[tuple[InsightRow, str | None]] = []
    taken: set[str] = set()
    for row in answer.insights[: context.max_insights]:
        fault = _citing_fault(row, context) or _replacing_fault(row, context, taken) or _mistaken(row, context)
        judged.append((row, fault))
        taken |= {memory.memory_id for memory in replaced_by(row, context)} if fault is None else set()
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


def _replacing_fault(row: InsightRow, context: BlendContext, taken: set[str]) -> str | None:
    count = len(context.memories)
    unknown = [said for said in row.replaces if _place_of(said, row, context) is None]
    if unknown:
        listed = f"the memories are m1 to m{count}" if count else "there is none"
        return f"it replaces {_shown(unknown[0])}, but {listed}"
    if row.kind == "New" and row.replaces:
        return "it is New, so it replaces nothing; or else it is Redundant or Updated"
    if row.kind != "New" and not row.replaces:
        return f"it is {row.kind}, so it must name the memories that it replaces; or else it is New"
    speaker, replaced = speaker_of(row, context.lines), replaced_by(row, context)
    if any(memory.speaker != speaker for memory in replaced):
        return "it replaces a memory that is about another speaker"
    return "it replaces a memory that another insight replaces" if taken & {old.memory_id for old in replaced} else None


def _mistaken(row: InsightRow, context: BlendContext) -> str | None:
    """The fault of a memory that has no word in common with the insight, where another one of the speaker has."""
    speaker, places = speaker_of(row, context.lines) or "", _places(row, context)
    told = " ".join((row.text, *(line.text for line in evidence_of(row, context.lines))))
    words = set(terms(without_names(told, [speaker])))
    common = {
        place: not words.isdisjoint(terms(without_names(memory.text, [speaker])))
        for place, memory in enumerate(context.memories)
        if memory.speaker == speaker
    }
    meant = next((place for place, is_common in common.items() if is_common and place not in places), None)
    mistaken = next((place for place in places if not common[place]), None)
    if meant is None or mistaken is None:
        return None
    return f"m{mistaken + 1}, which it replaces, speaks of something else; is m{meant + 1} meant, or none?"


def _place_of(said: str, row: InsightRow, context: BlendContext) -> int | None:
    """The place, from 0, of the memory that ``said`` names; `None` for none.

    A number without the letter is that of a memory only where no line that the insight rests on has it.
    """
    number = said.removeprefix("m")
    is_sure = said.startswith("m") or number not in map(str, row.lines)
    place = int(number) - 1 if number.isdecimal() and is_sure else -1
    return place if 0 <= place < len(context.memories) else None


def _shown(said: str) -> str:
    """The id or number that a row gives for a memory, as far as a correcting question may repeat it."""
    return said if said.removeprefix("m").lstrip("-").isdecimal() else "what is no id of a memory"


def replaced_by(row: InsightRow, context: BlendContext) -> tuple[Memory, ...]:
    """The memories that an insight replaces, in order, each once; without those that were not offered."""
    return tuple(context.memories[place] for place in _places(row, context))


def _places(row: InsightRow, context: BlendContext) -> list[int]:
    """The places of the memories that an insight replaces, from 0."""
    return sorted({place for said in row.replaces if (place := _place_of(said, row, context)) is not None})


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


def _text_of(row: InsightRow, context: BlendContext) -> str:
    """The text without marks of the lines and memories that it rests on, and with the days of relative words."""
    named = {*row.lines, *(int(said.removeprefix("m")) for said in row.replaces)}
    said, _ = without_marks_of_rows(row.text, named, named)
    return clip(with_days(said, evidence_of(row, context.lines)[-1].at.date()))


def insights_of(answer: InsightsForm, context: BlendContext) -> tuple[Insight, ...]:
    """The insights of a valid answer."""
    return tuple(
        Insight(
            kind=InsightKind(row.kind.lower()),
            speaker=speaker_of(row, context.lines) or "",
            text=_text_of(row, context),
            evidence=evidence_of(row, context.lines),
            replaces=tuple(memory.memory_id for memory in replaced_by(row, context)),
        )
        for row in answer.insights[: context.max_insights]
    )
