"""Forms that say what can be answered."""

import pytest

from eunoe.schemas.errors import AnswerInvalid
from eunoe.schemas.ports import Prompt
from eunoe.workers.link.prompt import RelationsAnswer
from eunoe.workers.models.forms import read_answer, strict_schema
from eunoe.workers.models.offered import one_each
from eunoe.workers.models.recording import request_hash
from eunoe.workers.segment.prompt import SegmentsAnswer
from eunoe.workers.summarize.form import memories_form
from eunoe.workers.summarize.prompt import MemoriesAnswer
from eunoe.workers.update.prompt import OperationsAnswer
from tests.support.model_server import plausible
from tests.support.model_server.schema_answers import SchemaAnswers, is_strict

TWO = one_each(RelationsAnswer, "pairs", "pair", 2)


def test_the_schema_requires_each_item_and_nothing_else():
    schema = strict_schema(TWO)
    assert is_strict(schema)
    assert schema["required"] == ["pair_1", "pair_2"]
    assert set(schema["$defs"]["PairAnswer"]["properties"]) == {"explanation", "relation"}


@pytest.mark.parametrize("count", [1, 2, 30, 160])
def test_whatever_fits_the_schema_tells_of_every_item_once(count: int):
    for form, field, number in ((RelationsAnswer, "pairs", "pair"), (OperationsAnswer, "pairs", "pair")):
        offered = one_each(form, field, number, count)
        answer = offered.model_validate(SchemaAnswers(strict_schema(offered), f"prompt {count}").make())
        assert answer.fault(count) is None


def test_an_answer_is_recorded_as_a_list_and_read_again():
    told = '{"pair_2": {"explanation": "b", "relation": "None"}, "pair_1": {"explanation": "a", "relation": "Cause"}}'
    answer = read_answer(told, TWO)
    assert [pair.pair for pair in answer.pairs] == [1, 2]
    assert read_answer(answer.model_dump_json(), TWO) == answer


@pytest.mark.parametrize("text", ['{"pair_3": {}}', '{"pair_1": 7}', '{"other": 1}', "[]", '{"pair_1": {"pair": 2}}'])
def test_what_is_not_offered_is_refused(text: str):
    with pytest.raises(AnswerInvalid):
        read_answer(text, TWO)


def test_a_missing_item_is_named_by_the_check():
    answer = read_answer('{"pair_1": {"explanation": "a", "relation": "Cause"}}', TWO)
    assert answer.fault(2) == "these pairs are not answered: [2]"


def test_forms_of_one_count_are_one_form_and_others_are_other_questions():
    assert one_each(RelationsAnswer, "pairs", "pair", 2) is TWO
    three = one_each(RelationsAnswer, "pairs", "pair", 3)
    prompt = Prompt(name="p", system="s", user="u")
    assert request_hash("m", prompt, TWO) != request_hash("m", prompt, three)
    assert TWO.__name__ == three.__name__ == "RelationsAnswer"


SAID = (("Ann", (3, 5)), ("Ben", (4,)))


def test_a_memory_names_a_line_of_its_own_speaker():
    schema = strict_schema(memories_form(SAID))
    assert is_strict(schema)
    ann, ben = (schema["$defs"][f"Memory{place}"]["properties"] for place in (1, 2))
    assert [ann[name]["enum"] for name in ("speaker", "own_line")] == [["Ann"], [3, 5]]
    assert [ben[name]["enum"] for name in ("speaker", "own_line")] == [["Ben"], [4]]
    assert schema["$defs"]["Line"]["enum"] == [3, 4, 5]
    assert "enum" not in str(strict_schema(MemoriesAnswer))


def test_whatever_fits_the_schema_of_memories_cites_its_speaker():
    form = memories_form(SAID)
    for number in range(50):
        answer = form.model_validate(SchemaAnswers(strict_schema(form), f"prompt {number}").make())
        assert all(memory.cites[0] in dict(SAID)[memory.speaker] for memory in answer.memories)


def test_memories_are_recorded_with_all_lines_they_cite_and_read_again():
    told = '{"memories": [{"speaker": "Ann", "text": "Ann left.", "own_line": 5, "cites": [4, 5, 4]}]}'
    answer = read_answer(told, memories_form(SAID))
    assert answer.memories[0].cites == (5, 4, 4)
    assert read_answer(answer.model_dump_json(), memories_form(SAID)) == answer


@pytest.mark.parametrize("memory", ['{"own_line": 3}', '{"speaker": "Ann", "text": "x", "own_line": "a", "cites": []}'])
def test_memories_of_no_form_are_refused(memory: str):
    with pytest.raises(AnswerInvalid):
        read_answer(f'{{"memories": [{memory}]}}', memories_form(SAID))


def test_one_who_speaks_alone_is_the_only_choice():
    form = memories_form((("Ann", (1, 2)),))
    assert strict_schema(form)["properties"]["memories"]["items"] == {"$ref": "#/$defs/Memory1"}


def test_plausible_answers_tile_and_cite():
    rows = "\n".join(f"[{n}] {'Ann' if n % 2 else 'Ben'}: line {n}" for n in range(1, 21))
    answer = SegmentsAnswer.model_validate(plausible.segments(rows))
    assert answer.fault(20) is None
    assert len(answer.segments) > 1
    lines = "\n".join(f"[{n}] Ann (2026-03-01): line {n}" for n in range(1, 21))
    told = MemoriesAnswer.model_validate(plausible.memories(lines))
    assert told.memories
    assert {memory.speaker for memory in told.memories} == {"Ann"}
