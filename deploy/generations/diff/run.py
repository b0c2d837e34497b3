"""Compares two generations, conversation by conversation; only reads, and blocks no worker."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from eunoe.deploy.clients.bootstrap import open_qdrant
from eunoe.deploy.clients.live_settings import live_settings
from eunoe.deploy.clients.models import open_embedder
from eunoe.deploy.clients.shared import open_store, store_keys
from eunoe.deploy.generations.diff.questions import DiffQuestion, Overlap, ask_both
from eunoe.deploy.generations.promotion import list_generations
from eunoe.deploy.generations.reindex import check_index_whole
from eunoe.deploy.inspect.counted import named_there
from eunoe.deploy.inspect.differences import GenerationDiff, compare
from eunoe.deploy.inspect.remembered import read_both
from eunoe.deploy.progress import ReportProgress
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Refused
from eunoe.schemas.events import Strategy
from eunoe.schemas.ports import StateStore
from eunoe.workers.models.local.compression import OfflineCompressor
from eunoe.workers.stage import Dependencies
from eunoe.workers.stores.state.redis_store import RedisStore
from eunoe.workers.stores.vectors.qdrant import QdrantIndex

AT_ONCE = 8
"""Conversations read concurrently; few, to leave the servers to the workers."""


@dataclass(frozen=True, slots=True)
class DiffOptions:
    """The generations to compare, and how."""

    old: str
    new: str
    conversations: Sequence[str] = ()
    """Keys; empty means all conversations of either generation."""
    questions: Sequence[DiffQuestion] = ()
    strategy: Strategy | None = None
    """The strategy of the questions; `None` means that of the settings."""
    examples: int = 3


@dataclass(frozen=True, slots=True)
class Compared:
    """The result of a comparison."""

    difference: GenerationDiff
    overlaps: Sequence[Overlap] = ()
    only_old: Sequence[str] = ()
    """Keys of conversations that the new generation lacks."""
    only_new: Sequence[str] = ()

    @property
    def is_equal(self) -> bool:
        """Whether both have the same conversations with equal digests, and the same utterances for each question."""
        shown = all(each.utterances[0] == each.utterances[1] for each in self.overlaps)
        return self.difference.is_equal and shown and not self.only_old and not self.only_new


async def run_diff(settings: Settings, options: DiffOptions, report: ReportProgress) -> Compared:
    """Compare two generations; ``report`` is called after each group of conversations.

    Raises `Refused` for an unknown generation or conversation, and where Qdrant lacks points of one; `Unavailable`
    when a server is down.
    """
    await _check_known(settings, options)
    sides = [await _of(settings, name) for name in (options.old, options.new)]
    for side in sides:
        await check_index_whole(side)
    async with open_store(sides[0]) as old, open_store(sides[1]) as new:
        known = set(await old.conversations()), set(await new.conversations())
        wanted = sorted(set(options.conversations) or known[0] | known[1])
        if unknown := sorted(set(wanted) - known[0] - known[1]):
            raise Refused(f"neither {options.old} nor {options.new} has a conversation {', '.join(unknown[:5])}")
        difference = await _compare(old, new, wanted, options, report)
    return Compared(
        difference=difference,
        overlaps=await _ask(sides, options),
        only_old=[key for key in wanted if key not in known[1]],
        only_new=[key for key in wanted if key not in known[0]],
    )


async def _check_known(settings: Settings, options: DiffOptions) -> None:
    names = [listed.name for listed in await list_generations(settings)]
    for name in (options.old, options.new):
        if name not in names:
            raise Refused(f"no generation {name}: {named_there(names)}")


async def _of(settings: Settings, name: str) -> Settings:
    return await live_settings(settings.model_copy(update={"generation": name}))


async def _compare(
    old: RedisStore, new: RedisStore, keys: Sequence[str], options: DiffOptions, report: ReportProgress
) -> GenerationDiff:
    found = GenerationDiff()
    for at in range(0, len(keys), AT_ONCE):
        group = keys[at : at + AT_ONCE]
        for difference in await asyncio.gather(*(_one(old, new, key, options.examples) for key in group)):
            found = found.plus(difference, options.examples)
        report("conversations", at + len(group), len(keys))
    return found


async def _one(old: StateStore, new: StateStore, key: str, examples: int) -> GenerationDiff:
    before, after = await read_both(old, new, key)
    return await asyncio.to_thread(compare, before, after, examples)


async def _ask(sides: Sequence[Settings], options: DiffOptions) -> Sequence[Overlap]:
    if not options.questions:
        return ()
    async with _recall_dependencies(sides[0]) as old, _recall_dependencies(sides[1]) as new:
        return await ask_both(old, new, options.questions, options.strategy)


@asynccontextmanager
async def _recall_dependencies(settings: Settings) -> AsyncIterator[Dependencies]:
    """The dependencies of recall in a generation: its stores and embedder, no language model, no broker."""
    async with AsyncExitStack() as closing:
        embedder = await open_embedder(settings, os.environ, closing)
        index = QdrantIndex(await closing.enter_async_context(open_qdrant(settings)), store_keys(settings))
        await index.check(embedder.name, embedder.dimensions)
        yield Dependencies(
            store=await closing.enter_async_context(open_store(settings)),
            index=index,
            embedder=embedder,
            compressor=OfflineCompressor(),
            language=None,
            settings=settings.stages,
        )
