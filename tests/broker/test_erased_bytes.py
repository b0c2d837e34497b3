"""No file of `eunoe up` holds what was erased, in any encoding, once what the receipt names is done."""

import json
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from eunoe.deploy.clients.bootstrap import open_qdrant
from eunoe.deploy.clients.shared import store_keys
from eunoe.deploy.generations.erase.receipt import Receipt
from eunoe.schemas.decisions import Collection
from eunoe.schemas.events import Ask, SessionEnded, Utterance
from eunoe.workers.stores.qdrant import QdrantIndex
from tests.support.byte_search import Found, needles, search_files
from tests.support.in_memory import START
from tests.support.pipeline import Pipeline

pytestmark = [
    pytest.mark.broker,
    pytest.mark.slow,
    pytest.mark.timeout(500),
    pytest.mark.embedded("reads the files of the embedded stack"),
]

PART, WHOLE = "keeps-a-part", "goes-wholly"
WORDS = {
    "a word": "Zanzibarqx",
    "a word that is not ASCII": "Tromsøvågqx",
    "a name": "Quillonqx",
    "an id": "id-qxerased",
    "a word of the other": "Kirkenesqx",
    "a name of the other": "Wendelaqx",
}


def said(name: str, id_: str, speaker: str, text: str, **more: object) -> str:
    event = Utterance(conversation_id=name, utterance_id=id_, speaker=speaker, text=text, at=START, **more)
    return event.model_dump_json() + "\n"


def end(name: str, minutes: int) -> str:
    return SessionEnded(conversation_id=name, at=START + timedelta(minutes=minutes)).model_dump_json() + "\n"


def events() -> list[str]:
    word, other, name, id_, whole, whom = WORDS.values()
    return [
        said(PART, "u1", "Ann", "I sold my boat and I bought a small house by the harbour in Bergen."),
        said(PART, id_, name, f"I moved to {word} near {other} last week, I am a nurse at its hospital now."),
        end(PART, 1),
        said(PART, "u2", "Ann", "My sister Clara is getting married in June and I am invited."),
        said(PART, "u3", "Ann", f"Where does {name} live now?", ask=Ask(request_id="r1")),
        end(PART, 2),
        said(WHOLE, "w1", whom, f"My dentist in {whole} hurts me, so I look for another one in spring."),
        said(WHOLE, "w2", whom, f"I have a dog in {whole}, and I walk with it each day.", ask=Ask(request_id="r2")),
        end(WHOLE, 1),
    ]


async def vectors(pipeline: Pipeline, *names: str) -> dict[str, bytes]:
    """The vectors of all points of these conversations."""
    settings = pipeline.settings.model_copy(update={"generation": "v1"})
    async with open_qdrant(settings) as client:
        index = QdrantIndex(client, store_keys(settings))
        points = [point for one in Collection for name in names for point in await index.points(one, f"default/{name}")]
    return {f"vector of {point.id}": point.dense for point in points}


def places(found: Mapping[str, set[Found]]) -> set[str]:
    """The folders of the data directory with findings."""
    return {name.removeprefix(".eunoe/").partition("/")[0] for name in found}


def whats(found: Mapping[str, set[Found]]) -> set[str]:
    return {one.what for some in found.values() for one in some}


async def test_no_file_holds_what_was_erased(standalone: Pipeline, tmp_path: Path) -> None:
    pipeline, temporary = standalone, tmp_path / "tmp"
    temporary.mkdir()
    folders = [pipeline.cwd]
    kept = {"TMPDIR": str(temporary)}
    async with pipeline.up(**kept):
        print(time.ctime(), "up")
        await pipeline.produce(*events())
        (pipeline.cwd / "events.jsonl").unlink()
        await pipeline.remembered(2, PART)
        await pipeline.remembered(1, WHOLE)
        before = await vectors(pipeline, PART, WHOLE)
        wanted = needles(WORDS, before)
        print(time.ctime(), 'remembered')
        found = search_files(folders, wanted)
        print(time.ctime(), "BEFORE", {k: v for k, v in found.items()})

        unsaid = await pipeline.eunoe("erase", PART, "--utterance", WORDS["an id"], "--utterance", "u3", **kept)
        print(time.ctime(), 'unsaid')
        assert unsaid.code == 0, unsaid.err
        whole = await pipeline.eunoe("erase", WHOLE, **kept)
        assert whole.code == 0, whole.err
        remaining = await vectors(pipeline, PART, WHOLE)
        gone = {name: dense for name, dense in before.items() if dense not in remaining.values()}
        wanted = needles(WORDS, gone)
        found = search_files(folders, wanted)
        print(time.ctime(), "AFTER", found)
        print(json.dumps([one["place"] for one in unsaid.json["not_covered"]]))
        (tmp_path / "receipt.json").write_text(unsaid.out)
        told = await pipeline.eunoe("erase", "verify", str(tmp_path / "receipt.json"))
        assert told.code == 0, told.err
    async with pipeline.up(**kept):
        pass
    found = search_files(folders, wanted)
    print(time.ctime(), "RESTART", found)
    assert found == {}
