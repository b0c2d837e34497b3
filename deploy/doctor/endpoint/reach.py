"""The first question to an endpoint: whether address, key and model are right."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from eunoe.deploy.doctor.endpoint.probe import ProbeAnswer, Prober
from eunoe.deploy.doctor.findings import Findings
from eunoe.schemas.errors import Refused, Unavailable
from eunoe.workers.models.endpoint.answering_model import is_another, named_model
from eunoe.workers.models.endpoint.client import Endpoint
from eunoe.workers.models.endpoint.retrying import NoAnswerInTime

HELLO = "Answer with the one word: ready"
HELLO_TOKENS = 512
"""Room for an answer of one word and the thoughts of a model that thinks briefly."""
THINKING_TOKENS = 2048
"""More room, once the model is seen to think."""
_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Reached:
    """An endpoint that answers."""

    answer: ProbeAnswer
    """The answer to `HELLO`."""
    models: Sequence[Mapping[str, Any]]
    """The models that it lists; empty where it lists none."""

    def listed(self, model: str) -> Mapping[str, Any]:
        """The entry of a model; empty where it has none."""
        return next((one for one in self.models if one.get("id") == model), {})


async def reach(prober: Prober, findings: Findings) -> Reached:
    """Ask for one word. Raises `Refused` for a wrong key, model or address, `Unavailable` without an answer."""
    endpoint = prober.endpoint
    findings.step("one word")
    answer = await prober.chat(HELLO, HELLO_TOKENS)
    if answer.is_completion:
        findings.ok(f"{endpoint.server} answers: {answer.seconds:.1f} s for one word")
        named = named_model(answer.body)
        if is_another(endpoint.model, named):
            findings.note(f"its answers name the model {named!r}: is it the one that is meant by {endpoint.model!r}?")
        prober.room = THINKING_TOKENS if answer.thought or answer.cut else 0
        findings.step("list of models")
        return Reached(answer, await prober.models() or ())
    if answer.status in {401, 402, 403}:
        raise Refused(str(answer.fault))
    findings.step("list of models")
    raise await _explained(prober, answer, await prober.models())


async def _explained(prober: Prober, answer: ProbeAnswer, models: Sequence[Mapping[str, Any]] | None) -> Exception:
    endpoint = prober.endpoint
    names = [str(one["id"]) for one in models or () if "id" in one]
    if names and endpoint.model not in names:
        near = difflib.get_close_matches(endpoint.model, names, n=_SHOWN, cutoff=0.3) or names[:_SHOWN]
        return Refused(
            f"{endpoint.base_url} has no model {endpoint.model!r}; it has {', '.join(near)}"
            f"{' …' if len(names) > len(near) else ''}: set EUNOE_MODEL"
        )
    if models is None and (better := await _below(endpoint)) is not None:
        return Refused(f"{endpoint.base_url} is no endpoint, {better} is: set OPENAI_BASE_URL={better}")
    if answer.status == 0 and answer.fault is not None and "cannot be reached" in str(answer.fault):
        return Unavailable(f"{answer.fault}: is the address right (OPENAI_BASE_URL)?", endpoint.server)
    if isinstance(answer.fault, NoAnswerInTime):
        return _away(answer, endpoint)
    if models is None and answer.status in {0, 200, 404, 405}:
        return Refused(f"{endpoint.base_url} is no OpenAI-compatible endpoint: check OPENAI_BASE_URL")
    if answer.fault is None or answer.status in {400, 422}:
        return Refused(str(answer.fault or f"{endpoint.server} answered with no chat completion"))
    return answer.fault if isinstance(answer.fault, Refused | Unavailable) else _away(answer, endpoint)


def _away(answer: ProbeAnswer, endpoint: Endpoint) -> Exception:
    return Unavailable(str(answer.fault), endpoint.server)


async def _below(endpoint: Endpoint) -> str | None:
    """The address with ``/v1`` added, where an endpoint is there and not here."""
    if endpoint.base_url.rstrip("/").endswith("/v1"):
        return None
    prober = Prober(replace(endpoint, base_url=f"{endpoint.base_url.rstrip('/')}/v1"))
    try:
        return prober.endpoint.base_url if await prober.models() is not None else None
    finally:
        await prober.aclose()
