"""The whole pipeline as people run it: commands in processes of their own, on real servers."""

import asyncio
import json
import signal
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from eunoe.deploy.cli.main import _run, _run_called
from eunoe.deploy.clients.shared import open_publisher
from eunoe.deploy.demo.bundled import CONVERSATION
from eunoe.deploy.inspect.view import ConversationView
from eunoe.schemas.events import SessionEnded, Utterance
from eunoe.streams.record import Message
from eunoe.streams.topics import Topic
from eunoe.workers.registry import STAGES
from tests.support.command import environment, eunoe
from tests.support.in_memory import START
from tests.support.model_server.faults import MIXED, by_rate
from tests.support.model_server.server import ModelServer, ServerSettings
from tests.support.pipeline import Pipeline, pipeline_at_work
from tests.support.session import SessionServers
from tests.support.wrong_arguments import WRONG

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]

NAME = "mina-and-jonas"
LINES = CONVERSATION.read_text().splitlines(keepends=True)


def said(session_id: str | None, number: int, text: str = "hello there", conversation: str = "c") -> str:
    event = Utterance(
        conversation_id=conversation,
        session_id=session_id,
        utterance_id=f"u{number}",
        speaker="Ann",
        text=text,
        at=START,
    )
    return event.model_dump_json() + "\n"


def over(session_id: str | None, conversation: str = "c") -> str:
    return SessionEnded(conversation_id=conversation, session_id=session_id, at=START).model_dump_json() + "\n"


@pytest.fixture(scope="module")
def at_work(servers: SessionServers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    """One worker for the tests that only need one; each has a conversation of its own."""
    with pipeline_at_work(tmp_path_factory.mktemp("at-work"), servers) as pipeline:
        yield pipeline


def segment_ids(view: ConversationView) -> list[tuple[str, list[str]]]:
    return [(s.segment_id, [line.utterance_id for line in s.lines]) for s in view.segments]


PLAINLY = ("Matosinhos", "the knee", "Pepper", "hazelnuts", "Kettenwerk", "survey ship", "I'm an uncle", "swells shut")
"""What the replies to the demo's questions say, without a step that is left to the reader."""


async def test_the_demo_remembers_answers_and_leaves_nothing(standalone: Pipeline):
    result = await standalone.demo()
    assert result.code == 0, result.err
    report = result.json
    assert (report["sessions"], report["utterances"], report["utterances_in_segments"]) == (5, 89, 89)
    assert report["dead_letters"] == 0
    for question, told in zip(report["questions"], PLAINLY, strict=True):
        assert told in question["reply"]
        assert question["cited"]
        assert question["tokens"] <= 1500
    assert list(standalone.cwd.iterdir()) == []


@pytest.mark.slow
async def test_stages_in_processes_of_their_own_make_the_same_segments(pipeline: Pipeline, standalone: Pipeline):
    together, apart = pipeline, standalone
    async with together.up():
        await together.produce(*LINES)
        one = await together.remembered(5, NAME)
    async with apart.servers(), AsyncExitStack() as closing:
        rest = sorted(set(STAGES) - {"intake", "segment"})
        starts = [apart.worker(*stages) for stages in (["intake"], ["segment"], ["segment"], rest)]
        await asyncio.gather(*(closing.enter_async_context(start) for start in starts))
        await apart.produce(*LINES)
        many = await apart.remembered(5, NAME)
    assert segment_ids(one) == segment_ids(many)
    assert sum(len(ids) for _, ids in segment_ids(one)) == 89


async def test_produce_and_show_say_what_is_there(at_work: Pipeline):
    (at_work.cwd / "lines.jsonl").write_text(said("s", 1) + said("s", 2, "😀") + over("s"))
    result = await at_work.eunoe("produce", "lines.jsonl", "--json")
    assert (result.code, result.json) == (0, {"events": 3, "conversations": 1}), result.err
    view = await at_work.remembered(1, "c")
    shown = await at_work.eunoe("show", "c", "--json")
    assert shown.code == 0, shown.err
    assert shown.json["segments"] == [segment.model_dump(mode="json") for segment in view.segments]
    assert (shown.json["sessions"], shown.json["open_utterances"]) == (1, 0)


async def test_bad_records_are_dead_lettered_and_the_rest_goes_on(at_work: Pipeline):
    name = "bad"
    huge = said("s", 9, "x" * 40_000, name).encode()
    bad = [b"no json", b'{"type": "utterance"}', b'{"type": "reply"}', huge, b"\xff\xfe", b"z" * 1_000_000]
    async with open_publisher(at_work.settings) as publisher:
        await publisher.publish([Message(Topic.CONVERSATIONS, f"default/{name}".encode(), value) for value in bad])
    texts = ((1, "hello there"), (2, "😀 안녕 שלום"), (1, "hello there"))
    await at_work.produce(
        *(said("s", number, text, name) for number, text in texts), over("never", name), over("s", name)
    )
    view = await at_work.remembered(1, name)
    assert [line.text for line in view.segments[0].lines] == ["hello there", "😀 안녕 שלום"]
    letters = (await at_work.eunoe("dead-letters", "list", "--json")).json
    assert sorted(letter["reason"] for letter in letters) == [
        "invalid",
        "invalid",
        "not_json",
        "not_json",
        "not_json",
        "too_long",
        "unknown_session",
    ]
    first = next(letter for letter in letters if letter["size"] == len(b"no json"))
    one = await at_work.eunoe("dead-letters", "show", first["id"], "--json")
    assert one.json["value"] == "no json"


@pytest.mark.slow
async def test_memory_outlives_a_stop_and_a_kill(standalone: Pipeline):
    pipeline = standalone
    async with pipeline.up() as process:
        await pipeline.produce(*LINES[:40])
        before = await pipeline.remembered(2, NAME)
        process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(process.wait(), 60) == 0
    async with pipeline.up() as process:
        assert (await pipeline.shown(NAME)).segments == before.segments
        await pipeline.produce(*LINES[40:])
        whole = await pipeline.remembered(5, NAME)
        process.kill()
        await process.wait()
    async with pipeline.up():
        again = await pipeline.shown(NAME)
        assert again.segments == whole.segments
        assert (again.head.closed, again.open_lines) == (5, 0)
        await pipeline.produce(*(line.replace("5.", "6.").replace("session-5", "session-6") for line in LINES[-10:]))
        assert len((await pipeline.remembered(6, NAME)).segments) > len(whole.segments)
        shown = await pipeline.eunoe("show", NAME, "--json")
        assert (shown.code, shown.json["sessions"]) == (0, 6), shown.err


async def test_an_idle_session_closes_by_itself_and_a_repair_by_other_settings_says_so(pipeline: Pipeline):
    async with pipeline.up(EUNOE_INTAKE__IDLE_SECONDS="1.5"):
        await pipeline.produce(said(None, 1), said(None, 2))
        view = await pipeline.remembered(1, "c")
        assert [line.utterance_id for segment in view.segments for line in segment.lines] == ["u1", "u2"]
    strange = await pipeline.eunoe("repair", "c")
    assert (strange.code, "1 session before, 0 now: are the settings here" in strange.err) == (0, True), strange.err
    right = await pipeline.eunoe("repair", "c", EUNOE_INTAKE__IDLE_SECONDS="1.5")
    assert ("1 session" in right.out, right.err) == (True, "")


@pytest.mark.slow
async def test_a_store_that_lost_everything_is_filled_again_from_the_log(pipeline: Pipeline):
    async with pipeline.servers():
        async with pipeline.worker("all"):
            await pipeline.produce(*LINES)
            whole = await pipeline.remembered(5, NAME)
        await pipeline.lose_everything()
        async with pipeline.worker("all"):
            await pipeline.produce(*LINES)
            # each stage reads its own topic again: those behind intake may be done before it
            assert (await pipeline.everything_remembered(NAME)).segments == whole.segments


@pytest.mark.slow
async def test_a_model_endpoint_at_its_worst_costs_no_memory(pipeline: Pipeline):
    async with ModelServer(ServerSettings(delay_s=0.01, faults=by_rate(MIXED))) as server:
        result = await pipeline.demo(OPENAI_BASE_URL=server.base_url, EUNOE_MODEL_TIMEOUT_SECONDS="3")
    assert result.code == 0, result.err
    report = result.json
    assert (report["sessions"], report["utterances_in_segments"], report["dead_letters"]) == (5, 89, 0)
    assert all(question["reply"] for question in report["questions"])


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (("produce", "nowhere.jsonl"), "no such file"),
        (("produce", "empty.jsonl"), "is empty"),
        (("produce", "prose.jsonl"), "line 1: not JSON"),
        (("produce", "wrong.jsonl"), "line 1: text"),
        (("demo", "--conversation", "nowhere.json"), "no such file"),
        (("worker", "nonsense"), "no stage nonsense"),
        (("show", "c"), "no servers"),
        (("ask", "c", "hello?"), "no servers"),
        (("topics", "list"), "no servers"),
    ],
)
@pytest.mark.embedded("meets no broker")
async def test_a_mistake_ends_in_one_line_and_exit_code_2(tmp_path: Path, words: tuple[str, ...], fault: str):
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "prose.jsonl").write_text("Dear diary\n")
    (tmp_path / "wrong.jsonl").write_text(json.dumps(json.loads(said("s", 1)) | {"text": " "}) + "\n")
    result = await eunoe(*words, cwd=tmp_path)
    assert result.code == 2
    assert fault in result.err
    assert len(result.err.strip().splitlines()) == 1
    assert result.out == ""


