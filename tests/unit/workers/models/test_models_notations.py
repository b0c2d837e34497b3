"""Answers in other notations than JSON, without what holds their items together, or corrected by the model itself."""

import json
from typing import Any

import pytest

from eunoe.schemas.errors import AnswerInvalid
from eunoe.workers.models.endpoint.completion import Completion, ErrorInBody
from eunoe.workers.models.questions.answer_forms import MemoriesForm, OperationsForm, QuestionForm
from eunoe.workers.models.questions.reading import read_answer

MEMORY = {"speaker": 1, "kind": "state", "text": 'Ann\'s cat "Miso" is ill.', "until": None, "own": 3, "lines": [3]}
PAIRS = [{"n": n, "why": "so it is", "op": op, "merged": ""} for n, op in enumerate(("PASS", "DELETE", "APPEND"), 1)]


def pairs(*rows: dict[str, Any]) -> str:
    return json.dumps({"pairs": rows})


@pytest.mark.parametrize(
    "text",
    [
        str({"memories": [MEMORY]}),
        f"Here it is: { ({'memories': [MEMORY]}) }",
        json.dumps({"memories": [MEMORY]}).replace("null", "None"),
        '{“memories”: [{“speaker”: 1, “kind”: “state”, “text”: “Ann\'s cat "Miso" is ill.”, “own”: 3, “lines”: [3],}]}',
    ],
    ids=["a dictionary of Python", "with a word before it", "a word of Python", "typographic"],
)
def test_other_notations_are_read_as_they_are_meant(text: str):
    (memory,) = read_answer(text, MemoriesForm).memories
    assert (memory.text, memory.until, memory.own) == (MEMORY["text"], "", 3)


@pytest.mark.parametrize("text", ["{'memories': []}", "{“memories”: []}", "Here: {'memories': [], 'note': None}"])
def test_an_empty_list_is_read_in_other_notations(text: str):
    assert read_answer(text, MemoriesForm).memories == ()


@pytest.mark.parametrize("text", ["{'question': 'Ann's cat?'}", "{'question': \"What of it?}", "pairs:\n  - n: 1"])
def test_what_is_not_surely_meant_is_asked_for_again(text: str):
    with pytest.raises(AnswerInvalid, match="not valid JSON"):
        read_answer(text, QuestionForm)


@pytest.mark.parametrize("between", ["\n", ",\n", "\n\n```\n```json\n"])
def test_items_on_their_own_are_the_list(between: str):
    answer = read_answer(between.join(map(json.dumps, PAIRS)), OperationsForm)
    assert [row.op for row in answer.pairs] == ["PASS", "DELETE", "APPEND"]


@pytest.mark.parametrize("other", ['{"text": "Ann rows."}', "{}", "[1]", '{"n": 4, "why": "cut'])
def test_items_beside_something_else_are_no_list(other: str):
    with pytest.raises(AnswerInvalid):
        read_answer(f"{json.dumps(PAIRS[0])}\n{other}", OperationsForm)


@pytest.mark.parametrize("word", ["Wait, that is wrong.", "Corrected:", "Actually, let me revise this:\n```json"])
def test_an_answer_that_the_model_takes_back_does_not_count(word: str):
    later = pairs(PAIRS[0], {**PAIRS[1], "op": "APPEND"}, PAIRS[2])
    answer = read_answer(f"{pairs(*PAIRS)}\n\n{word}\n{later}", OperationsForm)
    assert [row.op for row in answer.pairs] == ["PASS", "APPEND", "APPEND"]


def test_a_correction_of_one_item_leaves_the_others():
    answer = read_answer(f"{pairs(*PAIRS)}\nWait: {pairs({**PAIRS[1], 'op': 'APPEND'})}", OperationsForm)
    assert {row.n: row.op for row in answer.pairs} == {1: "PASS", 2: "APPEND", 3: "APPEND"}


@pytest.mark.parametrize(
    "between",
    ["\n\nuser: Corrected, please.\nassistant: ", "<|im_end|>Actually", "\nOr else:\n", "\nExample, corrected:\n"],
)
def test_what_a_model_makes_up_behind_its_answer_does_not_count(between: str):
    written = between.join(json.dumps({"question": question}) for question in ("Whose cat?", "Whose dog?"))
    assert read_answer(written, QuestionForm).question == "Whose cat?"


# ---- streams of events that were not asked for


def stream(*chunks: object) -> bytes:
    return b"".join(
        b"data: " + (b"[DONE]" if chunk is None else json.dumps(chunk).encode()) + b"\n\n" for chunk in chunks
    )


def chunk(finish: str | None = None, **delta: object) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


@pytest.mark.parametrize("before", [b"", b": keep-alive\n\n", b"event: message\n"])
def test_an_answer_that_comes_as_events_is_read(before: bytes):
    usage = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}
    parts = (chunk(role="assistant", content=""), chunk(reasoning_content="Hm."), chunk(content='{"ques'))
    content = before + stream(*parts, chunk(content='tion": "민아?"}'), chunk("stop"), usage, None)
    assert Completion.read(content) == Completion('{"question": "민아?"}', "stop", False, (7, 3), "Hm.")


def test_the_arguments_of_a_tool_that_come_as_events_are_read():
    calls = [[{"index": 0, "function": {"name": "Question", "arguments": part}}] for part in ('{"question": ', '"A?"}')]
    content = stream(*(chunk(tool_calls=part) for part in calls), chunk("tool_calls"), None)
    read = Completion.read(content)
    assert read is not None
    assert read_answer(read.content, QuestionForm).question == "A?"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (stream(chunk(content='{"question": "A?"}')), "the answer was broken off"),
        (stream(chunk(content="{"), {"error": {"message": "overloaded"}}), "overloaded"),
    ],
)
def test_events_that_break_off_are_a_fault_of_the_endpoint(content: bytes, told: str):
    with pytest.raises(ErrorInBody) as caught:
        Completion.read(content)
    assert caught.value.error["message"] == told


@pytest.mark.parametrize("content", [b"data: {", b"event: message\n", b"data: 3\n\n"])
def test_events_that_are_no_answer_are_none(content: bytes):
    with pytest.raises((ValueError, ErrorInBody)):
        Completion.read(content)
