import json
from enum import StrEnum
from typing import Annotated, Literal

import jsonschema
import pytest
from pydantic import Field

from eunoe.schemas.base import Value
from eunoe.schemas.errors import AnswerInvalid
from eunoe.workers.models.questions.answer_forms import (
    FORMS,
    FormSpec,
    InsightRow,
    InsightsForm,
    MemoriesForm,
    OperationRow,
    OperationsForm,
    ReplyForm,
)
from eunoe.workers.models.questions.cut_answers import read_endless
from eunoe.workers.models.questions.forms import DEFAULT_MAX_CHARS, strict_schema
from eunoe.workers.models.questions.json_text import without_thoughts
from eunoe.workers.models.questions.reading import read_answer, readable_part, salvaged
from tests.support.model_server.schema_answers import SchemaAnswers, is_strict, wrong_ids


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Leaf(Value):
    kind: Literal["leaf"] = "leaf"
    title: str = Field(description="a field may be called like a keyword")


class Branch(Value):
    kind: Literal["branch"] = "branch"
    parts: tuple["Leaf | Branch", ...] = Field(default=(), max_length=4)


class Form(Value):
    """A form with everything in it."""

    node: Annotated[Leaf | Branch, Field(discriminator="kind")]
    colour: Colour = Colour.RED
    note: str | None = None
    short: str = Field(default="", max_length=5)
    count: int = Field(default=0, ge=0, le=9)
    score: float = Field(default=0.0, ge=0, le=1)


class Free(Value):
    words: dict[str, int]


def test_objects_are_closed_and_require_everything():
    schema = strict_schema(Form)
    assert is_strict(schema)
    assert set(schema["required"]) == {"node", "colour", "note", "short", "count", "score"}
    assert "default" not in json.dumps(schema)
    assert '"title": {"' in json.dumps(schema), "a field named title is no keyword"
    jsonschema.Draft202012Validator.check_schema(schema)


def test_every_free_string_is_bounded():
    schema = strict_schema(Form)
    assert schema["properties"]["short"]["maxLength"] == 5
    assert schema["properties"]["note"]["anyOf"][0]["maxLength"] == DEFAULT_MAX_CHARS
    assert schema["$defs"]["Leaf"]["properties"]["title"]["maxLength"] == DEFAULT_MAX_CHARS


def test_bounds_can_be_left_out():
    written = json.dumps(strict_schema(Form, bounded=False))
    assert not any(word in written for word in ("maxLength", "maximum", "minimum", "maxItems"))


def test_free_keys_are_refused():
    with pytest.raises(TypeError, match=r"Free\.words has free keys"):
        strict_schema(Free)


def test_answers_made_from_the_schema_fit_it_and_the_form():
    schema = strict_schema(Form)
    fits = jsonschema.Draft202012Validator(schema)
    for number in range(200):
        answer = SchemaAnswers(schema, f"[{number}] Ann: I went to the market and bought apples").make()
        fits.validate(answer)
        read_answer(json.dumps(answer), Form)


def test_wrong_ids_touch_numbers_and_ids_only():
    assert wrong_ids({"id": "a", "unit_id": "b", "n": [1], "ok": True, "text": "x"}) == {
        "id": "no-such-id",
        "unit_id": "no-such-id",
        "n": [1_000_001],
        "ok": True,
        "text": "x",
    }


@pytest.mark.parametrize(
    "text",
    [
        '{"title": "a"}',
        ' \n{"title": "a"}\n',
        '```json\n{"title": "a"}\n```',
        '<think>hm {</think>\n{"title": "a"}',
        '<thinking>{"title": "b"}</thinking>{"title": "a"}',
        'hm, {"title": "b"} or\n</think>\n{"title": "a"}',
        'Sure! Here it is:\n{"title": "a"}\nLet me know {if} you need more.',
        '```json\n{"title": "a"}\n``` I hope this helps!',
        '{"answer": {"title": "a"}}',
        '{"sure": 1} {"title": "a", "note": "unknown"}',
        '[THINK]{"title": "b"}[/THINK]{"title": "a"}',
        '◁think▷{"title": "b"}◁/think▷{"title": "a"}',
        '<seed:think>{"title": "b"}</seed:think>{"title": "a"}',
        '<|channel|>analysis<|message|>{"title": "b"}<|end|><|start|>assistant<|channel|>final <|constrain|>json'
        '<|message|>{"title": "a"}<|return|>',
        'analysisPerhaps {"title": "b"}?assistantfinal{"title": "a"}',
        '{"title": "a",}',
        '```json\n{\n  // the name\n  "title": "a", /* as asked */\n}\n```',
        '"{\\"title\\": \\"a\\"}"',
    ],
)
def test_wrapping_is_taken_off(text: str):
    assert read_answer(text, Leaf) == Leaf(title="a")


