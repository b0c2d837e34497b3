"""Stages that lack one idea, for ablations: the stage's own decision over a port without that idea."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from eunoe.schemas.events import InsightKind, Line, Provenance, Span
from eunoe.schemas.relations import Relation
from eunoe.workers.blend.blender import Blender
from eunoe.workers.blend.build import blender_of
from eunoe.workers.blend.reads import Recall
from eunoe.workers.blend.settings import BlendSettings
from eunoe.workers.blend.stage import BlendStage
from eunoe.workers.blend.turn import LATEST, Blend, BlendInput
from eunoe.workers.link.judge import RelationJudgement as LinkJudgement
from eunoe.workers.link.judge import RelationPair as LinkPair
from eunoe.workers.link.judge import RelationVerdict as LinkVerdict
from eunoe.workers.link.settings import LinkSettings
from eunoe.workers.link.stage import LinkStage
from eunoe.workers.segment.segmenter import Segmentation
from eunoe.workers.segment.stage import SegmentStage
from eunoe.workers.stage import Dependencies, Stage
from eunoe.workers.update.operator import APPENDED, OperationJudgement, OperationPair
from eunoe.workers.update.settings import UpdateSettings
from eunoe.workers.update.stage import UpdateStage

NOBODY = Provenance(code="ablation/1", model="none")


class EveryLine:
    """A segment for each utterance."""

    async def segment(self, lines: Sequence[Line]) -> Segmentation:
        """As many spans as lines."""
        return Segmentation(tuple(Span(first=place, last=place) for place in range(len(lines))), NOBODY)


class WholeSession:
    """One segment for each session."""

    async def segment(self, lines: Sequence[Line]) -> Segmentation:
        """One span; none for no lines."""
        return Segmentation((Span(first=0, last=len(lines) - 1),) if lines else (), NOBODY)


class Appending:
    """Answers APPEND for every pair; only identical sentences are not kept twice."""

    reads_meaning = False

    async def operate(self, pairs: Sequence[OperationPair]) -> OperationJudgement:
        """APPEND for every pair."""
        return OperationJudgement((APPENDED,) * len(pairs), NOBODY)


class Unrelating:
    """Links every similar pair with the same relation."""

    async def judge(self, pairs: Sequence[LinkPair]) -> LinkJudgement:
        """The same verdict for all."""
        return LinkJudgement((LinkVerdict(Relation.SAME_TOPIC),) * len(pairs), NOBODY)


@dataclass(frozen=True, slots=True)
class Unquestioning:
    """Searches by the dialogue alone (CREEM, table 5: without question generation)."""

    blender: Blender

    async def question(self, lines: Sequence[Line], *, urgent: bool) -> str:
        """The last two utterances, by which the stage searches anyway."""
        del urgent
        return " ".join(line.text for line in lines[-LATEST:])

    async def blend(self, turn: BlendInput, *, urgent: bool) -> Blend:
        """The blender's own."""
        return await self.blender.blend(turn, urgent=urgent)


@dataclass(frozen=True, slots=True)
class Unrefining:
    """All insights pile up: none replaces or repeats what is remembered (CREEM, table 5: without refining)."""

    blender: Blender

    async def question(self, lines: Sequence[Line], *, urgent: bool) -> str:
        """The blender's own."""
        return await self.blender.question(lines, urgent=urgent)

    async def blend(self, turn: BlendInput, *, urgent: bool) -> Blend:
        """The same insights, each as a new one."""
        found = await self.blender.blend(turn, urgent=urgent)
        fresh = (one.model_copy(update={"kind": InsightKind.NEW, "replaces": ()}) for one in found.insights)
        return replace(found, insights=tuple(fresh))


def turns_stage(dependencies: Dependencies) -> Stage:
    """Stage segment that cuts after each utterance."""
    del dependencies
    return SegmentStage(EveryLine())


def sessions_stage(dependencies: Dependencies) -> Stage:
    """Stage segment that never cuts."""
    del dependencies
    return SegmentStage(WholeSession())


def appending_stage(dependencies: Dependencies) -> Stage:
    """Stage update that ends nothing."""
    return UpdateStage(
        dependencies.store,
        dependencies.index,
        dependencies.embedder,
        Appending(),
        dependencies.settings.of(UpdateSettings),
    )


def unrelating_stage(dependencies: Dependencies) -> Stage:
    """Stage link that asks for no relation."""
    return LinkStage(
        dependencies.store,
        dependencies.index,
        dependencies.embedder,
        Unrelating(),
        dependencies.settings.of(LinkSettings),
    )


def unquestioning_stage(dependencies: Dependencies) -> Stage:
    """Stage blend that asks memory no question."""
    return _blending(dependencies, Unquestioning(blender_of(dependencies)))


def unrefining_stage(dependencies: Dependencies) -> Stage:
    """Stage blend that refines nothing."""
    return _blending(dependencies, Unrefining(blender_of(dependencies)))


def _blending(dependencies: Dependencies, blender: Blender) -> Stage:
    recall = Recall(
        dependencies.store, dependencies.index, dependencies.embedder, dependencies.settings.of(BlendSettings)
    )
    return BlendStage(dependencies.store, recall, blender, dependencies.settings.of(BlendSettings))
