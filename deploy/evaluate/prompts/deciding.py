"""Asks the stages' own deciders the cases, and compares their decisions with gold."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from pydantic import ValidationError

from eunoe.deploy.evaluate.answering import lay_out
from eunoe.deploy.evaluate.baselines import Passage
from eunoe.deploy.evaluate.prompts import inputs
from eunoe.deploy.evaluate.prompts.cases import PromptCase
from eunoe.deploy.evaluate.prompts.comparing import (
    blend_faults,
    operation_faults,
    relation_faults,
    reply_faults,
    segment_faults,
    summary_faults,
    text_faults,
    tree_faults,
)
from eunoe.deploy.evaluate.prompts.inputs import line_of, lines_of, memory_of
from eunoe.schemas.errors import Refused
from eunoe.schemas.events import Provenance, Span, Utterance
from eunoe.schemas.relations import Relation
from eunoe.schemas.versions import describe
from eunoe.workers.blend.build import blender_of
from eunoe.workers.blend.turn import BlendInput
from eunoe.workers.link.build import judge_of
from eunoe.workers.link.judge import RelationPair
from eunoe.workers.link.reads import Timeline
from eunoe.workers.respond.build import replier_of
from eunoe.workers.respond.context import Context, latest
from eunoe.workers.respond.recall.timelines import ShownTimeline, lay_out_timelines
from eunoe.workers.respond.replier import ReplyTask
from eunoe.workers.respond.settings import RespondSettings
from eunoe.workers.segment.build import segmenter_of
from eunoe.workers.stage import Dependencies
from eunoe.workers.summarize.build import summarizer_of
from eunoe.workers.tree.aggregates import AggregateTask
from eunoe.workers.tree.build import aggregator_of
from eunoe.workers.tree.settings import TreeSettings
from eunoe.workers.update.build import operator_of
from eunoe.workers.update.operator import OperationPair

SIMILARITY = 0.6
"""Cosine of a pair of link; only the offline judge reads it."""


@dataclass(frozen=True, slots=True)
class CaseDecision:
    """The decision on a case."""

    faults: list[str]
    """Differences from gold, in words; none for a case that passes."""
    made_by: tuple[Provenance, ...]
    given: str
    """The decision in words."""


Decide = Callable[[PromptCase, Dependencies], Awaitable[CaseDecision]]


async def decide(case: PromptCase, dependencies: Dependencies) -> CaseDecision:
    """Decide a case as its stage does. Raises `Refused` for a case that is not formed, `Unavailable`."""
    chosen = DECIDERS.get(case.stage)
    if chosen is None:
        raise Refused(f"case {case.id}: no prompts of stage {case.stage!r}; use {', '.join(DECIDERS)}")
    try:
        return await chosen(case, dependencies)
    except ValidationError as error:
        raise Refused(f"case {case.id}: {describe(error)}") from None


async def _segment(case: PromptCase, dependencies: Dependencies) -> CaseDecision:
    asked = inputs.LinesInput.model_validate(case.input)
    found = await segmenter_of(dependencies).segment(lines_of(asked.lines, asked.day))
    starts = [span.first + 1 for span in found.spans]
    faults = segment_faults(starts, inputs.SegmentGold.model_validate(case.gold))
    return CaseDecision(faults, (found.made_by,), f"segments begin at {starts}")


async def _summarize(case: PromptCase, dependencies: Dependencies) -> CaseDecision:
    asked = inputs.LinesInput.model_validate(case.input)
    lines = lines_of(asked.lines, asked.day)
    found = await summarizer_of(dependencies).summarize(lines, (Span(first=0, last=len(lines) - 1),))
    faults = summary_faults(found.drafts, inputs.SummaryGold.model_validate(case.gold))
    return CaseDecision(faults, (found.made_by,), " / ".join(draft.text for draft in found.drafts))


async def _update(case: PromptCase, dependencies: Dependencies) -> CaseDecision:
    asked = inputs.PairsInput.model_validate(case.input)
    pairs = [
        OperationPair(memory_of(old, number), memory_of(new, number, inputs.DAY, session=2))
        for number, (old, new) in enumerate(asked.pairs, 1)
    ]
    found = await operator_of(dependencies).operate(pairs)
    faults = operation_faults(found.verdicts, inputs.OperationsGold.model_validate(case.gold))
    given = ", ".join(f"{verdict.operation.value} {verdict.fused}".strip() for verdict in found.verdicts)
    return CaseDecision(faults, (found.made_by,), given)


async def _link(case: PromptCase, dependencies: Dependencies) -> CaseDecision:
    asked = inputs.PairsInput.model_validate(case.input)
    pairs = [
        RelationPair(memory_of(old, number), memory_of(new, number, inputs.DAY, session=2), SIMILARITY)
        for number, (old, new) in enumerate(asked.pairs, 1)
    ]
    found = await judge_of(dependencies).judge(pairs)
    given = ["None" if one.relation is None else one.relation.value for one in found.verdicts]
    faults = relation_faults(given, inputs.RelationsGold.model_validate(case.gold))
    return CaseDecision(faults, (found.made_by,), ", ".join(given))


async def _tree(case: PromptCase, dependencies: Dependencies) -> CaseDecision:
    asked = inputs.TreeInput.model_validate(case.input)
    tasks = [await _task(node, f"n{number}", dependencies) for number, node in enumerate(asked.nodes, 1)]
    asking = dependencies.settings.with_changes(TreeSettings, ask_model=True)
    found = await aggregator_of(replace(dependencies, settings=asking)).aggregate(tasks, ())
    texts = [one.text for one in found]
    faults = tree_faults(texts, inputs.TreeGold.model_validate(case.gold))
    return CaseDecision(faults, tuple(one.made_by for one in found), " / ".join(texts))


async def _task(node: inputs.NodeInput, name: str, dependencies: Dependencies) -> AggregateTask:
    vectors = await dependencies.embedder.embed([*node.new, node.before or name])
    return AggregateTask(
        node_id=name,
        text=node.before,
        news=node.new,
        drop=node.drop,
        descendants=node.entries,
        current=node.entries - len(node.drop),
        speakers=(),
        centroid=np.asarray(vectors, np.float32).sum(axis=0),
    )


async def _question(case: PromptCase, dependencies: Dependencies) -> CaseDecision:
    asked = inputs.LinesInput.model_validate(case.input)
    found = await blender_of(dependencies).question(lines_of(asked.lines, asked.day), urgent=False)
    return CaseDecision(text_faults(found, inputs.TextGold.model_validate(case.gold)), (), found)


async def _blend(case: PromptCase, dependencies: Dependencies) -> CaseDecision:
    asked = inputs.BlendCaseInput.model_validate(case.input)
    memories = tuple(memory_of(text, number) for number, text in enumerate(asked.memories, 1))
    turn = BlendInput(lines_of(asked.lines, asked.day), memories)
    found = await blender_of(dependencies).blend(turn, urgent=False)
    places = {memory.memory_id: number for number, memory in enumerate(memories, 1)}
    faults = blend_faults(found.insights, places, inputs.BlendGold.model_validate(case.gold))
    given = " / ".join(f"{one.kind.value}: {one.text}" for one in found.insights)
    return CaseDecision(faults, (found.made_by,), given)


async def _respond(case: PromptCase, dependencies: Dependencies) -> CaseDecision:
    asked = inputs.ReplyInput.model_validate(case.input)
    context = _timeline(asked) if asked.timeline else _remembered(asked)
    question = line_of(asked.question, 500, asked.day)
    dialogue = latest(
        lines_of(asked.dialogue, asked.day, first=200),
        dependencies.settings.of(RespondSettings).dialogue_tokens,
        len(context.rows) + 1,
    )
    speakers = tuple(dict.fromkeys(row.speaker for row in context.rows)) or (question.speaker,)
    found = await replier_of(dependencies).reply(ReplyTask(asked.speak_as, question, dialogue, context, speakers))
    cited = [row.number for row in found.cited]
    faults = reply_faults(found.text, cited, inputs.ReplyGold.model_validate(case.gold))
    return CaseDecision(faults, (found.made_by,), f"{found.text} {cited}")


def _remembered(asked: inputs.ReplyInput) -> Context:
    """The lines of memory as the responder shows them."""
    lines = [line_of(text, number, inputs.EARLIER) for number, text in enumerate(asked.memory, 1)]
    said = [
        Utterance(
            conversation_id="case", utterance_id=line.utterance_id, speaker=line.speaker, text=line.text, at=line.at
        )
        for line in lines
    ]
    return lay_out([Passage.of([one]) for one in said])


def _timeline(asked: inputs.ReplyInput) -> Context:
    """The timeline as the responder shows it."""
    parts = [text.rpartition(" -> ") for text in asked.timeline[:-1]]
    texts = [*(part[0] for part in parts), asked.timeline[-1]]
    memories = tuple(memory_of(text, number, session=number) for number, text in enumerate(texts, 1))
    ids = tuple(memory.memory_id for memory in memories)
    timeline = Timeline(memories=ids, relations=tuple(Relation(part[2]) for part in parts), retrieved=ids[-1])
    return lay_out_timelines([ShownTimeline(timeline, memories, 1.0)])


DECIDERS: Mapping[str, Decide] = {
    "segment": _segment,
    "summarize": _summarize,
    "update": _update,
    "link": _link,
    "tree": _tree,
    "question": _question,
    "blend": _blend,
    "respond": _respond,
}
"""Name of the prompt → its decider."""
