"""The meaning of a refused request (HTTP 4xx), read from its status, code, parameter and words.

The phrases are those of OpenAI, Azure, vLLM, llama.cpp, Ollama, TGI, LiteLLM, Anthropic, Mistral, Groq, DeepSeek and
Gemini, xAI and Bedrock. A message may repeat a prompt: it is searched for phrases and numbers, and never logged.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

BOUND_WORDS: Final = frozenset(
    {"maxlength", "minlength", "maxitems", "minitems", "pattern", "minimum", "maximum", "multipleof", "format"}
)
"""Keywords of JSON Schema that bound a value."""

FORM_WORDS: Final = frozenset({"response_format", "json_schema", "json_object", "strict", "schema", "guided_json"})
"""Parameters that request the form of an answer."""

PARAMETERS: Final = frozenset({"max_tokens", "max_completion_tokens", "temperature", "seed", "reasoning_effort"})
"""The other parameters of our requests."""

_OURS: Final = PARAMETERS | FORM_WORDS | BOUND_WORDS


class RefusalKind(StrEnum):
    """The subject of a refusal."""

    TOO_LARGE = "too_large"
    """The prompt is longer than the context, or more tokens were asked for than the model gives."""
    CONTENT = "content"
    """A filter refused the prompt."""
    DEPLOYMENT = "deployment"
    """The key, the account, the model or the address."""
    NOT_UNDERSTOOD = "not_understood"
    """Anything else: most often a parameter that the endpoint does not know."""


@dataclass(frozen=True, slots=True)
class RefusalReading:
    """A refusal, understood."""

    kind: RefusalKind
    cap: int | None = None
    """The most tokens of an answer, where it says so."""
    context: int | None = None
    """The most tokens of prompt and answer, where it says so."""
    prompt_tokens: int | None = None
    """The endpoint's count of the prompt's tokens, where it says so."""
    about_output: bool = False
    """Whether the tokens of the answer alone are too many."""
    parameters: frozenset[str] = frozenset()
    """The parameters of ours that it names, in lower case."""


def is_passing(status: int) -> bool:
    """Whether a request that got this status may well be taken later: the server is busy, or has a fault of its own."""
    return status in _BUSY or status >= 500


def is_redirect(status: int) -> bool:
    """Whether a status sends a request to another place, or says where it might be sent."""
    return 300 <= status < 400


def is_about_credit(code: str, message: str) -> bool:
    """Whether a refusal says that the account has no credit left, or has reached the limit that was set for it."""
    return code.casefold() in _NO_CREDIT_CODES or any(phrase in message.casefold() for phrase in _NO_CREDIT_PHRASES)


def read_refusal(status: int, code: str, param: str, message: str) -> RefusalReading:
    """Read a refusal. ``code`` and ``param``: of the error document, "" where there is none."""
    code, said = code.casefold(), message.casefold()
    # an account may be flagged, too, or over its limit with status 400: that is no prompt's fault
    if status in _OF_THE_ACCOUNT or is_redirect(status) or is_about_credit(code, said):
        return RefusalReading(RefusalKind.DEPLOYMENT)
    if code in _CONTENT_CODES or any(phrase in said for phrase in _CONTENT_PHRASES):
        return RefusalReading(RefusalKind.CONTENT)
    if _is_deployment(status, code, param, said):
        return RefusalReading(RefusalKind.DEPLOYMENT)
    named = _named(param, message)
    large = _too_large(status, code, said, named)
    return large or RefusalReading(RefusalKind.NOT_UNDERSTOOD, parameters=named)


_BUSY: Final = frozenset({408, 409, 425, 429})
_OF_THE_ACCOUNT: Final = frozenset({401, 402})
_CONTENT_CODES: Final = frozenset(
    {
        "content_filter",
        "content_policy_violation",
        "responsibleaipolicyviolation",
        "invalid_prompt",
        "data_inspection_failed",
    }
)
_CONTENT_PHRASES: Final = (
    "content management policy",
    "content_filter",
    "content filter",
    "content policy",
    "usage policy",
    "flagged by",
    "was flagged",
    "input was rejected by the safety",
    "data may contain inappropriate content",
)
_NO_CREDIT_CODES: Final = frozenset(
    {"insufficient_quota", "exceeded_current_quota_error", "billing_hard_limit_reached"}
)
_NO_CREDIT_PHRASES: Final = ("credit balance is too low to access", "billing hard limit has been reached")
_KEY_PHRASES: Final = ("api key not valid", "invalid api key", "incorrect api key", "api_key_invalid")
_MODEL_PHRASES: Final = (
    "invalid model name",
    "model not found",
    "does not exist",
    "unknown model",
    "is not a valid model",
)
_WITHOUT_PARAMETERS: Final = "can handle the requested parameters"
"""OpenRouter's 404 where a model has providers, and none that takes what was asked for."""
_MODEL_CODES: Final = frozenset({"model_not_found", "deploymentnotfound", "invalid_api_key"})


def _is_deployment(status: int, code: str, param: str, said: str) -> bool:
    if _WITHOUT_PARAMETERS in said:
        return False
    if status in (403, 404, 405) or code in _MODEL_CODES:
        return True
    return any(phrase in said for phrase in _KEY_PHRASES) or (
        ("model" in (param, code) or "model" in said) and any(phrase in said for phrase in _MODEL_PHRASES)
    )


def _patterns(*patterns: str) -> tuple[re.Pattern[str], ...]:
    """The patterns, compiled."""
    return tuple(map(re.compile, patterns))


