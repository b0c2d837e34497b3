"""The bundled conversation, and the reading of conversations from files."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from eunoe.deploy.cli.demo import DemoOptions, citation, made_offline
from eunoe.deploy.datasets import locomo
from eunoe.deploy.datasets.load import load_conversation, read_events
from eunoe.deploy.datasets.loaded import LoadedConversation
from eunoe.deploy.demo.bundled import CONVERSATION
from eunoe.deploy.demo.play import AnsweredQuestion
from eunoe.schemas.errors import Refused
from eunoe.schemas.events import Erase, SessionEnded, Utterance


def utterance(number: int = 1, **other: object) -> dict[str, object]:
    return {
        "type": "utterance",
        "conversation_id": "c",
        "utterance_id": f"u{number}",
        "speaker": "Ada",
        "text": f"line {number}",
        "at": "2026-03-01T09:30:00Z",
        **other,
    }


def written(path: Path, *rows: object) -> Path:
    path.write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def a_sample(**other: object) -> dict[str, object]:
    turns = [
        {"speaker": "Ada", "dia_id": "D1:1", "text": "Look at my boat"},
        {"speaker": "Bo", "dia_id": "D1:2", "text": "Nice!", "blip_caption": "a photo of a red boat"},
    ]
    conversation = {
        "speaker_a": "Ada",
        "session_10": [{"speaker": "Bo", "dia_id": "D10:1", "text": "Back again"}],
        "session_10_date_time": "12:05 am on 20 June, 2023",
        "session_1": turns,
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_11_date_time": "1:56 pm on 9 July, 2023",
    }
    questions = [
        {"question": "What colour is the boat?", "answer": 3, "evidence": ["D:1:2; D1:1", "D9:9", "?"], "category": 4},
        {"question": "Who sank it?", "evidence": [], "category": 5, "adversarial_answer": "Bo"},
    ]
    return {"sample_id": "conv-1", "conversation": conversation, "qa": questions, **other}


# ---- the bundled one


def test_the_bundled_conversation_is_long_enough_to_need_a_memory() -> None:
    loaded = load_conversation(CONVERSATION)
    sessions = [event for event in loaded.events if isinstance(event, SessionEnded)]
    assert len(sessions) == 5
    assert len(loaded.utterances) == 89
    assert {event.speaker for event in loaded.utterances} == {"Mina", "Jonas"}
    assert (sessions[-1].at - loaded.utterances[0].at).days > 200


def test_the_bundled_conversation_is_one_in_order_without_repeated_ids() -> None:
    loaded = load_conversation(CONVERSATION)
    assert {event.conversation_id for event in loaded.events} == {loaded.conversation_id}
    assert len({event.utterance_id for event in loaded.utterances}) == len(loaded.utterances)
    assert all(before.at < after.at for before, after in pairwise(loaded.events))


def test_every_bundled_session_ends_before_the_next_begins() -> None:
    ended: set[str | None] = set()
    for event in load_conversation(CONVERSATION).events:
        assert event.session_id not in ended
        if isinstance(event, SessionEnded):
            ended.add(event.session_id)
    assert ended == {f"session-{number}" for number in range(1, 6)}


def test_the_bundled_questions_are_about_earlier_sessions_and_name_their_evidence() -> None:
    loaded = load_conversation(CONVERSATION)
    assert len(loaded.questions) >= 6
    for question in loaded.questions:
        assert question.evidence
        assert question.answer
        assert question.speaker in {"Mina", "Jonas"}


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        ("Where does Mina live", "Matosinhos"),
        ("knee", "meniscus"),
        ("dog", "Pepper"),
        ("nuts", "hazelnuts"),
        ("work", "Kettenwerk"),
        ("Bohinj", "survey ship"),
        ("uncle", "twenty-eighth of October"),
        ("cat", "swells shut"),
    ],
)
def test_the_evidence_of_a_bundled_question_holds_its_answer(words: str, fact: str) -> None:
    loaded = load_conversation(CONVERSATION)
    texts = {event.utterance_id: event.text for event in loaded.utterances}
    question = next(question for question in loaded.questions if words in question.question)
    assert any(fact in texts[id_] for id_ in question.evidence)


# ---- our own format


def test_events_are_read_as_clients_produce_them(tmp_path: Path) -> None:
    ended = {"type": "session_ended", "conversation_id": "c", "at": "2026-03-01T10:00:00Z"}
    loaded = load_conversation(written(tmp_path / "a.jsonl", utterance(1, text="안녕 👋"), "\n", utterance(2), ended))
    assert loaded.conversation_id == "c"
    assert [type(event) for event in loaded.events] == [Utterance, Utterance, SessionEnded]
    assert loaded.utterances[0].text == "안녕 👋"
    assert loaded.questions == ()


def test_a_byte_order_mark_and_windows_line_ends_are_accepted(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(utterance()).encode() + b"\r\n")
    assert len(load_conversation(path).events) == 1


def test_a_sample_is_one_of_several_conversations(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", utterance(1), utterance(2, conversation_id="d"))
    assert [event.utterance_id for event in load_conversation(path, "d").utterances] == ["u2"]
    with pytest.raises(Refused, match="holds 2 conversations; choose one with --sample: c, d"):
        load_conversation(path)
    with pytest.raises(Refused, match="holds no conversation 'e'; it has: c, d"):
        load_conversation(path, "e")


def test_all_events_of_a_file_keep_its_order_and_may_erase(tmp_path: Path) -> None:
    erase = {"type": "erase", "conversation_id": "d", "request_id": "r", "at": "2026-03-01T10:00:00Z"}
    path = written(tmp_path / "a.jsonl", utterance(1), erase)
    assert [type(event) for event in read_events(path)] == [Utterance, Erase]
    with pytest.raises(Refused, match="line 2: an erase cannot be played"):
        load_conversation(path, "c")


def test_questions_stand_beside_their_conversation(tmp_path: Path) -> None:
    path = written(tmp_path / "my-conversation.jsonl", utterance(1))
    beside = written(tmp_path / "my-questions.jsonl", {"question": "Who spoke?", "evidence": ["u1"]})
    assert [question.question for question in load_conversation(path).questions] == ["Who spoke?"]
    written(beside, {"question": "Who spoke?", "evidence": ["u1", "u7"]})
    with pytest.raises(Refused, match=r"my-questions\.jsonl, line 1: no such utterance in the conversation: u7"):
        load_conversation(path)
    written(beside, {"question": " "})
    with pytest.raises(Refused, match=r"line 1: question: .*blank"):
        load_conversation(path)


def test_a_question_about_one_conversation_of_a_file_is_asked_of_no_other(tmp_path: Path) -> None:
    events = utterance(1), utterance(2, conversation_id="d")
    path = written(tmp_path / "my-conversation.jsonl", *events)
    asked = [
        {"question": "In both?"},
        {"question": "In c?", "conversation_id": "c", "evidence": ["u1"]},
        {"question": "In d?", "conversation_id": "d", "evidence": ["u2"]},
    ]
    written(tmp_path / "my-questions.jsonl", *asked)
    assert [question.question for question in load_conversation(path, "c").questions] == ["In both?", "In c?"]
    assert [question.question for question in load_conversation(path, "d").questions] == ["In both?", "In d?"]


# ---- LoCoMo


def test_a_locomo_sample_becomes_events_in_the_order_of_its_sessions(tmp_path: Path) -> None:
    loaded = load_conversation(written(tmp_path / "l.json", [a_sample()]))
    assert loaded.conversation_id == "conv-1"
    ids = [event.utterance_id if isinstance(event, Utterance) else event.session_id for event in loaded.events]
    assert ids == ["D1:1", "D1:2", "session-1", "D10:1", "session-10"]
    assert [event.model_dump(mode="json")["at"] for event in loaded.events] == [
        "2023-05-08T13:56:00Z",
        "2023-05-08T13:56:30Z",
        "2023-05-08T13:57:00Z",
        "2023-06-20T00:05:00Z",
        "2023-06-20T00:05:30Z",
    ]
    assert loaded.utterances[1].text == "Nice! [photo: a photo of a red boat]"


def test_locomo_evidence_is_read_however_it_is_written(tmp_path: Path) -> None:
    first, second = load_conversation(written(tmp_path / "l.json", [a_sample()])).questions
    assert first.evidence == ("D1:2", "D1:1")
    assert (first.category, first.answer, first.speaker) == ("single-hop", "3", None)
    assert (second.category, second.answer, second.evidence) == ("adversarial", None, ())


def test_one_locomo_sample_alone_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_text(json.dumps(a_sample(), indent=1))
    assert len(load_conversation(path).events) == 5


def test_one_of_several_locomo_samples_must_be_named(tmp_path: Path) -> None:
    path = written(tmp_path / "l.json", [a_sample(), a_sample(sample_id="conv-2")])
    assert load_conversation(path, "conv-2").conversation_id == "conv-2"
    with pytest.raises(Refused, match="choose one with --sample: conv-1, conv-2"):
        load_conversation(path)


@pytest.mark.parametrize(
    ("conversation", "fault"),
    [
        ({}, "has no session_1"),
        ({"session_1": []}, "session_1: no time like '1:56 pm on 8 May, 2023' in its _date_time: None"),
        ({"session_1": [], "session_1_date_time": "yesterday"}, "session_1: no time like .*'yesterday'"),
        ({"session_1": ["hi"], "session_1_date_time": "1:56 pm on 8 May, 2023"}, "session_1, turn 1: .*utterance_id"),
    ],
)
def test_a_wrong_locomo_sample_is_refused(tmp_path: Path, conversation: object, fault: str) -> None:
    path = written(tmp_path / "l.json", [{"sample_id": "x", "conversation": conversation}])
    with pytest.raises(Refused, match=fault):
        load_conversation(path)


@pytest.mark.parametrize("row", ["?", {}, {"question": " "}, {"question": 3, "category": [], "evidence": "D1:1"}])
def test_a_wrong_locomo_question_is_refused(tmp_path: Path, row: object) -> None:
    path = written(tmp_path / "l.json", [a_sample(qa=[row])])
    with pytest.raises(Refused, match="conv-1, question 1: question: "):
        load_conversation(path)


def test_unknown_evidence_is_left_out() -> None:
    assert locomo.evidence_ids(["D1:1 D2:2", "D", 7, "D:1:1"], {"D1:1"}) == ("D1:1",)


# ---- what people get wrong


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("", "is empty; expected one JSON event on each line"),
        (" \n\n", "is empty"),
        ("hello\n", "line 1: not JSON"),
        (json.dumps(utterance()) + "\n{oops\n", "line 2: not JSON"),
        ('"text"\n', "entry 1 is not a LoCoMo sample"),
        ("[1,\n2", "line 2: not JSON"),
        ("[]", "holds no conversation"),
        ('{"a": 1}\n', "line 1: has no type"),
        (json.dumps(utterance(at="2026-03-01T09:30:00")), "line 1: at: .*RFC 3339"),
        (json.dumps(utterance(text="  ")), "line 1: text: .*blank"),
        (json.dumps(utterance(txt="x")), "line 1: txt: "),
        (json.dumps(utterance(schema_version=99)), "line 1: utterance of schema version 99"),
        (json.dumps(utterance(text="\ud800")), "line 1: not JSON"),
        ('{"type": "session_skipped", "conversation_id": "c", "session": 1, "stage": "x", "error": "y"}',
         "line 1: clients do not produce events of type 'session_skipped'"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_in_one_line_that_names_it(tmp_path: Path, content: str, fault: str) -> None:
    path = tmp_path / "wrong.jsonl"
    path.write_text(content)
    with pytest.raises(Refused, match=fault) as refused:
        load_conversation(path)
    assert str(refused.value).startswith(str(path))
    assert "\n" not in str(refused.value)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no such file"):
        load_conversation(tmp_path / "nothing.jsonl")
    with pytest.raises(Refused, match="is a folder"):
        load_conversation(tmp_path)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "b.jsonl"
    path.write_bytes(b'{"a": "\xff"}\n')
    with pytest.raises(Refused, match="line 1: not in UTF-8; save the file in that encoding"):
        load_conversation(path)


SAID = tuple(
    Utterance.model_validate({**utterance(number), "text": text, "at": f"2026-03-0{number}T09:30:00Z"})
    for number, text in enumerate(("My boat is red.", "It leaks.", "I sold it."), start=1)
)


@pytest.mark.parametrize(
    ("cited", "reply", "line"),
    [
        (
            ("u1", "u3"),
            "Ada said: “My boat is red.” Later: “I sold it.”",
            "cites u1 of 1 March 2026 and u3 of 3 March 2026",
        ),
        (("u2", "u3"), "Ada said: “I sold it.”", "cites u3 of 3 March 2026"),
        (("u2", "u1"), "Ada has none.", "cites u2 of 2 March 2026, Ada: It leaks."),
        ((), "Nobody said.", "cites nothing"),
    ],
)
def test_the_demo_names_what_a_reply_quotes_or_else_what_it_cites_first(cited: tuple[str, ...], reply: str, line: str):
    asked = AnsweredQuestion(
        question="?", reply=reply, cited=cited, evidence=(), tokens=9, timelines=(), recall=None, seconds=0.1
    )
    assert citation(LoadedConversation("c", SAID, ()), asked) == line


@pytest.mark.parametrize(
    ("attach", "workers", "told"),
    [
        (False, True, ["servers", "worker"]),
        (False, False, ["servers"]),
        (True, True, ["worker"]),
        (True, False, []),
    ],
)
def test_the_demo_says_what_it_starts(attach: bool, workers: bool, told: list[str]):
    options = DemoOptions(None, 300, attach, workers, 120.0, quiet=False, verbose=False, page=False)
    assert options.starts == told


def test_the_demo_says_how_many_replies_a_model_did_not_make():
    asked = [{"fallback": True}, {"fallback": False}, {"fallback": True}]
    assert made_offline(asked).startswith("2 of 3 replies made by the offline rules")
    assert made_offline([{"fallback": False}]) == ""
