"""Chats of exports: times that are missing, chats of Claude, and files that are read piece by piece."""

import copy
import json
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.deploy.cli.import_ import done_line, plan_lines
from eunoe.deploy.datasets.imports.documents import entries_of
from eunoe.deploy.datasets.imports.estimate import ImportEstimate
from eunoe.deploy.datasets.imports.formats import ImportFormat, read_import
from eunoe.deploy.datasets.imports.imported import ImportFile, ImportTarget
from eunoe.deploy.datasets.imports.missing import MissingSessions
from eunoe.deploy.datasets.imports.run import ImportDone
from eunoe.schemas.errors import Refused
from tests.support.exports import DAY, HIDDEN, SAID, chatgpt_chat, claude_chat, claude_message

HERE = ImportTarget(speaker="Ann")
AT = "2023-11-14T22:13:20Z"


def read(tmp_path: Path, format_: str, chats: list[Any]) -> ImportFile:
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps(chats))
    return read_import(path, ImportFormat(format_), HERE)


def texts_of(found: ImportFile) -> list[str]:
    return [said.text for session in found.sessions for said in session.utterances]


def times_of(found: ImportFile) -> list[datetime]:
    return [said.at for session in found.sessions for said in session.utterances]


def told(found: ImportFile) -> list[str]:
    nothing = ImportEstimate(0, 0, 0, 0, 0.0)
    return plan_lines(found, (MissingSessions(found.sessions, 0, 0), nothing))


# ---- times


def chat_without_times(format_: str, *names: str) -> dict[str, Any]:
    """A chat of which the messages of these names, and the chat where ``chat`` is one of them, have no time."""
    chat = chatgpt_chat() if format_ == "chatgpt" else claude_chat()
    field = "create_time" if format_ == "chatgpt" else "created_at"
    messages = (
        {name: node["message"] for name, node in chat["mapping"].items() if node["message"]}
        if format_ == "chatgpt"
        else {message["uuid"]: message for message in chat["chat_messages"]}
    )
    for name in names:
        (chat if name == "chat" else messages[name])[field] = None
    return chat


@pytest.mark.parametrize("format_", ["chatgpt", "claude"])
def test_a_message_without_a_time_takes_that_of_the_one_before(tmp_path, format_):
    whole = read(tmp_path, format_, [chat_without_times(format_)])
    found = read(tmp_path, format_, [chat_without_times(format_, "u2")])
    assert texts_of(found) == texts_of(whole)
    before = {"chatgpt": datetime.fromtimestamp(DAY + 3, UTC), "claude": datetime(2023, 11, 14, 22, 13, 23, tzinfo=UTC)}
    assert times_of(found)[2] == before[format_]
    assert (whole.undated, found.undated) == (0, 1)
    assert "at the time of the message before, for they have none: 1 message" in told(found)


@pytest.mark.parametrize("format_", ["chatgpt", "claude"])
def test_a_first_message_without_a_time_takes_that_of_its_chat_else_of_the_next(tmp_path, format_):
    whole = read(tmp_path, format_, [chat_without_times(format_)])
    chats_time = {"chatgpt": datetime.fromtimestamp(DAY, UTC), "claude": datetime(2023, 11, 14, 22, 13, 0, 123456, UTC)}
    first = read(tmp_path, format_, [chat_without_times(format_, "u1")])
    assert (times_of(first)[0], first.undated) == (chats_time[format_], 1)
    alone = read(tmp_path, format_, [chat_without_times(format_, "u1", "chat")])
    assert texts_of(alone) == texts_of(whole)
    assert times_of(alone) == sorted(times_of(alone))
    assert alone.undated == 1


@pytest.mark.parametrize("format_", ["chatgpt", "claude"])
@pytest.mark.parametrize("time", [None, 10**400, "yesterday", [], 1e10, True, "0001-01-01T00:00:00+14:00"])
def test_a_chat_without_any_time_is_refused_alone(tmp_path, format_, time):
    names = ("chat", "sys", "own", "u1", "a1", "t1", "a2", "u2", "hid", "u3") if format_ == "chatgpt" else (
        "chat", "u1", "a1", "u2", "a2", "u3"
    )  # fmt: skip
    timeless = json.loads(json.dumps(chat_without_times(format_, *names)).replace('_time": null', '_time": 0'))
    if time is not None:
        field = "create_time" if format_ == "chatgpt" else "created_at"
        for one in timeless.get("chat_messages") or [node["message"] for node in timeless["mapping"].values()]:
            if one:
                one[field] = time
    other = json.loads(json.dumps(chat_without_times(format_)).replace("chat-1", "chat-2"))
    found = read(tmp_path, format_, [timeless, other])
    assert texts_of(found) == texts_of(read(tmp_path, format_, [other]))
    (refused,) = found.refused
    assert "conversations.json, chat 1: neither it nor any of its messages has a time" in refused
    assert f"refused: {refused}" in told(found)
    with pytest.raises(Refused, match="chat 1: neither it nor any"):
        read(tmp_path, format_, [timeless])


