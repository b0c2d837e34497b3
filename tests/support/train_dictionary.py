"""Trains a dictionary for stored documents: ``python -m tests.support.train_dictionary FILE``.

The documents are those of the bundled conversation, remembered without a model and with one that answers by the
prompt. A new dictionary needs a new mark: documents packed with the one before must stay readable.
"""

import asyncio
import sys
from pathlib import Path

import zstandard

from eunoe.deploy.datasets.load import load_conversation
from eunoe.deploy.demo.bundled import CONVERSATION
from eunoe.schemas.model_ports import LanguageModel
from eunoe.workers.derive.in_memory import InMemoryPipeline
from eunoe.workers.models.local.embedding import WordLlamaEmbedder
from eunoe.workers.registry import STAGES, StageSettings
from eunoe.workers.stores.documents.shortening import shortened
from eunoe.workers.tree.settings import TreeSettings
from tests.unit.workers.derive.test_golden import Listening

SIZE = 16_384
"""Bytes of the dictionary; twice as many gain 1 %."""
_VECTORS = ("vectors", "sums", "readings")


async def documents(language: LanguageModel | None) -> list[tuple[str, str]]:
    """Id and text of all documents that one run leaves, vectors left out: they are noise."""
    settings = StageSettings(tree=TreeSettings(ask_model=language is not None))
    pipeline = InMemoryPipeline(WordLlamaEmbedder(), settings=settings, language=language)
    events = load_conversation(CONVERSATION).events
    await pipeline.play(events)
    tables = [(name, table) for name, spec in STAGES.items() for table in spec.tables.all if table not in _VECTORS]
    found = [await pipeline.store.scan(name, events[0].key, table) for name, table in tables]
    return [row for rows in found for row in rows.items()]


async def _train() -> bytes:
    rows = [row for language in (None, Listening()) for row in await documents(language)]
    samples = [shortened(text.encode(), id_.encode()) for id_, text in rows]
    return zstandard.train_dictionary(SIZE, samples, dict_id=1).as_bytes()


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(asyncio.run(_train()))