@pytest.mark.embedded("meets no broker")
async def test_a_server_that_is_away_ends_in_one_line_and_exit_code_69(tmp_path: Path):
    away = {
        "EUNOE_KAFKA": "127.0.0.1:9",
        "EUNOE_REDIS_URL": "redis://127.0.0.1:9",
        "EUNOE_QDRANT_URL": "http://127.0.0.1:9",
    }
    result = await eunoe("topics", "list", cwd=tmp_path, **away)
    assert result.code == 69
    assert "127.0.0.1:9" in result.err
    assert "Traceback" not in result.err


async def test_the_readme_s_python_example_runs(at_work: Pipeline):
    text = (Path(__file__).parents[2] / "README.md").read_text()
    example = at_work.cwd / "example.py"
    example.write_text(text.partition("```python\n")[2].partition("```")[0])
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(example),
        cwd=at_work.cwd,
        env=environment(at_work.variables),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0
    assert "I moved to Lyon last week." in out.decode()


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_argument_is_named_in_one_line(
    name: str, at_work: Pipeline, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line, words = WRONG[name]
    for variable, value in at_work.variables.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("EUNOE_ERASURES", str(at_work.cwd / "erasures"))
    monkeypatch.chdir(at_work.cwd)
    monkeypatch.setattr(sys, "argv", ["eunoe", *line])
    code = _run(_run_called)
    found = capsys.readouterr()
    assert (code, len(found.err.splitlines()), found.out) == (2, 1, ""), found.err
    assert found.err.startswith("eunoe: ")
    assert words in found.err