@pytest.mark.parametrize(
    "said",
    ["</think> means I am done", "<think>so</think>", "analysis [/THINK]", "a, ] // b /* c */", "<|channel|>final"],
)
def test_marks_in_what_is_told_are_text(said: str):
    written = json.dumps({"title": said}, ensure_ascii=False)
    assert read_answer(written, Leaf).title == said
    assert read_answer(f"```json\n{written}\n```", Leaf).title == said
    assert read_answer(f"<think>hm</think>\n{written}", Leaf).title == said


OPERATIONS = OperationsForm(pairs=(OperationRow(n=1, op="PASS"), OperationRow(n=2, op="FUSE", merged="both")))


@pytest.mark.parametrize(
    "text",
    [
        '{"pairs": [{"n": 1, "op": "PASS"}, {"n": 2, "op": "FUSE", "merged": "both"}]}',
        '{"pairs": [{"n": "1", "op": "pass", "merged": null, "x": 0}, {"n": "[2]", "op": "Fuse", "merged": "both"}]}',
        '[{"n": 1, "op": "PASS"}, {"n": 2, "op": "FUSE", "merged": "both"}]',
        '{"pairs": {"1": {"op": "PASS"}, "pair_2": {"op": "FUSE", "merged": "both"}}}',
        '{"pairs": [{"n": 1, "op": "PASS"}, {"n": 3, "op": "MAYBE"}, 7, {"n": 2, "op": "FUSE", "merged": "both"}]}',
        '{"pairs": [{"n": 1, "op": "PASS"}]}\n{"pairs": [{"n": 2, "op": "FUSE", "merged": "both"}]}',
        '{"pairs": [{"n": "pair 1 of 2", "op": "PASS"},{"n": "2.", "op": "FUSE", "merged": "both"},],}',
    ],
)
def test_numbers_and_fixed_words_are_read_as_they_are_meant_and_bad_items_dropped(text: str):
    assert read_answer(text, OperationsForm) == OPERATIONS


@pytest.mark.parametrize(
    ("memory", "speaker", "own", "lines"),
    [
        ({"speaker": "Mia", "own": None, "lines": [1]}, 0, 0, (1,)),
        ({"speaker": "none", "own": "line-3", "lines": "2, 3"}, 0, 3, (2, 3)),
        ({"speaker": 1.0, "own": "", "lines": ["[2, 3]", "none", None, "l4"]}, 1, 0, (2, 3, 4)),
        ({"speaker": "-2", "own": {}, "lines": "2 and 3"}, -2, 0, (2, 3)),
        ({"speaker": "Speaker 2", "own": "[3] Mia (Tue): I row", "lines": ["3-5", "7"]}, 0, 3, (3, 4, 5, 7)),
        ({"speaker": "2 = Mia", "own": "I have 4 cats", "lines": ["3 of them are black", "line 6"]}, 2, 0, (6,)),
    ],
)
def test_a_number_that_may_be_left_out_loses_no_row(
    memory: dict[str, object], speaker: int, own: int, lines: tuple[int, ...]
):
    (row,) = read_answer(json.dumps({"memories": [{"text": "Mia rows.", **memory}]}), MemoriesForm).memories
    assert (row.speaker, row.own, row.lines, row.text) == (speaker, own, lines, "Mia rows.")


@pytest.mark.parametrize("nothing", ["none", "None.", "null", "N/A", "-", "…", " ", None])
def test_a_text_that_says_there_is_none_is_none(nothing: str | None):
    written = json.dumps({"pairs": [{"n": 1, "op": "FUSE", "merged": nothing}]})
    assert read_answer(written, OperationsForm).pairs[0].merged == ""
    assert read_answer(json.dumps({"insights": nothing}), InsightsForm).insights == ()
    assert read_answer(json.dumps({"text": "None.", "cited": "none", "notes": nothing}), ReplyForm).text == "None."


@pytest.mark.parametrize("spec", FORMS, ids=lambda spec: spec.name)
def test_the_example_of_a_prompt_is_no_answer_where_one_follows(spec: FormSpec):
    real = spec.example.replace("…", "it is so")
    assert read_answer(f"The form: {spec.example}\nMy answer:\n{real}", spec.form) == read_answer(real, spec.form)
    assert read_answer(f"```\n{real}\n```\nas in {spec.example}", spec.form) == read_answer(real, spec.form)
    assert read_answer(spec.example, spec.form), "an answer may be like the example"


