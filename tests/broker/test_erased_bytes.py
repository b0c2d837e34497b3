"""No file of `eunoe up` holds what was erased, in any encoding, once what the receipt names is done."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import pytest
from pydantic import SecretStr

from eunoe.deploy.clients.bootstrap import open_qdrant
from eunoe.deploy.clients.shared import store_keys
from eunoe.deploy.generations.erase.receipt import Receipt
from eunoe.deploy.settings import Settings
from eunoe.deploy.settings.sections import KeySettings
from eunoe.schemas.decisions import Collection
from eunoe.schemas.events import Ask, SessionEnded, Utterance
from eunoe.workers.stores.vectors.qdrant import QdrantIndex
from tests.support.byte_search import Found, needles, search_files
from tests.support.in_memory import START
from tests.support.pipeline import KEK, Pipeline, StandalonePipeline

pytestmark = [
    pytest.mark.broker,
    pytest.mark.slow,
    pytest.mark.timeout(500),
    pytest.mark.embedded("reads the files of the embedded stack"),
]

NAMED = {"journal": "journal of the data directory"}
"""Folders of the data directory that a receipt may name → how it names them."""
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
    return {f"vector {sha256(point.dense).hexdigest()[:8]}": point.dense for point in points}


def places(found: Mapping[str, set[Found]]) -> set[str]:
    """The folders of the data directory with findings."""
    return {Path(name).parts[1] for name in found}


def whats(found: Mapping[str, set[Found]]) -> set[str]:
    return {one.what for some in found.values() for one in some}


class SealedPipeline(StandalonePipeline):
    """The same with a key store of its own."""

    @property
    def settings(self) -> Settings:
        keys = KeySettings(store=SecretStr(self.variables["EUNOE_KEYS__STORE"]), kek=SecretStr(KEK))
        return super().settings.model_copy(update={"keys": keys})


def sealed(pipeline: Pipeline) -> Pipeline:
    own = {"EUNOE_KEYS__STORE": str(pipeline.cwd / "keys.sqlite"), "EUNOE_KEYS__KEK": KEK}
    return SealedPipeline(pipeline.cwd, pipeline.base, {**pipeline.variables, **own})


def plain(pipeline: Pipeline) -> Pipeline:
    """The same without a key store."""
    return StandalonePipeline(pipeline.cwd, pipeline.base, {**pipeline.variables, "EUNOE_KEYS__STORE": ""})


@pytest.mark.parametrize("made", [lambda pipeline: pipeline, plain, sealed], ids=["by-default", "plain", "sealed"])
async def test_no_file_holds_what_was_erased(
    standalone: Pipeline, tmp_path: Path, made: Callable[[Pipeline], Pipeline]
) -> None:
    pipeline, temporary = made(standalone), tmp_path / "tmp"
    temporary.mkdir()
    variables = {"TMPDIR": str(temporary)}
    async with pipeline.up(**variables):
        await pipeline.produce(*events())
        (pipeline.cwd / "events.jsonl").unlink()
        await pipeline.remembered(2, PART)
        await pipeline.remembered(1, WHOLE)
        before = await vectors(pipeline, PART, WHOLE)
        found = search_files([tmp_path], needles(WORDS, before))
        # else the search is blind: vectors are never sealed, and without a key store nothing is
        assert whats(found) >= before.keys()
        if made is plain:
            assert whats(found) == {*WORDS, *before}
            assert places(found) == {"journal", "qdrant", "valkey"}
        else:
            unsealed = {name: some for name, some in found.items() if Path(name).parts[1] != "qdrant"}
            assert whats(unsealed) <= {"an id"}  # ids stay in clear

        unsaid = await pipeline.eunoe("erase", PART, "--utterance", WORDS["an id"], "--utterance", "u3", **variables)
        assert unsaid.code == 0, unsaid.err
        whole = await pipeline.eunoe("erase", WHOLE, **variables)
        assert whole.code == 0, whole.err
        remaining = await vectors(pipeline, PART, WHOLE)
        gone = {name: dense for name, dense in before.items() if dense not in remaining.values()}
        assert len(gone) > len(remaining) > 0
        wanted = needles(WORDS, gone)
        # the receipt says until when
        not_covered = {one.place for one in Receipt.from_json(whole.out).not_covered}
        named = {folder for folder, place in NAMED.items() if place in not_covered}
        assert places(search_files([tmp_path], wanted)) == (named if made is plain else set())
        for receipt in (unsaid.out, whole.out):
            (tmp_path / "receipt.json").write_text(receipt)
            told = await pipeline.eunoe("erase", "verify", str(tmp_path / "receipt.json"), **variables)
            assert told.code == 0, told.out
    async with pipeline.up(**variables):
        pass
    assert search_files([tmp_path], wanted) == {}
