import itertools

import pytest

from eunoe.schemas.base import Value
from eunoe.schemas.model_ports import Prompt
from eunoe.workers.models.endpoint.dialect import Dialect, Formatting, Sampling, dialects_after, request_body
from eunoe.workers.models.endpoint.refusals import RefusalKind, read_refusal
from eunoe.workers.models.questions.answer_forms import FORMS, StartsForm, answer_like
from eunoe.workers.models.questions.forms import strict_schema
from eunoe.workers.models.questions.reading import read_answer
from tests.support.model_server.schema_answers import is_strict

PROMPT = Prompt(name="p/1", system="Be brief.", user="Say it.", max_tokens=100)


class Said(Value):
    text: str


def named(param: str, message: str) -> frozenset[str]:
    return read_refusal(400, "invalid_request_error", param, message).parameters


@pytest.mark.parametrize(
    ("param", "message", "first"),
    [
        (
            "max_tokens",
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'.",
            Dialect(length_field="max_completion_tokens"),
        ),
        ("", "'temperature' does not support 0 with this model", Dialect(temperature=False)),
        ("", "Unrecognized request argument supplied: reasoning_effort", Dialect(reasoning_effort=False)),
        ("", "Unrecognized request arguments supplied: seed, store", Dialect(seed=False)),
        ("", "Argument not supported on this model: reasoning_effort", Dialect(reasoning_effort=False)),
        ("", "Model grok-4 does not support parameter reasoningEffort.", Dialect(reasoning_effort=False)),
        ("", '{"message": "reasoning_effort is not supported for this model"}', Dialect(reasoning_effort=False)),
        ("", "response_format: 'maxLength' is not permitted", Dialect(formatting=Formatting.PLAIN)),
        ("response_format", "json_schema is unavailable", Dialect(formatting=Formatting.PLAIN)),
        ("", "something else", Dialect(formatting=Formatting.PLAIN)),
    ],
)
def test_a_refusal_changes_first_what_it_names(param: str, message: str, first: Dialect):
    assert next(dialects_after(Dialect(), named(param, message))) == first


def test_words_of_a_user_that_the_endpoint_repeats_change_no_parameter():
    message = "Could not process the text: Ann said the temperature rose and the seed was sown, maximum 3, schema"
    assert named("messages", message) == frozenset()


def test_a_refused_form_is_asked_for_in_simpler_ways_until_none_is_left():
    ways = [dialect.formatting for dialect in dialects_after(Dialect(), frozenset({"response_format"}))]
    assert ways == [Formatting.PLAIN, Formatting.TEXT, Formatting.BARE]
    assert list(itertools.islice(dialects_after(Dialect(formatting=Formatting.BARE), frozenset()), 3)) == []


@pytest.mark.parametrize(
    ("status", "code", "message", "cap", "context", "prompt"),
    [
        (
            400,
            "invalid_value",
            "max_tokens is too large: 7456. This model supports at most 4096 completion tokens, whereas you provided"
            " 7456.",
            4096,
            None,
            None,
        ),
        (
            400,
            "context_length_exceeded",
            "This model's maximum context length is 8192 tokens. However, you requested 10000 tokens (8000 in the"
            " messages, 2000 in the completion). Please reduce the length of the messages or completion.",
            None,
            8192,
            8000,
        ),
        (
            400,
            "BadRequestError",
            "'max_tokens' or 'max_completion_tokens' is too large: 7456. This model's maximum context length is 8192"
            " tokens and your request has 3000 input tokens (7456 > 8192 - 3000).",
            None,
            8192,
            3000,
        ),
        (
            400,
            "BadRequestError",
            "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
            None,
            4096,
            5000,
        ),
        (
            400,
            "exceed_context_size_error",
            "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
            None,
            4096,
            5000,
        ),
        (
            422,
            "validation",
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 3000 `inputs` tokens"
            " and 2000 `max_new_tokens`",
            None,
            4096,
            3000,
        ),
        (
            422,
            "validation",
            "Input validation error: `inputs` must have less than 4095 tokens. Given: 5000",
            None,
            4095,
            None,
        ),
        (400, "", "the input length exceeds the context length", None, None, None),
        (
            400,
            "",
            "litellm.ContextWindowExceededError: litellm.BadRequestError: prompt is too long: 210000 tokens > 200000"
            " maximum",
            None,
            200000,
            210000,
        ),
        (
            400,
            "invalid_request_error",
            "max_tokens: 8192 > 4096, which is the maximum allowed number of output tokens for the model",
            4096,
            None,
            None,
        ),
        (
            400,
            "",
            "`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the"
            " `context_window` for this model",
            8192,
            None,
            None,
        ),
        (400, "", "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", 8192, None, None),
        (
            400,
            "",
            "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
            None,
            32768,
            40000,
        ),
        (
            400,
            "",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            None,
            1048576,
            1200000,
        ),
        (413, "", "Payload Too Large", None, None, None),
        (
            400,
            "",
            "This model's maximum context length is 128,000 tokens. Your messages resulted in 131,421 tokens.",
            None,
            128_000,
            131_421,
        ),
        (
            400,
            "invalid-argument",
            "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
            None,
            131_072,
            537_812,
        ),
        (
            400,
            "",
            "The maximum tokens you requested exceeds the model limit of 4096. Try again with a maximum tokens value"
            " that is lower than 4096.",
            4096,
            None,
            None,
        ),
        (
            500,
            "server_error",
            "input (523 tokens) is too large to process. increase the physical batch size (current batch size: 512)",
            None,
            None,
            None,
        ),
    ],
)
def test_what_is_too_large_is_told_in_the_words_of_many_servers(
    status: int, code: str, message: str, cap: int | None, context: int | None, prompt: int | None
):
    found = read_refusal(status, code, "", message)
    assert (found.kind, found.cap, found.context, found.prompt_tokens) == (
        RefusalKind.TOO_LARGE,
        cap,
        context,
        prompt,
    )