@pytest.mark.parametrize("format_", ["chatgpt", "claude"])
def test_an_entry_that_is_no_chat_is_refused_alone(tmp_path, format_):
    chat, of_another = (chatgpt_chat(), claude_chat()) if format_ == "chatgpt" else (claude_chat(), chatgpt_chat())
    entries = [None, chat, {"title": "x"}, of_another, {**chat, "current_node": "gone", "chat_messages": None}]
    found = read(tmp_path, format_, entries)
    alone = read(tmp_path, format_, [chat])
    assert texts_of(found) == texts_of(alone)
    assert found.left_out == alone.left_out
    assert [fault.split(": ")[0].rpartition(" ")[2] for fault in found.refused] == ["1", "3", "4", "5"]
    assert [line for line in told(found) if line.startswith("refused")] == [f"refused: {one}" for one in found.refused]
    assert done_line(ImportDone(2, 9, 0, 0, 1.0), len(found.refused)).endswith("; 4 chats refused")


# ---- chats of Claude


def test_a_chat_of_claude_is_what_the_person_saw_cut_at_its_silence(tmp_path):
    found = read(tmp_path, "claude", [claude_chat()])
    assert [[(said.speaker, said.text) for said in session.utterances] for session in found.sessions] == [
        [
            ("Ann", SAID[0]),
            ("agent", "Lyon is lovely."),
            ("Ann", "The flat has two rooms.\n[file]\n[image]\nLook at the flat."),
        ],
        [("Ann", SAID[1])],
    ]
    assert found.left_out == {"thinking": 1, "tool_use": 2, "tool_result": 1, "attached file": 1, "attached image": 1}
    first = found.sessions[0].utterances
    assert [said.reply_id is not None for said in first] == [False, True, False]
    assert first[0].at == datetime(2023, 11, 14, 22, 13, 20, 500000, UTC)
    assert found.conversations == ("default/claude",)


@pytest.mark.parametrize(
    "message",
    [
        {"text": "I moved.", "content": []},
        {"text": "I moved.", "content": None},
        {"text": "I moved.", "content": [{"type": "text", "text": ""}]},
        {"text": "", "content": [{"type": "text", "text": "I moved."}]},
        {"text": f"{HIDDEN}\nI moved.", "content": []},
        {"text": f"A thought.\n{HIDDEN}", "content": [{"type": "thinking"}, {"type": "text", "text": "I moved."}]},
        {"text": "", "content": [], "attachments": [{"file_name": "", "extracted_content": "I moved."}]},
    ],
)
def test_the_words_are_those_of_the_parts_else_the_text(tmp_path, message):
    chat = {**claude_chat(), "chat_messages": [{**claude_message("u1", "human", [], AT), **message}]}
    assert texts_of(read(tmp_path, "claude", [chat])) == ["I moved."]


def chat_of(*messages: tuple[str, str, str | None], **more: str) -> dict[str, Any]:
    """A chat of messages, each with its id, sender and the id of the one before."""
    said = [
        claude_message(id_, sender, [f"text of {id_}"], AT) | ({"parent_message_uuid": parent} if parent else {})
        for id_, sender, parent in messages
    ]
    return {**claude_chat(), "chat_messages": said, **more}


ROOT = "00000000-0000-4000-8000-000000000000"


@pytest.mark.parametrize(
    ("chat", "said", "others"),
    [
        (
            chat_of(("a", "human", ROOT), ("b", "assistant", "a"), ("c", "human", ROOT), ("d", "assistant", "c")),
            "cd",
            2,
        ),
        (
            chat_of(("a", "human", ROOT), ("b", "assistant", "a"), ("c", "assistant", "a"), ("d", "human", "c")),
            "acd",
            1,
        ),
        (
            chat_of(
                ("a", "human", ROOT), ("b", "assistant", "a"), ("c", "assistant", "a"), current_leaf_message_uuid="b"
            ),
            "ab",
            1,
        ),
        (chat_of(("a", "human", None), ("b", "assistant", None), ("c", "human", None)), "abc", 0),
        (chat_of(("a", "human", ROOT), ("b", "assistant", ROOT), ("c", "human", ROOT)), "abc", 0),
        (chat_of(("a", "human", "gone"), ("b", "assistant", "a"), ("c", "human", "gone")), "abc", 0),
        (chat_of(("a", "human", "b"), ("b", "assistant", "a")), "ab", 0),
    ],
    ids=["a first one edited", "an answer again", "an older answer shown", "no parents", "no tree", "gone", "a circle"],
)
def test_of_an_edited_chat_the_branch_that_is_shown_is_read(tmp_path, chat, said, others):
    found = read(tmp_path, "claude", [chat])
    assert texts_of(found) == [f"text of {id_}" for id_ in said]
    assert found.left_out == ({"of another branch": others} if others else {})


