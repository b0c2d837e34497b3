"""Imports of what came in part before: a later export, a shortened window of known ids, and erased utterances."""

import json
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import pytest

from eunoe.deploy.cli import import_
from eunoe.deploy.datasets.imports import run
from eunoe.deploy.datasets.imports.formats import ImportFormat, read_import
from eunoe.deploy.datasets.imports.imported import ImportTarget
from eunoe.deploy.datasets.imports.missing import missing_sessions
from eunoe.deploy.datasets.imports.run import run_import
from eunoe.deploy.inspect.view import view_conversation
from eunoe.deploy.settings import Settings
from eunoe.schemas.erasure import hashed_id
from eunoe.schemas.errors import Unavailable
from eunoe.schemas.ports import StateStore
from eunoe.workers.intake.head import Head
from eunoe.workers.intake.settings import IntakeSettings
from eunoe.workers.registry import StageSettings
from tests.support.exports import (
    DAY,
    SAID,
    chatgpt_chat,
    claude_chat,
    claude_message,
    csv_rows,
    json_lines,
    mem0_memories,
    message,
    write_exports,
)
from tests.support.in_memory import make_pipeline

DOG = "My dog is called Rex."


def grown_chat():
    """The chat of `chatgpt_chat` with one more message, within the half hour of its last session."""
    chat = deepcopy(chatgpt_chat())
    chat["mapping"]["u4"] = message("u4", "user", [DOG], DAY + 7300, "a3")
    return [{**chat, "current_node": "u4"}]


def grown_claude():
    """The chat of `claude_chat` with one more message, within the half hour of its last session."""
    chat = claude_chat()
    later = claude_message("u4", "human", [DOG], "2023-11-15T00:15:00Z")
    return [{**chat, "chat_messages": [*chat["chat_messages"], later]}]


def grown_memories():
    """The memories of `mem0_memories` with one more of the second day."""
    later = {"id": "m3", "memory": DOG, "user_id": "ann", "created_at": "2026-01-03T09:00:00-08:00"}
    return {"results": [*mem0_memories()["results"], later]}


def grown_rows() -> str:
    """The rows of `csv_rows` with one more of the second day."""
    return csv_rows() + f"2024-05-02T10:01:00Z,user,{DOG}\n"


def grown_lines() -> str:
    """The events of `json_lines` with one more utterance in the session ``s2``."""
    return json_lines() + (
        '{"type": "utterance", "conversation_id": "c", "speaker": "Ann", "utterance_id": "u3", "session_id": "s2",'
        f' "text": "{DOG}", "at": "2024-05-02T10:01:00Z"}}\n'
    )


class Working:
    """A publisher whose pipeline handles each event at once."""

    def __init__(self, pipeline) -> None:
        self.pipeline = pipeline

    async def publish(self, messages):
        await self.pipeline.log.publish(messages)
        await self.pipeline.run_until_idle()


def read(tmp_path: Path, format_: str, document: object = None):
    path = write_exports(tmp_path)[format_]
    if document is not None:
        path.write_text(document if isinstance(document, str) else json.dumps(document))
    return read_import(path, ImportFormat(format_), ImportTarget(speaker="Ann")).sessions


@pytest.mark.parametrize(
    ("format_", "document", "key"),
    [
        ("chatgpt", grown_chat(), "default/chatgpt"),
        ("claude", grown_claude(), "default/claude"),
        ("mem0", grown_memories(), "default/ann"),
        ("jsonl", grown_lines(), "default/c"),
        ("csv", grown_rows(), "default/csv"),
    ],
)
@pytest.mark.parametrize("remembered_ids", [10_000, 1])
async def test_what_a_later_export_adds_to_a_session_is_imported_once(tmp_path, format_, document, key, remembered_ids):
    pipeline = make_pipeline(StageSettings(intake=IntakeSettings(remembered_ids=remembered_ids)))
    await run_import(pipeline.store, Working(pipeline), read(tmp_path, format_))
    later = read(tmp_path, format_, document)
    done = await run_import(pipeline.store, Working(pipeline), later)
    assert (done.sessions, done.events, done.present) == (1, 2, 1)
    again = await run_import(pipeline.store, Working(pipeline), later)
    assert (again.sessions, again.events, again.present) == (0, 0, 2)
    view = await view_conversation(pipeline.store, key)
    texts = [line.text for segment in view.segments for line in segment.lines]
    assert (texts.count(DOG), texts.count(SAID[1]), view.remembered) == (1, 1, 3)


@dataclass
class WithErased:
    """A state store in which utterances of each conversation were erased."""

    store: StateStore
    ids: tuple[str, ...]

    async def fetch(self, stage, key, table, ids):
        match table:
            case "head":
                return [Head(salt="salt").model_dump_json()]
            case "erased":
                erased = {hashed_id("salt", id_) for id_ in self.ids}
                return ["{}" if id_ in erased else None for id_ in ids]
        return await self.store.fetch(stage, key, table, ids)


async def test_what_was_erased_is_left_out_and_the_rest_of_its_session_comes(tmp_path):
    sessions = read(tmp_path, "chatgpt")
    ids = tuple(line.utterance_id for line in sessions[0].utterances)
    found = await missing_sessions(WithErased(make_pipeline().store, ids), sessions)
    assert (found.sessions, found.present, found.erased) == ((sessions[1],), 0, 3)
    found = await missing_sessions(WithErased(make_pipeline().store, ids[1:]), sessions)
    assert [one.utterances for one in found.sessions] == [sessions[0].utterances[:1], sessions[1].utterances]
    assert found.erased == 2


async def test_sessions_of_one_id_in_two_conversations_are_waited_for_each_by_itself(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "STUCK_S", 0.5)
    pipeline = make_pipeline()

    async def imported(*names: tuple[str, str]) -> int:
        rows = [
            {"type": "utterance", "conversation_id": conversation, "session_id": session, "utterance_id": session,
             "speaker": "Ann", "text": DOG, "at": "2024-05-01T10:00:00Z"}
            for conversation, session in names
        ]  # fmt: skip
        (tmp_path / "lines.jsonl").write_text("\n".join(map(json.dumps, rows)))
        found = read_import(tmp_path / "lines.jsonl", ImportFormat.JSONL, ImportTarget())
        return (await run.run_import(pipeline.store, Working(pipeline), found.sessions)).sessions

    assert await imported(("ann", "monday"), ("ann", "tuesday")) == 2
    assert await imported(("ann", "wednesday"), ("ben", "wednesday")) == 2


@pytest.mark.parametrize("fault", [Unavailable("Redis does not answer", "Redis"), KeyboardInterrupt()])
def test_an_import_that_was_stopped_says_that_the_same_command_goes_on(
    fault: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    async def stopped(*_: object) -> None:
        raise fault

    monkeypatch.setattr(import_, "_import", stopped)
    file = write_exports(tmp_path)["jsonl"]
    found = read_import(file, ImportFormat.JSONL, ImportTarget())
    with pytest.raises(type(fault)):
        import_._run(Settings(), found, quiet=True)
    assert "run the same command again to go on" in capsys.readouterr().err
