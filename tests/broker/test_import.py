"""Imports through the command, on real servers: each format once, and again."""

import json
from pathlib import Path

import pytest

from eunoe.deploy.clients.shared import open_publisher, open_store
from eunoe.deploy.datasets.imports.formats import ImportFormat, read_import
from eunoe.deploy.datasets.imports.imported import ImportTarget
from eunoe.deploy.datasets.imports.run import run_import
from eunoe.streams.topics import Topic
from eunoe.workers.registry import STAGES
from tests.support.exports import claude_chat, write_exports
from tests.support.pipeline import Pipeline, pipeline_at_work
from tests.support.session import SessionServers
from tests.support.whole_state import read_digest

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def at_work(servers: SessionServers, tmp_path_factory: pytest.TempPathFactory):
    with pipeline_at_work(tmp_path_factory.mktemp("import"), servers) as pipeline:
        yield pipeline


async def digest(pipeline: Pipeline, keys: list[str]) -> list[str]:
    async with open_store(pipeline.settings) as store:
        return [(await read_digest(store, key, STAGES)).sha256 for key in keys]


async def test_each_format_is_imported_once(at_work: Pipeline, tmp_path: Path):
    for format_, path in write_exports(tmp_path).items():
        words = ("import", str(path), "--from", format_, "--speaker", "Ann", "--yes", "--json")
        first = json.loads((await at_work.eunoe(*words)).out)
        keys = first["plan"]["conversations"]
        assert (first["done"]["sessions"], first["done"]["present"]) == (2, 0)
        assert first["plan"]["events"] == first["done"]["events"]
        remembered = await digest(at_work, keys)
        found = read_import(path, ImportFormat(format_), ImportTarget(speaker="Ann"))
        async with open_store(at_work.settings) as store, open_publisher(at_work.settings) as publisher:
            again = await run_import(store, publisher, found.sessions)
        assert (again.sessions, again.present) == (0, 2)
        assert await digest(at_work, keys) == remembered
        view = await at_work.shown(keys[0].partition("/")[2])
        assert view.remembered == 2
        assert view.segments[0].lines[0].at.isoformat() < "2026-01-04"


async def test_chats_are_imported_without_an_entry_that_is_none(at_work: Pipeline, tmp_path: Path):
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([{"title": "x"}, claude_chat("chat-9")]))
    words = ("import", str(path), "--from", "claude", "--conversation", "damaged", "--yes", "--json")
    done = await at_work.eunoe(*words)
    assert done.code == 1
    plan = json.loads(done.out)
    assert [fault.partition(": ")[0] for fault in plan["plan"]["refused"]] == [f"{path}, chat 1"]
    assert (await at_work.shown("damaged")).remembered == plan["done"]["sessions"] > 0


async def test_nothing_is_imported_without_a_yes(at_work: Pipeline, tmp_path: Path):
    path = write_exports(tmp_path)["jsonl"]
    refused = await at_work.eunoe("import", str(path), "--from", "jsonl", "--conversation", "untouched")
    assert refused.code == 2
    assert "--yes" in refused.err
    shown = await at_work.eunoe("import", str(path), "--from", "jsonl", "--conversation", "untouched", "--dry-run")
    assert shown.code == 0
    assert "4 events in 2 sessions of 1 conversation, from 2024-05-01 to 2024-05-02" in shown.err
    assert not [record for record in await at_work.records(Topic.CONVERSATIONS) if record.key == b"default/untouched"]
