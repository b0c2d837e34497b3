import pytest

from eunoe.schemas.base import Value
from eunoe.schemas.ports import Prompt
from eunoe.workers.models.dialect import Dialect, Formatting, Sampling, adapt, request_body

PROMPT = Prompt(name="p/1", system="Be brief.", user="Say it.", max_tokens=100)


class Said(Value):
    text: str


@pytest.mark.parametrize(
    ("refusal", "learned"),
    [
        (
            "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'",
            Dialect(length_field="max_completion_tokens"),
        ),
        ("'temperature' does not support 0 with this model", Dialect(temperature=False)),
        ("response_format: 'maxLength' is not permitted", Dialect(formatting=Formatting.PLAIN)),
        ("response_format type json_schema is unavailable", Dialect(formatting=Formatting.TEXT)),
        ("something else", None),
    ],
)
def test_a_refusal_changes_only_what_it_names(refusal: str, learned: Dialect | None):
    assert adapt(Dialect(), refusal) == learned


def test_learning_comes_to_an_end():
    everything = "max_completion_tokens temperature seed maxLength json_schema"
    dialect: Dialect | None = Dialect()
    for _ in range(5):
        assert dialect is not None
        dialect = adapt(dialect, everything)
    assert dialect is not None
    assert dialect.formatting is Formatting.TEXT
    assert adapt(dialect, everything) is None


def test_the_schema_goes_into_the_system_text_where_the_endpoint_knows_none():
    body = request_body(PROMPT, Said, Dialect(formatting=Formatting.TEXT), Sampling())
    assert body["response_format"] == {"type": "json_object"}
    system = body["messages"][0]["content"]
    assert system.startswith("Be brief.")
    assert '"additionalProperties": false' in system


def test_a_reasoning_model_gets_room_to_think():
    body = request_body(PROMPT, Said, Dialect(length_field="max_completion_tokens"), Sampling(thinking_tokens=2000))
    assert body["max_completion_tokens"] == 2100
    assert body["temperature"] == 0.0
    assert "max_tokens" not in body
