"""Makes the points of memories again from the stored documents."""

from collections.abc import Sequence

from eunoe.schemas.decisions import Point
from eunoe.schemas.memory import Memory
from eunoe.workers.stage import Dependencies
from eunoe.workers.text.names import without_names
from eunoe.workers.text.terms import terms
from eunoe.workers.update.memories import build_point
from eunoe.workers.update.reads import all_memories, all_steps, read_memory_stats
from eunoe.workers.update.settings import UpdateSettings


async def restore_points(dependencies: Dependencies, key: str) -> Sequence[Point]:
    """The points of a conversation's memories, as the stage made them; raises `Unavailable`."""
    store = dependencies.store
    memories = await all_memories(store, key)
    if not memories:
        return ()
    speakers = (await read_memory_stats(store, key)).speakers
    known = {steps.session: speakers[: steps.speakers] for steps in await all_steps(store, key)}
    names = [known.get(memory.session, speakers) for memory in memories]
    vectors = await dependencies.embedder.embed(
        [without_names(memory.text, then) for memory, then in zip(memories, names, strict=True)]
    )
    settings = dependencies.settings.of(UpdateSettings)

    def point(row: int, memory: Memory) -> Point:
        words = terms(memory.text, drop=names[row])
        return build_point(key, memory, vectors[row], words, settings)

    return [point(row, memory) for row, memory in enumerate(memories)]
