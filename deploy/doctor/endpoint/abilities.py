"""Abilities of an endpoint: forms of answers, thinking, temperature and seed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from eunoe.deploy.doctor.endpoint.probe import ProbeAnswer, Prober
from eunoe.deploy.doctor.endpoint.reach import Reached
from eunoe.deploy.doctor.findings import Findings
from eunoe.workers.models.endpoint.dialect import Formatting
from eunoe.workers.models.questions.reading import bare_json

UNGUESSABLE = "zq_harbour_41"
"""A field that an answer has only where the schema was read."""
_COLOUR = "Name one colour, as a JSON object."
_DRAW = "Write a random number of twelve digits and nothing else."
_SEED = 7
ANSWER_TOKENS = 1024


@dataclass(frozen=True, slots=True)
class Abilities:
    """Parameters that the endpoint follows."""

    formatting: Formatting
    """The way to ask for the form of an answer."""
    thinks: bool
    thinking_tokens: int
    """Tokens of an answer of one word, thoughts included; 0 for a model that does not think."""
    temperature: bool
    seed: bool


async def find_abilities(prober: Prober, reached: Reached, findings: Findings) -> Abilities:
    """Ask for a form, and with a temperature and a seed."""
    findings.step("schema")
    formatting = await _schema(prober, findings)
    thinks, tokens = _thinking(reached.answer, findings)
    findings.step("temperature and seed")
    temperature = await _accepts(prober, findings, temperature=0.0)
    seed = await _accepts(prober, findings, seed=_SEED)
    fixed: dict[str, object] = {**({"temperature": 0.0} if temperature else {}), **({"seed": _SEED} if seed else {})}
    await _repeats(prober, fixed, findings)
    return Abilities(formatting, thinks, tokens, temperature, seed)


def _form(*, bounded: bool) -> Mapping[str, Any]:
    text: dict[str, Any] = {"type": "string", **({"maxLength": 40} if bounded else {})}
    schema = {
        "type": "object",
        "properties": {UNGUESSABLE: text},
        "required": [UNGUESSABLE],
        "additionalProperties": False,
    }
    return {"type": "json_schema", "json_schema": {"name": "Colour", "strict": True, "schema": schema}}


async def _schema(prober: Prober, findings: Findings) -> Formatting:
    """Find out whether the schema decides over the answer, and whether it may have bounds."""
    answer, found = await prober.chat(_COLOUR, ANSWER_TOKENS, response_format=_form(bounded=True)), Formatting.BOUNDED
    if answer.is_refused:
        answer, found = (
            await prober.chat(_COLOUR, ANSWER_TOKENS, response_format=_form(bounded=False)),
            Formatting.PLAIN,
        )
    if answer.is_refused:
        findings.warn("json_schema is refused: the form of answers rests on the prompt alone; expect more corrections")
        plain = await prober.chat(_COLOUR, ANSWER_TOKENS, response_format={"type": "json_object"})
        return Formatting.TEXT if plain.is_completion else Formatting.BARE
    if not answer.is_completion:
        findings.warn(f"whether schemas are followed is not known: {answer.fault}")
    elif answer.cut and not answer.text.strip():
        findings.warn("whether schemas are followed is not known: the model's thoughts use up the answer")
    elif not _has_field(answer.text):
        findings.warn(
            "json_schema is accepted and ignored: the form of answers rests on the prompt alone;"
            " expect more corrections"
        )
    elif found is Formatting.BOUNDED:
        findings.ok("json_schema is followed, with lengths and ranges")
    else:
        findings.ok("json_schema is followed; lengths and ranges in it are refused and left out")
    return found


def _has_field(text: str) -> bool:
    try:
        found = orjson.loads(bare_json(text))
    except ValueError:
        return False
    return isinstance(found, dict) and list(found) == [UNGUESSABLE]


def _thinking(answer: ProbeAnswer, findings: Findings) -> tuple[bool, int]:
    tokens = answer.completion_tokens or 0
    if answer.cut and not answer.text.strip():
        findings.warn(f"the model thinks for more than {tokens} tokens before one word: give it room or less effort")
        return True, tokens
    if answer.thought:
        findings.note(f"the model thinks before it answers: {tokens} tokens for one word")
        return True, tokens
    findings.ok("the model answers without thinking aloud")
    return False, 0


async def _accepts(prober: Prober, findings: Findings, **parameter: object) -> bool:
    """Whether a request with this parameter is taken; one that is not refused says nothing against it."""
    (name,) = parameter
    answer = await prober.chat(_DRAW, ANSWER_TOKENS, **parameter)
    if answer.is_refused:
        findings.note(f"{name} is not accepted, and left out")
    elif not answer.is_completion:
        findings.warn(f"whether {name} is accepted is not known: {answer.fault}")
    return not answer.is_refused


async def _repeats(prober: Prober, fixed: Mapping[str, object], findings: Findings) -> None:
    answers = [await prober.chat(_DRAW, ANSWER_TOKENS, **fixed) for _ in range(2)]
    if not all(answer.is_completion for answer in answers):
        findings.note("whether the same question gets the same answer is not known: it was not answered twice")
    elif len({answer.text.strip() for answer in answers}) == 1:
        findings.ok(f"the same question gets the same answer ({', '.join(fixed) or 'no parameters'})")
    else:
        findings.note(
            "the same question may get another answer; eunoe records answers, so rebuilds do not depend on it"
        )
