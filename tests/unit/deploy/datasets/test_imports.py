"""Readers of exports: what they take, at which times, by which ids; and that an import twice changes nothing."""

import json
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from eunoe.deploy.cli.import_ import plan_lines
from eunoe.deploy.datasets.imports.estimate import choose, estimate_import
from eunoe.deploy.datasets.imports.formats import ImportFormat, read_import
from eunoe.deploy.datasets.imports.imported import MAX_LINES, ImportTarget, SourceLine, cut, session_of
from eunoe.deploy.datasets.imports.missing import MissingSessions
from eunoe.deploy.datasets.imports.run import in_turn, run_import
from eunoe.deploy.settings import Settings
from eunoe.schemas.base import write_spoken_time
from eunoe.schemas.errors import Refused
from eunoe.schemas.events import SessionEnded
from eunoe.streams.client import MAX_TEXT_BYTES
from eunoe.workers.registry import STAGES
from tests.support.exports import (
    DAY,
    SAID,
    chatgpt_chat,
    json_lines,
    locomo_sample,
    mem0_memories,
    write_exports,
)
from tests.support.in_memory import make_pipeline
from tests.support.whole_state import read_digest

HERE = ImportTarget(speaker="Ann")
START = datetime(2026, 1, 1, tzinfo=UTC)


def read(tmp_path: Path, format_: str, document: object = None, target: ImportTarget = HERE):
    path = write_exports(tmp_path)[format_]
    if document is not None:
        path.write_text(document if isinstance(document, str) else json.dumps(document))
    return read_import(path, ImportFormat(format_), target)


def lines_of(found) -> list[list[tuple[str, str]]]:
    return [[(said.speaker, said.text) for said in session.utterances] for session in found.sessions]


def test_a_chat_is_what_the_person_saw_cut_at_its_silence(tmp_path):
    found = read(tmp_path, "chatgpt")
    assert lines_of(found) == [
        [("Ann", SAID[0]), ("agent", "Lyon is lovely."), ("Ann", "[image]\nLook at the flat.")],
        [("Ann", SAID[1])],
    ]
    assert found.left_out == {"thought or call of a tool": 1, "image_asset_pointer": 1, "user_editable_context": 1}
    first = found.sessions[0].utterances
    assert first[0].at == datetime.fromtimestamp(DAY, UTC)
    assert [said.reply_id is not None for said in first] == [False, True, False]
    assert found.conversations == ("default/chatgpt",)
    assert found.events == 6


@pytest.mark.parametrize("ahead_s", [300, 7200])
def test_a_chat_is_in_the_order_shown_where_the_clock_of_the_person_is_ahead(tmp_path, ahead_s):
    chat = chatgpt_chat()
    for node in chat["mapping"].values():
        if node["message"] and node["message"]["author"]["role"] == "user":
            node["message"]["create_time"] = (node["message"]["create_time"] or DAY) + ahead_s
    assert lines_of(read(tmp_path, "chatgpt", [chat])) == lines_of(read(tmp_path, "chatgpt"))


def test_chats_are_in_order_of_time_and_a_zip_file_may_hold_them_in_parts(tmp_path):
    late, early = chatgpt_chat("late", DAY + 1e6), chatgpt_chat("early", DAY)
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("user.json", "{}")
        archive.writestr("conversations-000.json", json.dumps([late]))
        archive.writestr("conversations-001.json", json.dumps([early]))
    found = read_import(path, ImportFormat.CHATGPT, HERE)
    times = [session.utterances[0].at for session in found.sessions]
    assert times == sorted(times)
    assert len(found.sessions) == 4


def test_memories_of_mem0_are_said_on_their_day(tmp_path):
    found = read(tmp_path, "mem0")
    assert lines_of(found) == [[("Ann", SAID[0])], [("Ann", SAID[1])]]
    assert [session.utterances[0].at.isoformat() for session in found.sessions] == [
        "2026-01-02T08:00:00+00:00",
        "2026-01-03T16:00:00+00:00",
    ]
    assert found.conversations == ("default/ann",)
    assert lines_of(read(tmp_path, "mem0", mem0_memories()["results"])) == lines_of(found)