@pytest.mark.parametrize(
    ("status", "code", "message", "kind"),
    [
        (401, "invalid_api_key", "Incorrect API key provided", RefusalKind.DEPLOYMENT),
        (400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", RefusalKind.DEPLOYMENT),
        (404, "", 'model "x" not found, try pulling it first', RefusalKind.DEPLOYMENT),
        (400, "", "Invalid model name passed in model=x. Call `/v1/models`", RefusalKind.DEPLOYMENT),
        (400, "content_filter", "The response was filtered", RefusalKind.CONTENT),
        (
            400,
            "",
            "The response was filtered due to the prompt triggering Azure OpenAI's content management policy",
            RefusalKind.CONTENT,
        ),
        (403, "", "Your chosen model requires moderation and your input was flagged for violence", RefusalKind.CONTENT),
        (401, "", "Your account was flagged by our systems", RefusalKind.DEPLOYMENT),
        (400, "", "messages: roles must alternate", RefusalKind.NOT_UNDERSTOOD),
        (
            503,
            "",
            "Upstream failed, maximum of retries exceeded: {'model': 'm', 'max_tokens': 900}",
            RefusalKind.NOT_UNDERSTOOD,
        ),
    ],
)
def test_other_refusals_are_told_apart(status: int, code: str, message: str, kind: RefusalKind):
    assert read_refusal(status, code, "", message).kind is kind


def test_the_schema_goes_into_the_system_text_where_the_endpoint_knows_none():
    body = request_body(PROMPT, Said, Dialect(formatting=Formatting.TEXT), Sampling())
    assert body["response_format"] == {"type": "json_object"}
    system = body["messages"][0]["content"]
    assert system.startswith("Be brief.")
    assert '"additionalProperties": false' in system


def test_a_prompt_of_a_fixed_form_names_its_fields_itself():
    prompt = PROMPT.model_copy(update={"system": answer_like(StartsForm)})
    body = request_body(prompt, StartsForm, Dialect(formatting=Formatting.BARE), Sampling())
    assert "response_format" not in body
    assert body["messages"][0]["content"] == prompt.system


def test_a_reasoning_model_gets_room_to_think():
    sampling = Sampling(thinking_tokens=2000, reasoning_effort="low", seed=3)
    body = request_body(PROMPT, Said, Dialect(length_field="max_completion_tokens"), sampling)
    assert body["max_completion_tokens"] == 2100
    assert (body["temperature"], body["seed"], body["reasoning_effort"]) == (0.0, 3, "low")
    assert "max_tokens" not in body


def properties(schema: object) -> int:
    if isinstance(schema, list):
        return sum(map(properties, schema))
    if not isinstance(schema, dict):
        return 0
    return len(schema.get("properties", {})) + sum(map(properties, schema.values()))


@pytest.mark.parametrize("spec", FORMS, ids=lambda spec: spec.name)
def test_a_fixed_form_is_small_and_strict_and_its_example_fits(spec):
    schema = strict_schema(spec.form)
    assert is_strict(schema)
    assert properties(schema) <= 12
    written = repr(schema)
    assert written.count("'enum'") <= 1
    example = read_answer(spec.example, spec.form)
    assert spec.form.from_json(example.model_dump_json()) == example