@pytest.mark.parametrize(
    "damaged",
    [
        '{"notes": [{"text": "A "no" it was", "cited": [1]}, {"text": "Ann moved", "cited": [2]}, {"text": "So"}]}',
        '{"notes": [{"text": "Ann moved", "cited": [2]}, {"text": "She',
    ],
)
def test_a_note_of_a_damaged_reply_is_no_reply(damaged: str):
    with pytest.raises(AnswerInvalid, match="not valid JSON"):
        read_answer(damaged, ReplyForm)
    whole = '{"cited": [2], "text": "She moved."}'
    assert read_answer(whole, ReplyForm).text == "She moved."
    assert read_answer("The example has " + '"notes": ' + whole, ReplyForm).text == "She moved."


INSIGHT = {"kind": "New", "speaker": 1, "text": "Ann rows.", "lines": [1], "replaces": []}


@pytest.mark.parametrize("bad", [{**INSIGHT, "kind": "Changed"}, {**INSIGHT, "text": {}}, "Ann rows."])
def test_a_row_that_nobody_would_miss_is_a_fault_where_it_does_not_fit(bad: object):
    with pytest.raises(AnswerInvalid, match=r"insights\.1") as caught:
        read_answer(json.dumps({"insights": [INSIGHT, bad]}), InsightsForm)
    assert readable_part(caught.value.partial, InsightsForm) == InsightsForm(insights=(InsightRow(**INSIGHT),))
    with pytest.raises(AnswerInvalid, match=r"insights\.0") as caught:
        read_answer(json.dumps({"insights": [bad]}), InsightsForm)
    assert readable_part(caught.value.partial, InsightsForm) is None


def test_the_whole_items_of_an_answer_that_was_cut_are_kept():
    written = json.dumps(OPERATIONS.model_dump())
    assert salvaged(written[:-20], OperationsForm) == OperationsForm(pairs=OPERATIONS.pairs[:1])
    assert salvaged('{"pairs": [{"n": 1, "o', OperationsForm) is None


def test_an_answer_that_is_said_twice_is_read_once():
    written = json.dumps(OPERATIONS.model_dump())
    other = written.replace("PASS", "DELETE")
    assert read_answer(f"{written}\n{other}", OperationsForm) == OPERATIONS
    one = '{"pairs": [{"n": 1, "op": "PASS"}]}'
    assert read_answer(f"{one}\nor rather {one.replace('1', '2')}", OperationsForm).pairs == OPERATIONS.pairs[:1]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (["Ann rows.", "Ben sings.", "Ben sings.", "Ben sings."], ["Ann rows.", "Ben sings."]),
        (["Ann rows.", "Ben sings.", "Ann rows."], ["Ann rows.", "Ben sings."]),
        (["Ann rows.", "Ben sings."], None),
        (["Ann rows.", "Ann rows.", "Ben sings."], None),
        ([], None),
    ],
)
def test_of_an_answer_that_says_the_same_again_until_it_is_cut_each_item_is_kept_once(
    said: list[str], told: list[str] | None
):
    written = json.dumps({"memories": [{"text": text, "own": 1, "lines": [1]} for text in said]})
    found = read_endless(f'{written[:-2]}, {{"text": "Ben s', MemoriesForm)
    assert (None if found is None else [row.text for row in found.memories]) == told


def test_thoughts_without_an_end_are_no_answer():
    assert without_thoughts('<think>perhaps {"title": "a"}') == ""
    assert without_thoughts('<|channel|>analysis<|message|>perhaps {"title": "a"}') == ""


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("Sure, here it is", "not valid JSON"),
        ('{"title": "a"', "not valid JSON"),
        ('{"title": "\\ud800"}', "not valid JSON"),
        ("[]", "not valid JSON"),
        ('{"title": 7}', "title: Input should be a valid string"),
        ("{}", "not valid JSON"),
    ],
)
def test_a_fault_is_named_without_the_content(text: str, fault: str):
    with pytest.raises(AnswerInvalid) as caught:
        read_answer(text, Leaf)
    assert fault in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{“memories”: [{“speaker”: 1, “text”: “she said “x””, “own”: 3, “lines”: [3]}]}", "not valid JSON"),
        ("{'memories': [{'speaker': 1, 'text': 'it's x', 'own': 3, 'lines': [3]}]}", "not valid JSON"),
        ('{"memories": [{"speaker": 1, "text": "x", "own": 3, "lines": [3]]}', "not valid JSON"),
        ('{"Facts": [{"speaker": 1, "text": "x", "own": 3, "lines": [3]}]}', "none of the fields memories"),
    ],
)
def test_a_model_is_told_what_was_wrong_and_not_of_the_numbers_in_it(text: str, fault: str):
    with pytest.raises(AnswerInvalid, match=fault):
        read_answer(text, MemoriesForm)