_N: Final = r"[`'\"(\[]?(\d{1,3}(?:,\d{3})+|\d{2,8})"
"""A number of tokens, also one in groups: ``128,000``."""
_CONTEXT: Final = _patterns(
    rf"context (?:length|window|size)(?: is| of)?(?: only)?:? {_N}",
    rf"available context size {_N}",
    rf"maximum (?:model|sequence|input|prompt) length (?:is |of )?{_N}",
    rf"too large for model with {_N} maximum context",
    rf"`?max_new_tokens`? must be <= {_N}",
    rf"must have less than {_N} tokens",
    rf"tokens > {_N} maximum",
    rf"maximum number of tokens allowed {_N}",
    rf"(?:configured |token )limit of {_N}",
    rf"n_ctx\W{{1,4}}{_N}",
    rf"num_ctx\W{{1,4}}{_N}",
)
_CAP: Final = _patterns(
    rf"at most {_N} (?:completion|output) tokens",
    rf"max(?:_completion|_output|_new)?_tokens\W{{0,2}} (?:must|should) be"
    rf" (?:less than or equal to|<=|at most|no more than) {_N}",
    rf"valid range of max_tokens is \[1, ?{_N}",
    rf"max_tokens: \d+ > {_N}",
    rf"maximum (?:value|allowed value) (?:for|of) \W?max(?:_completion|_output|_new)?_tokens\W? (?:is|of) {_N}",
    rf"maximum (?:allowed )?(?:number of )?(?:output|completion) tokens\D{{0,40}}?{_N}",
    rf"max_output_tokens\D{{1,20}}{_N}",
    rf"maximum tokens you requested exceeds the model limit of {_N}",
)
_PROMPT: Final = _patterns(
    rf"{_N} in the (?:messages|prompt|input)",
    rf"(?:request has|you passed|contains(?: at least)?) {_N} (?:input )?tokens",
    rf"(?:messages|prompt|input) (?:resulted in|contains|has) {_N} tokens",
    rf"prompt \(length {_N}",
    rf"given: {_N} `inputs`",
    rf"request {_N} tokens",
    rf"prompt is too long: {_N} tokens",
    rf"input token count {_N}",
    rf"n_prompt_tokens\W{{1,4}}{_N}",
)
_TOO_LARGE_CODES: Final = frozenset(
    {
        *("context_length_exceeded", "string_above_max_length", "request_too_large", "exceed_context_size_error"),
        *("contextwindowexceedederror", "model_max_prompt_tokens_exceeded", "tokens_limit_reached"),
    }
)
_TOO_LARGE_PHRASES: Final = (
    *("context length", "context window", "context size", "maximum model length", "contextwindowexceeded"),
    *("prompt is too long", "prompt too long", "input is too long", "input length exceeds", "too many tokens"),
    *("reduce the length", "request too large", "exceeds the maximum number of tokens", "payload too large"),
    *("token count exceeds", "input tokens exceed", "must have less than", "truncate"),
    "too large to process",
)
_OUTPUT_PARAMETERS: Final = ("max_tokens", "max_completion_tokens", "max_new_tokens", "max_output_tokens")
_OUTPUT_PHRASES: Final = (
    "too large",
    "too high",
    "at most",
    "must be less",
    "must be <=",
    "exceed",
    "valid range",
    "maximum",
)


def _too_large(status: int, code: str, said: str, named: frozenset[str]) -> RefusalReading | None:
    context, cap, prompt = (_first(patterns, said) for patterns in (_CONTEXT, _CAP, _PROMPT))
    about_output = any(name in said or name in named for name in _OUTPUT_PARAMETERS) and any(
        phrase in said for phrase in _OUTPUT_PHRASES
    )
    # a fault of the server's own may repeat our parameters beside words such as "exceeded": it tells no limit by that
    known = status == 413 or code in _TOO_LARGE_CODES or any(phrase in said for phrase in _TOO_LARGE_PHRASES)
    if context is None and cap is None and not known and not (about_output and not is_passing(status)):
        return None
    return RefusalReading(
        RefusalKind.TOO_LARGE,
        cap=cap if context is None else None,
        context=context,
        prompt_tokens=prompt,
        about_output=about_output and context is None,
    )


def _first(patterns: Iterable[re.Pattern[str]], text: str) -> int | None:
    """The number of the first pattern that is found."""
    for pattern in patterns:
        if (found := pattern.search(text)) is not None:
            return int(found[1].replace(",", ""))
    return None


_QUOTED: Final = re.compile(r"[`'\"“‘]([A-Za-z_][A-Za-z_.]{2,60})[`'\"”’]")


_UNQUOTED: Final = tuple(
    map(
        re.compile,
        (
            r"(?i)(?:argument|parameter)s?(?: not supported)?(?: \w{1,12}){0,3}: ([a-z_]{3,60}(?:, [a-z_]{3,60}){0,9})",
            r"(?i)\bsupport parameter ([a-z_]{3,60})",
            r"(?i)(?:\A|[\"'] ?)([a-z_]{3,60}) is not supported\b",
        ),
    )
)
"""Names without quotation marks, where a message says that it is of parameters: it may repeat a prompt elsewhere."""


def _named(param: str, message: str) -> frozenset[str]:
    """The parameters of ours in ``param``, in quotation marks in the message, or named as parameters by it."""
    words = [*param.split("."), *(word for quoted in _QUOTED.findall(message) for word in quoted.split("."))]
    words += [word for pattern in _UNQUOTED for listed in pattern.findall(message) for word in listed.split(", ")]
    plain = {word.casefold().replace("_", "") for word in words}
    return frozenset(name for name in _OURS if name.replace("_", "") in plain)
