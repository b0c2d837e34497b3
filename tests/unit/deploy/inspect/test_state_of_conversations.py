"""`eunoe state` over a pipeline in memory: of what is known, and of what is not."""

import asyncio
import gc
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from io import StringIO
from typing import Any

import orjson
import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from eunoe.deploy.cli import state as command
from eunoe.deploy.inspect.packed_state import PackedState
from eunoe.deploy.inspect.state import CheckedState, check_state
from eunoe.deploy.settings import Settings
from eunoe.schemas.decisions import Scope
from eunoe.schemas.errors import NewerVersion, Refused
from eunoe.schemas.events import Ask
from eunoe.workers.derive.in_memory import InMemoryPipeline
from eunoe.workers.derive.index_audit import unfinished
from eunoe.workers.registry import STAGES
from eunoe.workers.stores.state.memory_store import MemoryStore
from tests.support.in_memory import ended, make_pipeline, utterance
from tests.support.whole_state import StateDigest, read_states

app = typer.Typer()
app.command()(command.state)

Serve = Callable[[InMemoryPipeline], None]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Lets the command read a pipeline in memory in place of servers."""

    def served(pipeline: InMemoryPipeline) -> None:
        @asynccontextmanager
        async def opened(_settings: Settings) -> AsyncIterator[object]:
            yield pipeline.store

        async def live(settings: Settings) -> Settings:
            return settings

        monkeypatch.setattr(command, "connected_settings", Settings)
        monkeypatch.setattr(command, "live_settings", live)
        monkeypatch.setattr(command, "open_store", opened)
        monkeypatch.setattr(command, "open_qdrant", opened)
        monkeypatch.setattr(command, "QdrantIndex", lambda *_: pipeline.index)

    return served


def run(*words: str) -> str:
    """What the command prints on standard output; raises what it refuses."""
    done = CliRunner().invoke(app, words)
    if done.exception is not None:
        raise done.exception
    return done.stdout


@pytest.mark.parametrize("record", [False, True])
async def test_an_ask_that_is_recorded_is_known(record: bool) -> None:
    pipeline = make_pipeline()
    await pipeline.produce(utterance(1, ask=Ask(request_id="r", record=record)))
    state = await check_state(pipeline.store, pipeline.index, "default/c")
    assert state is not None
    assert state.is_known is record


def test_a_conversation_of_which_nothing_is_known_is_refused(serve: Serve) -> None:
    pipeline = make_pipeline()
    asked = utterance(1, conversation="asked", ask=Ask(request_id="r", record=False))
    asyncio.run(pipeline.produce(utterance(1), asked))
    serve(pipeline)
    assert run("c", "--digest").endswith("  default/c\n")
    with pytest.raises(Refused, match=r"^no conversation 'nobody' of tenant 'default'$"):
        run("nobody")
    for words in (["asked"], ["asked", "--json"], ["asked", "--digest"]):
        with pytest.raises(Refused, match=r"^no conversation 'asked' of tenant 'default': it was only asked about"):
            run(*words)


@pytest.mark.parametrize("width", [80, 60])
def test_counts_fit_on_a_narrow_terminal(serve: Serve, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    pipeline = make_pipeline()
    for name in ("mina-and-jonas", "[red]"):
        talk = (utterance(number, conversation=name) for number in range(1, 4))
        asyncio.run(pipeline.produce(*talk, ended(conversation=name)))
    serve(pipeline)
    monkeypatch.setattr(command, "console", Console(file=(shown := StringIO()), width=width))
    run("--all")
    first, *rest, whole = shown.getvalue().splitlines()
    assert max(map(len, [first, *rest, whole])) <= width
    hashes = dict(reversed(line.split("  ")) for line in run("--all", "--digest").splitlines())
    assert [line.split("  ") for line in (first, rest[2], whole)] == [
        [name, hashes[name][:12]] for name in ("default/%5Bred%5D", "default/mina-and-jonas", "all 2 conversations")
    ]
    assert rest[:2] == [
        "  sessions 1, segments 1, memories 0, edges 0, nodes 0",
        "  offline –, index agrees",
    ]


def test_evidence_that_is_gone_is_told_with_what_may_have_lost_it(serve: Serve) -> None:
    pipeline = make_pipeline()
    asyncio.run(pipeline.produce(utterance(1, "I moved to Lyon in May."), ended()))
    memories = pipeline.store._tables["update", "default/c", "memories"]
    memories.pop(next(iter(memories)))
    serve(pipeline)
    done = CliRunner().invoke(app, ["c"])
    assert done.exit_code == 1
    told = " ".join(done.stderr.split())
    assert "Evidence of 1 memory is lost. Redis has lost keys, as by eviction" in told
    assert "where it has lost none, it is a fault of eunoe" in told


@pytest.mark.parametrize(
    ("numbers", "text"),
    [((3,), "1 session waits for session 1: 3"), ((2, 4), "2 sessions wait for session 1: 2, 4")],
)
async def test_sessions_that_wait_for_one_before_are_counted(numbers: tuple[int, ...], text: str) -> None:
    store = MemoryStore()
    for number in numbers:
        await store.park(Scope("update", "default/c"), number, "summary", "{}")
    waiting = await unfinished(store, store, "default/c", {"update": STAGES["update"]})
    assert [one.why for one in waiting] == [text]


def states_held() -> int:
    return sum(isinstance(thing, StateDigest | PackedState) for thing in gc.get_objects())


@pytest.mark.parametrize("words", [["--digest"], ["--json"], ["--dump"], []])
def test_all_conversations_are_reported_and_no_state_is_held_longer_than_its_report(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    async def told() -> InMemoryPipeline:
        pipeline = make_pipeline()
        for conversation in ("a", "b", "c"):
            events = (utterance(1, "I moved to Oslo."), ended())
            await pipeline.produce(*(one.model_copy(update={"conversation_id": conversation}) for one in events))
        return pipeline

    pipeline, before, held = asyncio.run(told()), states_held(), list[int]()

    async def watched(store: MemoryStore, *rest: object, **options: bool) -> CheckedState | None:
        held.append(states_held() - before)
        return await check_state(store, *rest, **options)

    serve(pipeline)
    monkeypatch.setattr(command, "check_state", watched)
    out = run("--all", *words)
    assert held == [0, 0, 0]
    assert all(f"default/{conversation}" in out for conversation in "abc")


@pytest.mark.parametrize("words", [["--dump"], ["--dump", "--json"], ["--dump", "--log-times"]], ids=" ".join)
def test_a_dump_is_the_state_behind_its_hash(serve: Serve, words: list[str]) -> None:
    pipeline = make_pipeline()
    asyncio.run(pipeline.produce(utterance(1, "I moved to Oslo with José."), ended()))
    serve(pipeline)
    log_times = "--log-times" in words
    (read,) = asyncio.run(read_states(pipeline.store, pipeline.index, ["default/c"], log_times=log_times))
    state = {"sha256": read.digest.sha256, "state": read.digest.state}
    out = run("c", *words)
    if "--json" in words:
        (found,) = json.loads(out)["conversations"]
        assert {name: found[name] for name in state} == state
    else:
        assert out.encode() == orjson.dumps({"key": "default/c", **state}) + b"\n"


@pytest.mark.parametrize("words", [["c", "--dump"], ["--all", "--dump"], ["--all", "--dump", "--json"]])
def test_a_dump_in_a_pipe_holds_no_character_that_commands_a_terminal(serve: Serve, words: list[str]) -> None:
    text = "I moved to Ly\u202eon in May \x9b31m and I like it \x7f."
    pipeline = make_pipeline()
    asyncio.run(pipeline.produce(utterance(1, text), ended()))
    serve(pipeline)
    out = run(*words)
    assert not set("\u202e\x9b\x7f") & set(out)
    assert json.dumps(text)[1:-1].replace("\x7f", "\\u007f") in out
    assert json.loads(out)


def test_states_in_one_document_are_unpacked_one_after_the_other(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """And to a terminal, whole, it is the same document."""
    pipeline = make_pipeline()
    for name in ("a", "b"):
        asyncio.run(pipeline.produce(utterance(1, "I moved to Oslo.", conversation=name), ended(conversation=name)))
    serve(pipeline)
    lines = [json.loads(line) for line in run("--all", "--dump").splitlines()]
    whole: list[dict[str, Any]] = []
    with monkeypatch.context() as terminal:
        terminal.setattr(sys.stdout, "isatty", lambda: True)
        terminal.setattr(command, "print_json", whole.append)
        states, left_out = asyncio.run(command._read(Settings(), command.Wanted(None, keeps=True)))
        command._print_document(states, left_out)
    monkeypatch.setattr(PackedState, "whole", None)
    text = run("--all", "--dump", "--json")
    assert text == orjson.dumps(whole[0]).decode() + "\n"
    found = json.loads(text)
    assert [(one["key"], one["sha256"], one["state"]) for one in found["conversations"]] == [
        (line["key"], line["sha256"], line["state"]) for line in lines
    ]
    assert list(found) == ["sha256", "agrees", "conversations", "lost_snapshots", "damaged", "of_newer_version"]
    assert "state" not in json.loads(run("--all", "--json"))["conversations"][0]


def test_a_conversation_that_a_newer_version_wrote_is_left_out_and_named(serve: Serve) -> None:
    """Where a deploy was taken back, nothing else tells which conversations are to be derived again."""
    pipeline = make_pipeline()
    for name in ("a", "b"):
        asyncio.run(pipeline.produce(utterance(1, "I moved to Oslo.", conversation=name), ended(conversation=name)))
    scan = pipeline.store.scan

    async def newer(stage: str, key: str, table: str) -> dict[str, str]:
        found = await scan(stage, key, table)
        is_newer = key == "default/b"
        return {
            id_: json.dumps({**json.loads(text), "mood": "gay"}) if is_newer else text for id_, text in found.items()
        }

    pipeline.store.scan = newer
    serve(pipeline)
    done = CliRunner().invoke(app, ["--all", "--json"])
    found = json.loads(done.stdout)
    assert (done.exit_code, [one["key"] for one in found["conversations"]]) == (1, ["default/a"])
    assert (found["lost_snapshots"], found["of_newer_version"]) == ([], ["default/b"])
    assert done.stderr.startswith("default/b: a newer version of eunoe wrote what is stored")
    with pytest.raises(NewerVersion, match="default/b"):
        run("b")
