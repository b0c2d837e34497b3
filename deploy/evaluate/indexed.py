"""A conversation turned into memory by the stages in this process, with its retrievers."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from eunoe.deploy.datasets.loaded import LoadedConversation, Played
from eunoe.deploy.evaluate.baselines import Baselines, PackedMemory
from eunoe.deploy.evaluate.models import EvalModels
from eunoe.schemas.events import Ask, SessionEnded, Strategy, Utterance
from eunoe.schemas.identity import conversation_key
from eunoe.workers.compress.reads import read_stats
from eunoe.workers.derive.in_memory import InMemoryPipeline, select_stages
from eunoe.workers.registry import StageSettings
from eunoe.workers.respond.context import Context
from eunoe.workers.respond.recall.sources import Query, RecallSource
from eunoe.workers.respond.strategies import recall_sources
from eunoe.workers.stage import Build, Dependencies
from eunoe.workers.text.tokens import count_tokens

MEMORY_UPDATES = ("intake", "segment", "summarize", "update", "link")
"""The stages that bring memories up to date."""
REMEMBERING = (*MEMORY_UPDATES, "compress", "tree")
"""The stages that build the memory; the others only serve asks."""
ASK_EVERY = 10
"""For strategy insight: every tenth utterance asks for a reply, so that stage blend has insights to propose."""


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """Options for turning a conversation into memory; the default: all of it, through all stages, without asks."""

    name: str = "whole"
    stages: tuple[str, ...] = REMEMBERING
    instead: Mapping[str, Build] = field(default_factory=dict)
    """Stage → the function that builds it in place of its own."""
    changed: Callable[[StageSettings], StageSettings] = lambda settings: settings
    ask_every: int = 0
    """Every n-th utterance asks for a reply, for which stage blend runs; 0 means none."""
    is_open: bool = False
    """Whether the last session stays open, so that questions are asked in it."""


@dataclass(frozen=True, slots=True)
class IndexedConversation:
    """A conversation as memory, with its retrievers."""

    key: str
    loaded: LoadedConversation
    speakers: tuple[str, ...]
    dependencies: Dependencies
    sources: Mapping[Strategy, RecallSource]
    baselines: Baselines
    how: IngestOptions
    blended: "IndexedConversation | None" = None
    """The same conversation with insights, from which strategy insight retrieves; `None` means this one."""

    @classmethod
    async def build(
        cls,
        loaded: LoadedConversation,
        models: EvalModels,
        settings: StageSettings,
        how: IngestOptions | None = None,
        baselines: Baselines | None = None,
    ) -> "IndexedConversation":
        """Run a conversation through the stages; without a language model they decide offline.

        ``baselines`` are those of the same conversation, if another variant has built them already.
        """
        how = how or IngestOptions()
        stages = select_stages(how.stages, how.instead)
        pipeline = InMemoryPipeline(
            models.embedder, how.changed(settings), models.language, models.compressor, stages=stages
        )
        events = asking(loaded, how.ask_every)
        await pipeline.play(events[: _last_end(events)] if how.is_open else events)
        dependencies = pipeline.dependencies
        first = loaded.utterances[0]
        key = conversation_key(first.tenant, first.conversation_id)
        speakers = (await read_stats(dependencies.store, key)).speakers
        baselines = baselines or await Baselines.of(loaded.utterances, speakers, models.embedder)
        return cls(key, loaded, speakers, dependencies, recall_sources(dependencies), baselines, how)

    @classmethod
    async def with_insights(
        cls, loaded: LoadedConversation, models: EvalModels, settings: StageSettings, ask_every: int = ASK_EVERY
    ) -> "IndexedConversation":
        """The conversation as `build` makes it, and beside it blended, for strategy insight alone.

        In the blended one every ``ask_every``-th utterance asks for a reply, so that insights become memories.
        """
        whole = await cls.build(loaded, models, settings)
        how = IngestOptions("blended", (*REMEMBERING, "blend"), ask_every=ask_every)
        return replace(whole, blended=await cls.build(loaded, models, settings, how, whole.baselines))

    async def context(self, strategy: Strategy, question: str, budget: int, asker: str = "") -> Context:
        """The context that the responder would see, for a question and a budget in tokens.

        It is asked at the time of the last utterance. ``asker``: the speaker who asks; empty where the data does not
        say.
        """
        if strategy is Strategy.INSIGHT and self.blended is not None:
            return await self.blended.context(strategy, question, budget, asker)
        query = Query(self.key, question, self.speakers, budget, asker, at=self.loaded.utterances[-1].at)
        return await self.sources[strategy].recall(query)

    async def recall(self, strategy: Strategy, question: str, budget: int, asker: str = "") -> PackedMemory:
        """The same context as a baseline returns it."""
        context = await self.context(strategy, question, budget, asker)
        cited = frozenset(id_ for row in context.rows for id_ in row.cites)
        return PackedMemory(context.text, count_tokens(context.text), cited)


def asking(loaded: LoadedConversation, every: int) -> list[Played]:
    """The events of a conversation, every ``every``-th utterance with an ask; 0 means none."""
    found: list[Played] = []
    said = 0
    for event in unasked(loaded.events):
        if isinstance(event, Utterance):
            said += 1
            if every and said % every == 0:
                event = event.model_copy(update={"ask": Ask(request_id=f"turn-{said}")})  # noqa: PLW2901
        found.append(event)
    return found


def _last_end(events: Sequence[Played]) -> int:
    """The index of the end of the last session; the number of events where it has no end."""
    return len(events) - 1 if events and isinstance(events[-1], SessionEnded) else len(events)


def unasked(events: Iterable[Played]) -> Iterator[Played]:
    """The events without asks, since evaluations ask questions of their own."""
    for event in events:
        yield event.model_copy(update={"ask": None}) if isinstance(event, Utterance) else event