async def test_without_a_model_the_plan_says_how_few_notes_become_memories(tmp_path):
    row = {"user_id": "ann", "created_at": "2026-01-02T08:00:00Z"}
    notes = [row | {"id": "m1", "memory": "Lives in Lyon"}, row | {"id": "m2", "memory": "I work at Acme."}]
    found = read(tmp_path, "mem0", notes)
    cost = await estimate_import(Settings(), found.sessions)
    assert cost.memories == 1
    lines = plan_lines(found, (MissingSessions(found.sessions, 0, 0), cost))
    assert [line for line in lines if line.startswith("about 1 memory: no model is set")]


async def test_of_an_import_that_is_there_already_no_memories_are_foretold(tmp_path):
    assert (await estimate_import(Settings(), ())).memories is None


@pytest.mark.parametrize(
    ("page", "left_out"),
    [
        ({"next": None}, {}),
        ({"next": "u?page=2", "count": 7}, {"of other pages": 5}),
        ({"previous": "u?page=1"}, {"or more of other pages": 1}),
    ],
)
def test_what_an_answer_of_mem0_has_on_other_pages_is_told(tmp_path, page, left_out):
    assert read(tmp_path, "mem0", {**mem0_memories(), "previous": None, **page}).left_out == left_out


@pytest.mark.parametrize("format_", ["mem0", "locomo"])
def test_a_file_that_is_read_whole_says_how_far_it_is_read(tmp_path, format_):
    path = tmp_path / "export.json"
    path.write_text(json.dumps([mem0_memories()["results"][0]] if format_ == "mem0" else [locomo_sample()]))
    reported: list[tuple[int, int]] = []
    read_import(path, ImportFormat(format_), ImportTarget(), lambda done, total: reported.append((done, total)))
    assert reported[-1] == (path.stat().st_size, path.stat().st_size)


def test_samples_of_locomo_keep_their_names(tmp_path):
    found = read(tmp_path, "locomo", [locomo_sample(), {**locomo_sample(), "sample_id": "conv-2"}])
    assert found.conversations == ("default/conv-1", "default/conv-2")
    assert [session.session_id for session in found.sessions] == ["session-1", "session-2"] * 2


def test_events_are_regrouped_into_whole_sessions_without_asks(tmp_path):
    found = read(tmp_path, "jsonl", target=ImportTarget(tenant="acme", conversation_id="mine"))
    assert lines_of(found) == [[("Ann", SAID[0])], [("Ann", SAID[1])]]
    assert found.conversations == ("acme/mine",)
    assert [session.session_id == "s2" for session in found.sessions] == [False, True]
    assert all(said.ask is None for session in found.sessions for said in session.utterances)
    assert isinstance(found.sessions[1].end, SessionEnded)


@pytest.mark.parametrize("format_", ImportFormat)
def test_the_same_file_gives_the_same_events(tmp_path, format_):
    assert read(tmp_path, format_) == read(tmp_path, format_)


