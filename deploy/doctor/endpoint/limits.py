"""Limits of an endpoint: the longest answer and the context window, in tokens, learned by asking for too much."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eunoe.deploy.doctor.endpoint.probe import ProbeAnswer, Prober
from eunoe.deploy.doctor.endpoint.reach import HELLO, Reached
from eunoe.deploy.doctor.findings import Findings
from eunoe.workers.models.endpoint.retrying import NoAnswerInTime

TOO_MUCH = 10_000_000
"""Tokens that no model answers."""
_CAPS = (131_072, 65_536, 32_768, 16_384, 8_192, 4_096, 2_048, 1_024)
_CONTEXT_FIELDS = ("max_model_len", "context_length", "context_window", "max_context_length", "n_ctx", "n_ctx_train")
_OUTPUT_FIELDS = ("max_completion_tokens", "max_output_tokens", "max_output_length")
_WORD = "marigold"
_FILLER = "The ferry left the harbour at nine in the morning with forty people and two dogs on board. "
_FILLER_TOKENS = 19
NEEDED_CONTEXT = 8_192
"""Below this window prompts are split into many small ones."""


@dataclass(frozen=True, slots=True)
class EndpointLimits:
    """Limits in tokens; `None` where the endpoint does not show it."""

    output: int | None = None
    context: int | None = None


async def find_limits(
    prober: Prober, reached: Reached, findings: Findings, *, fill_tokens: int, read_a_second: float | None
) -> EndpointLimits:
    """Learn the limits from the list of models, from refusals, and from a prompt of about ``fill_tokens`` tokens.

    ``read_a_second``: tokens of a prompt that are read in a second. A prompt that takes longer than a call may last is
    not sent.
    """
    entry = reached.listed(prober.endpoint.model)
    output, context = _listed(entry, _OUTPUT_FIELDS), _listed(entry, _CONTEXT_FIELDS)
    findings.step("longest answer")
    asked = await prober.chat(HELLO, TOO_MUCH)
    if asked.is_refused and asked.refusal is not None:
        output, context = output or asked.refusal.cap, context or asked.refusal.context
        if output is None and context is None:
            output = await _largest_accepted(prober)
    _tell_output(output, asked, findings)
    needed_s = fill_tokens / read_a_second if read_a_second else 0.0
    if needed_s > prober.endpoint.timeout_s:
        findings.note(
            f"a prompt of {fill_tokens} tokens was not tried: to read it takes about {needed_s:.0f} s, and a call may"
            f" last {prober.endpoint.timeout_s:g} s"
        )
    elif context is None or context > fill_tokens:
        findings.step(f"a prompt of {fill_tokens} tokens")
        context = await _fill(prober, fill_tokens, context, findings)
    _tell_context(context, findings)
    return EndpointLimits(output, context)


def _listed(entry: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    """The smallest of the limits that an entry of the list of models names, at any place in it."""
    found = [value for name, value in _walk(entry) if name in names and isinstance(value, int) and value > 0]
    return min(found, default=None)


def _walk(node: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [
        pair for name, value in node.items() for pair in (_walk(value) if isinstance(value, dict) else [(name, value)])
    ]


async def _largest_accepted(prober: Prober) -> int | None:
    """The largest of some usual limits that is not refused; each refusal costs nothing."""
    for tokens in _CAPS:
        answer = await prober.chat(HELLO, tokens)
        if answer.is_completion:
            return tokens
        if not answer.is_refused:
            return None
    return None


def _tell_output(output: int | None, asked: ProbeAnswer, findings: Findings) -> None:
    if output is not None:
        findings.ok(f"answers of up to {output} tokens")
    elif asked.is_completion:
        findings.note("any length of an answer is accepted: the endpoint shows no largest output")
    else:
        findings.note("the largest output is not known")


async def _fill(prober: Prober, tokens: int, known: int | None, findings: Findings) -> int | None:
    """Ask for a word at the beginning of a long prompt; returns the window as far as it is known then."""
    filler = _FILLER * (tokens // _FILLER_TOKENS)
    user = f"The name of the boat is {_WORD}.\n{filler}\nWhat is the name of the boat? Answer with the one word."
    answer = await prober.chat(user, 512)
    if isinstance(answer.fault, NoAnswerInTime):
        findings.warn(f"a prompt of about {tokens} tokens was not answered in {prober.endpoint.timeout_s:g} s")
        return known
    if not answer.is_completion:
        said = None if answer.refusal is None else answer.refusal.context
        if said is None:
            findings.warn(
                f"a prompt of about {tokens} tokens is refused; the endpoint does not say how long one may be"
            )
        return said
    if _WORD in answer.text.lower():
        read = answer.prompt_tokens
        findings.ok(
            f"a prompt of {read or f'about {tokens}'} tokens is read to its beginning, in {answer.seconds:.1f} s"
        )
    elif answer.prompt_tokens is not None and answer.prompt_tokens < tokens * 0.7:
        findings.fault(
            f"the beginning of long prompts is cut off without a word: of about {tokens} tokens {answer.prompt_tokens}"
            " were read. Raise the window at the server (Ollama: num_ctx, OLLAMA_CONTEXT_LENGTH)"
        )
        return answer.prompt_tokens
    else:
        findings.warn(f"a word at the beginning of a prompt of about {tokens} tokens was not found by the model")
    return known


def _tell_context(context: int | None, findings: Findings) -> None:
    if context is None:
        findings.note("the context window is not known")
    elif context < NEEDED_CONTEXT:
        findings.warn(f"a context window of {context} tokens: {NEEDED_CONTEXT} or more are better for long sessions")
    else:
        findings.ok(f"a context window of {context} tokens")