# ---- whatever a file holds


def places_of(document: Any) -> Iterator[tuple[Any, Any]]:
    """Each container of a document with each of its keys."""
    keys = list(document) if isinstance(document, dict) else range(len(document)) if isinstance(document, list) else ()
    for key in keys:
        yield document, key
        yield from places_of(document[key])


VALUES = st.one_of(
    st.sampled_from([None, True, 0, -1, 10**30, 1e308, "", "x", "\ud83d", [], {}, [None], {"type": "text"}, [["x"]]]),
    st.text(max_size=5),
)


@given(data=st.data(), format_=st.sampled_from(["chatgpt", "claude"]))
def test_a_changed_export_is_refused_or_told_of_and_never_a_fault(tmp_path_factory, data, format_):
    chat = chatgpt_chat() if format_ == "chatgpt" else claude_chat()
    chats = [chat, json.loads(json.dumps(chat).replace("chat-1", "chat-2"))]
    whole = read(tmp_path_factory.getbasetemp(), format_, copy.deepcopy(chats))
    container, key = data.draw(st.sampled_from(list(places_of(chats))))
    if data.draw(st.booleans()):
        container[key] = data.draw(VALUES)
    else:
        del container[key]
    try:
        found = read(tmp_path_factory.getbasetemp(), format_, chats)
    except Refused as fault:
        found, refused = None, str(fault)
    if found is None:
        assert "conversations.json" in refused
        return
    assert set(texts_of(whole)) & set(texts_of(found))  # the other chat is read
    if format_ == "claude" and len(texts_of(found)) < len(texts_of(whole)):
        told_of = found.left_out != whole.left_out or found.refused
        assert told_of or key in ("text", "extracted_content", "content", "type", "uuid") or isinstance(key, int)


# ---- pieces

DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(
    document=DOCUMENTS, size=st.integers(1, 9), indent=st.sampled_from([None, 1]), escaped=st.booleans()
)  # fmt: skip
def test_the_entries_are_those_of_the_document_however_it_is_cut(document, size, indent, escaped):
    data = json.dumps(document, indent=indent, ensure_ascii=escaped).encode("utf-8", "surrogatepass")
    try:
        data.decode()
    except UnicodeDecodeError:
        return
    whole = json.loads(json.dumps(json.loads(data), ensure_ascii=False).encode("utf-8", "replace"))
    chunks = [data[start : start + size] for start in range(0, len(data), size)]
    assert list(entries_of(chunks, "file")) == (whole if isinstance(document, list) else [whole])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'[\n{"a": 1},\n{"a" 1}]', "file, line 3: not JSON: Expecting ':' delimiter"),
        (b"[1,\n2", "file, line 2: not JSON"),
        (b"[1,\n]", "file, line 2: not JSON: expected a value behind the comma"),
        (b"[1]\n\n x", "file, line 3: not JSON: more behind its end"),
        (b'["caf\xe9"]', "file, line 1: not in UTF-8"),
        (b'["a",\n"b\xc3', "file, line 2: not in UTF-8"),
        (b"[" * 100_000, "file, line 1: not JSON"),
    ],
)
@pytest.mark.parametrize("size", [1, 1_000_000])
def test_what_is_wrong_is_named_with_its_line_however_it_is_cut(data, said, size):
    size = size if len(data) < 100 else 1_000_000
    with pytest.raises(Refused, match="line") as refused:
        list(entries_of([data[start : start + size] for start in range(0, len(data), size)], "file"))
    assert str(refused.value).startswith(said)


@pytest.mark.parametrize("form", ["file", "folder", "zip"])
def test_it_is_told_how_far_the_file_is_read(tmp_path, form):
    long = "word " * 300_000
    parts = [json.dumps([claude_chat(f"chat-{number}"), chat_of() | {"name": long}]) for number in range(2)]
    path = tmp_path / "export"
    path.mkdir()
    for number, part in enumerate(parts):
        (path / f"conversations-{number}.json").write_text(part)
    if form == "file":
        path = path / "conversations-0.json"
        parts = parts[:1]
    elif form == "zip":
        path = tmp_path / "export.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for number, part in enumerate(parts):
                archive.writestr(f"conversations-{number}.json", part)
    reported: list[tuple[int, int]] = []
    found = read_import(path, ImportFormat.CLAUDE, HERE, lambda done, total: reported.append((done, total)))
    assert len(found.sessions) == 2 * len(parts)
    total = sum(map(len, parts))
    assert reported == sorted(reported)
    assert len(reported) >= 2 * len(parts)
    assert reported[-1] == (total, total)


def test_a_folder_without_chats_is_refused(tmp_path):
    with pytest.raises(Refused, match=r"holds no conversations\.json"):
        read_import(tmp_path, ImportFormat.CHATGPT, HERE)
