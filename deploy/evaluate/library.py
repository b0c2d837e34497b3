"""One conversation, remembered by the stages in this process, and the ways of asking it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from eunoe.deploy.demo.loaded import LoadedConversation, Played
from eunoe.deploy.evaluate.baselines import Baselines, Recalled
from eunoe.deploy.evaluate.rehearsal import REMEMBERING, Rehearsal
from eunoe.schemas.events import Strategy, Utterance
from eunoe.schemas.identity import conversation_key
from eunoe.schemas.ports import Embedder, LanguageModel
from eunoe.workers.compress.reads import read_stats
from eunoe.workers.models.tokens import count_tokens
from eunoe.workers.registry import Kit, StageSettings, recall_sources
from eunoe.workers.respond.context import Context
from eunoe.workers.respond.sources import Query, RecallSource


@dataclass(frozen=True, slots=True)
class Library:
    """One conversation, remembered, and the ways of asking it."""

    key: str
    loaded: LoadedConversation
    speakers: tuple[str, ...]
    kit: Kit
    sources: Mapping[Strategy, RecallSource]
    baselines: Baselines

    @classmethod
    async def grown(
        cls,
        loaded: LoadedConversation,
        embedder: Embedder,
        settings: StageSettings,
        language: LanguageModel | None = None,
    ) -> "Library":
        """The conversation through all stages, as clients would produce it; without ``language`` offline."""
        house = Rehearsal(embedder, settings, REMEMBERING, language=language)
        await house.play(unasked(loaded.events))
        kit = house.kit
        first = loaded.utterances[0]
        key = conversation_key(first.tenant, first.conversation_id)
        speakers = (await read_stats(kit.store, key)).speakers
        baselines = await Baselines.of(loaded.utterances, speakers, embedder)
        return cls(key, loaded, speakers, kit, recall_sources(kit), baselines)

    async def context(self, strategy: Strategy, question: str, budget: int) -> Context:
        """What the responder would see."""
        return await self.sources[strategy].recall(Query(self.key, question, self.speakers, budget))

    async def recall(self, strategy: Strategy, question: str, budget: int) -> Recalled:
        """The same as evaluations see it."""
        context = await self.context(strategy, question, budget)
        cited = frozenset(id_ for row in context.rows for id_ in row.cites)
        return Recalled(context.text, count_tokens(context.text), cited)


def unasked(events: Iterable[Played]) -> Iterator[Played]:
    """The events without their asks: evaluations put questions of their own."""
    for event in events:
        yield event.model_copy(update={"ask": None}) if isinstance(event, Utterance) else event
