"""Checks of a model's answer, and the insights of a valid one."""

from collections.abc import Sequence

from eunoe.schemas.events import Insight, InsightKind, Line
from eunoe.workers.blend.prompt import BlendAnswer, BlendContext, BlendedInsight
from eunoe.workers.blend.turn import LATEST
from eunoe.workers.models.prompt_lines import speakers_in
from eunoe.workers.text.drafts import clip


def fault_of(answer: BlendAnswer, context: BlendContext) -> str | None:
    """The first fault of an answer, in words for a model; `None` if there is none."""
    if len(answer.insights) > context.max_insights:
        return f"there are {len(answer.insights)} insights; at most {context.max_insights} are taken"
    for place, insight in enumerate(answer.insights, start=1):
        fault = _citing_fault(insight, context) or _replacing_fault(insight, context)
        if fault is not None:
            return f"insight {place}: {fault}"
    replaced = [number for insight in answer.insights for number in set(insight.replaces)]
    twice = sorted({number for number in replaced if replaced.count(number) > 1})
    return f"memory {twice[0]} is replaced by two insights" if twice else None


def _citing_fault(insight: BlendedInsight, context: BlendContext) -> str | None:
    count = len(context.lines)
    unknown = [number for number in insight.cites if not 1 <= number <= count]
    if unknown:
        return f"it cites {unknown[0]}, but the lines are 1 to {count}"
    if not insight.text.strip():
        return "its text is blank"
    if insight.speaker not in speakers_in(context.lines):
        return "its speaker is none of the speakers listed; spell the name as it is there"
    evidence = evidence_of(insight, context.lines)
    if insight.speaker not in {line.speaker for line in evidence}:
        return f"{insight.speaker} said none of the lines that it cites as evidence"
    if not any(line in context.lines[-LATEST:] for line in evidence):
        return "it cites none of the last two lines as evidence"
    return None


def _replacing_fault(insight: BlendedInsight, context: BlendContext) -> str | None:
    count = len(context.memories)
    unknown = [number for number in insight.replaces if not 1 <= number <= count]
    if unknown:
        return f"it replaces memory {unknown[0]}, but {f'the memories are 1 to {count}' if count else 'there is none'}"
    if insight.kind == "New" and insight.replaces:
        return "it is New, so it replaces nothing; or else it is Redundant or Updated"
    if insight.kind != "New" and not insight.replaces:
        return f"it is {insight.kind}, so it must name the memories that it replaces; or else it is New"
    others = [n for n in insight.replaces if context.memories[n - 1].speaker != insight.speaker]
    return f"memory {others[0]} is about another speaker" if others else None


def evidence_of(insight: BlendedInsight, lines: Sequence[Line]) -> tuple[Line, ...]:
    """The cited evidence lines, in order, without duplicates; the numbers must be those shown."""
    cited = [lines[number - 1] for number in sorted(set(insight.cites))]
    return tuple(line for line in cited if line.is_evidence)


def insights_of(answer: BlendAnswer, context: BlendContext) -> tuple[Insight, ...]:
    """The insights of a valid answer."""
    return tuple(
        Insight(
            kind=InsightKind(insight.kind.lower()),
            speaker=insight.speaker,
            text=clip(insight.text),
            evidence=evidence_of(insight, context.lines),
            replaces=tuple(context.memories[number - 1].memory_id for number in sorted(set(insight.replaces))),
        )
        for insight in answer.insights
    )