@pytest.mark.parametrize(
    ("format_", "document", "said"),
    [
        ("chatgpt", "{", "line 1: not JSON"),
        ("chatgpt", " ", "is empty; expected a JSON document, as it was exported"),
        ("chatgpt", {"a": 1}, "chat 1: has no 'mapping' of messages, as chats of ChatGPT have"),
        ("chatgpt", [{"title": "x"}, {"title": "y"}], "chat 1: has no 'mapping'"),
        ("chatgpt", [{**chatgpt_chat(), "current_node": "gone"}], "chat 1: message 'gone' is missing"),
        ("chatgpt", [chatgpt_chat(at=1e300)], "chat 1: neither it nor any of its messages has a time within"),
        ("chatgpt", [], "holds nothing to import"),
        ("mem0", {"a": 1}, "no list of memories"),
        ("mem0", [{"id": "m1", "memory": "x", "created_at": "May"}], "entry 1: its created_at"),
        ("mem0", [{"memory": "x"}], "entry 1: has no id"),
        ("mem0", ["x"], "entry 1: not an object"),
        ("mem0", [{"id": "m1", "memory": "x", "created_at": "0001-01-01T00:00:00+14:00"}], "entry 1: its created_at"),
        ("mem0", [{"id": "m1", "memory": "x", "created_at": "1001-01-01"}], "entry 1: its time 1001-01-01T"),
        ("chatgpt", [{**chatgpt_chat(), "current_node": ["u1"]}], "chat 1: message \"['u1']\" is missing"),
        ("chatgpt", [chatgpt_chat(at=1e10)], "of now; that of message 'u1' is 10000000000.0"),
        ("locomo", [{"a": 1}], "entry 1 is not a LoCoMo sample"),
        ("locomo", "no", "not a LoCoMo file"),
        ("jsonl", '{"role": "user", "content": "Hi"}\n', "line 1: has no type, like utterance"),
        ("chatgpt", [{"uuid": "c1", "chat_messages": []}], "chats of ChatGPT have; give --from claude"),
        ("claude", [chatgpt_chat()], "chats of Claude have; give --from chatgpt"),
        ("claude", {"uuid": "c1"}, "chat 1: has no list 'chat_messages'"),
        ("claude", '[{"chat_messages": []', "line 1: not JSON"),
        ("claude", "[]\n[]", "line 2: not JSON: more behind its end"),
        ("claude", '[{"chat_messages": []}\n{}]', "line 2: not JSON: expected a comma or the end of the list"),
        ("jsonl", json_lines().replace("2024-05-02", "2924-05-02"), "line 3: its time 2924-05-02T10:00:00Z is"),
        ("jsonl", json_lines().replace('"u2"', '"u1"'), "line 3: utterance_id 'u1' is that of line 1, with another"),
        ("jsonl", json_lines() + '{"type": "erase", "conversation_id": "c", "request_id": "e", "at": '
         '"2024-05-01T10:00:00Z"}\n', "line 4: an erasure cannot be imported"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_where_it_is_wrong(tmp_path, format_, document, said):
    with pytest.raises(Refused, match=f".*{format_}.json.*") as refused:
        read(tmp_path, format_, document)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("format_", "encoding", "said"),
    [
        ("jsonl", "latin-1", "line 1: not in UTF-8"),
        ("jsonl", "utf-16", "is in UTF-16; save it in UTF-8"),
        ("chatgpt", "latin-1", "line 1: not in UTF-8"),
    ],
)
def test_a_file_in_another_encoding_is_told_so(tmp_path, format_, encoding, said):
    path = tmp_path / "export.json"
    path.write_bytes('{"text": "café"}'.encode(encoding))
    with pytest.raises(Refused, match=said):
        read_import(path, ImportFormat(format_), HERE)


def test_an_emoji_that_was_cut_in_two_is_a_question_mark(tmp_path):
    document = json.dumps([chatgpt_chat()]).replace(SAID[0], "hey \\ud83d there")
    assert lines_of(read(tmp_path, "chatgpt", document))[0][0] == ("Ann", "hey ? there")


@pytest.mark.parametrize("strange", [{"metadata": "x"}, {"content": {"content_type": "text", "parts": 5}}])
def test_a_message_of_a_strange_form_is_no_fault_of_the_others(tmp_path, strange):
    chat = chatgpt_chat()
    chat["mapping"]["a1"]["message"].update(strange)
    assert lines_of(read(tmp_path, "chatgpt", [chat]))[-1] == [("Ann", SAID[1])]


def event(number: int, at: str, text: str = "hello", **more: str) -> str:
    common = {"type": "utterance", "conversation_id": "c", "speaker": "Ann", "utterance_id": f"u{number}"}
    return json.dumps({**common, "text": text, "at": at, **more}) + "\n"


def test_lines_are_in_order_of_time_and_silences_end_the_sessions_without_an_id(tmp_path):
    days = [event(day, f"2024-05-0{day}T10:00:00Z") for day in (3, 1, 2)]
    named = [event(10 + day, f"2024-06-0{day}T10:00:00Z", session_id="s") for day in (2, 1)]
    found = read(tmp_path, "jsonl", "".join([*named, *days, days[0]]))
    ids = [[said.utterance_id for said in session.utterances] for session in found.sessions]
    assert ids == [["u1"], ["u2"], ["u3"], ["u11", "u12"]]
    assert found.sessions[-1].session_id == "s"
    assert [session.end.at for session in found.sessions] == [one.utterances[-1].at for one in found.sessions]


def test_lines_keep_the_offsets_of_their_times(tmp_path):
    found = read(tmp_path, "jsonl", event(1, "2026-06-01T20:00:00-07:00"))
    assert [write_spoken_time(one.at) for one in found.sessions[0].utterances] == ["2026-06-01T20:00:00-07:00"]


def test_events_are_as_small_as_intake_takes_them(tmp_path):
    text = "word " * 40_000
    found = read(tmp_path, "jsonl", event(1, "2024-05-01T10:00:00Z", text, session_id="s"))
    said = [one for session in found.sessions for one in session.utterances]
    assert "".join(one.text for one in said) == text
    assert all(len(one.text.encode()) <= MAX_TEXT_BYTES for one in said)
    assert (said[0].utterance_id, len({one.utterance_id for one in said})) == ("u1", len(said))
    assert [session.session_id == "s" for session in found.sessions] == [True, False]


def test_a_missing_file_and_a_zip_file_without_chats_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("user.json", "{}")
    for name, said in (("none.json", "no such file"), ("x.zip", "holds no conversations.json")):
        with pytest.raises(Refused, match=said):
            read_import(tmp_path / name, ImportFormat.CHATGPT, HERE)


def said_at(number: int, text: str = "hello", minutes: float = 1) -> SourceLine:
    return SourceLine(f"l{number}", "Ann", text, START + timedelta(minutes=minutes * number))


def test_a_session_ends_at_a_silence_and_before_it_is_too_large():
    assert [len(part) for part in cut([said_at(0), said_at(1), said_at(40), said_at(41)])] == [2, 2]
    assert [len(part) for part in cut([said_at(number) for number in range(MAX_LINES + 1)])] == [MAX_LINES, 1]
    assert [len(part) for part in cut([said_at(number, "x" * 50_000) for number in range(5)])] == [2, 2, 1]


@pytest.mark.parametrize("text", ["word " * 20_000, "é" * 60_000, "x" * (MAX_TEXT_BYTES + 1)])
def test_a_long_text_is_cut_into_utterances_that_intake_takes(text):
    session = session_of("s", [said_at(0, text)], HERE, "c")
    assert "".join(said.text for said in session.utterances) == text
    assert all(len(said.text.encode()) <= MAX_TEXT_BYTES for said in session.utterances)
    assert len({said.utterance_id for said in session.utterances}) == len(session.utterances)


def test_the_conversations_of_a_file_take_turns_and_a_sample_is_small():
    sessions = [session_of(f"{key}{number}", [said_at(number)], HERE, key) for key in "ab" for number in range(3)]
    assert [session.key for session in in_turn(sessions)] == ["default/a", "default/b"] * 3
    assert choose(sessions, 5) == sessions[:2]
    assert choose(sessions, 1) == sessions[:1]


async def test_an_import_that_was_broken_off_goes_on_and_a_second_one_changes_nothing(tmp_path):
    found = read(tmp_path, "chatgpt")
    whole, broken = make_pipeline(), make_pipeline()

    class Working:
        """A publisher whose pipeline handles each event at once."""

        def __init__(self, pipeline) -> None:
            self.pipeline = pipeline

        async def publish(self, messages):
            await self.pipeline.log.publish(messages)
            await self.pipeline.run_until_idle()

    done = await run_import(whole.store, Working(whole), found.sessions)
    assert (done.sessions, done.events, done.present) == (2, 6, 0)
    for event in found.sessions[0].events[:2]:
        await broken.produce(event)
    reported: list[int] = []
    await run_import(broken.store, Working(broken), found.sessions, reported.append)
    assert reported[-1] == 2
    again = await run_import(broken.store, Working(broken), found.sessions)
    assert (again.sessions, again.events, again.present) == (0, 0, 2)
    digests = [(await read_digest(one.store, "default/chatgpt", STAGES)).sha256 for one in (whole, broken)]
    assert digests[0] == digests[1]


def test_a_broken_archive_is_named_as_one(tmp_path):
    path = tmp_path / "export.zip"
    path.write_bytes(b"PK cut short")
    with pytest.raises(Refused, match="is not a ZIP file, or a damaged one"):
        read_import(path, ImportFormat.CHATGPT, HERE)


def zip_file(path: Path, *, packed: int = zipfile.ZIP_DEFLATED) -> bytearray:
    """The bytes of an export that was packed into ``path``."""
    with zipfile.ZipFile(path, "w", packed) as archive:
        archive.writestr("conversations.json", json.dumps([chatgpt_chat("a", DAY)]))
    return bytearray(path.read_bytes())


@pytest.mark.parametrize("packed", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_an_archive_of_which_some_bytes_are_wrong_is_named_as_damaged(tmp_path, packed):
    path = tmp_path / "export.zip"
    data = zip_file(path, packed=packed)
    data[60:90] = bytes(30)
    path.write_bytes(data)
    with pytest.raises(Refused, match=r"export\.zip: is not a ZIP file, or a damaged one .*fetch the export again"):
        read_import(path, ImportFormat.CHATGPT, HERE)


@pytest.mark.parametrize(("local", "central", "value"), [(6, 8, 1), (8, 10, 97)], ids=["a password", "another packing"])
def test_an_archive_that_cannot_be_unpacked_is_told_so(tmp_path, local, central, value):
    path = tmp_path / "export.zip"
    data = zip_file(path)
    data[local] = data[data.index(b"PK\x01\x02") + central] = value
    path.write_bytes(data)
    with pytest.raises(Refused, match=r"export\.zip: cannot be unpacked .*give its conversations\.json"):
        read_import(path, ImportFormat.CHATGPT, HERE)


def test_an_archive_that_would_unpack_to_a_hundred_times_its_size_is_not_unpacked(tmp_path):
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("conversations.json", json.dumps([chatgpt_chat("a", DAY)]) + " " * (65 * 2**20))
    with pytest.raises(Refused, match=r"export\.zip: \d+ bytes would unpack to \d+, .*give its conversations\.json"):
        read_import(path, ImportFormat.CHATGPT, HERE)


def test_what_a_file_repeats_counts_once(tmp_path):
    memories = mem0_memories()["results"]
    assert lines_of(read(tmp_path, "mem0", [*memories, memories[0]])) == lines_of(read(tmp_path, "mem0", memories))
    chat = chatgpt_chat("a", DAY)
    assert lines_of(read(tmp_path, "chatgpt", [chat, chat])) == lines_of(read(tmp_path, "chatgpt", [chat]))


def test_an_id_that_a_file_gives_to_two_texts_is_refused(tmp_path):
    memories = mem0_memories()["results"]
    with pytest.raises(Refused, match=r"entry 3: its id is that of entry 1, with another content"):
        read(tmp_path, "mem0", [*memories, {**memories[0], "memory": "Something else"}])
    chat, other = chatgpt_chat("a", DAY), chatgpt_chat("a", DAY + 1)
    with pytest.raises(Refused, match=r"chat 2, message .*: its id is that of chat 1, message"):
        read(tmp_path, "chatgpt", [chat, other])
