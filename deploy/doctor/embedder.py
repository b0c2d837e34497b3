"""The checks of the embedder and of the compressor."""

from typing import assert_never

import numpy as np

from eunoe.deploy.clients.models import Environment, endpoint, llmlingua_model
from eunoe.deploy.clients.shared import open_redis, store_keys
from eunoe.deploy.doctor.endpoint.probe import Prober
from eunoe.deploy.doctor.findings import Findings
from eunoe.deploy.settings import Settings
from eunoe.deploy.settings.embedders import EmbedderKind, EmbedderName, embedder_name
from eunoe.schemas.errors import Refused, Unavailable
from eunoe.workers.models.local.compression import check_llmlingua
from eunoe.workers.models.local.embedding import check_fastembed
from eunoe.workers.stores.records.embedder_probe import PROBE_TEXT, RedisEmbedderProbe, changed_model


async def check_embedder(settings: Settings, environment: Environment, findings: Findings) -> None:
    """Add the embedder; of an endpoint the length of its vectors. Raises `Refused`, `Unavailable`."""
    named = embedder_name(settings.embedding)
    match named.kind:
        case EmbedderKind.WORDLLAMA:
            findings.ok("wordllama, in this process; it knows English best")
        case EmbedderKind.FASTEMBED:
            check_fastembed()
            findings.ok(f"fastembed {named.model}".strip() + ", in this process")
        case EmbedderKind.ENDPOINT:
            await _check_endpoint(settings, environment, named, findings)
        case _:
            assert_never(named.kind)


async def check_compressor(settings: Settings, findings: Findings) -> None:
    """Add the compressor; raises `Refused` where its package is not installed."""
    model = llmlingua_model(settings)
    if model is not None:
        check_llmlingua(model)
    findings.ok("the offline rules" if model is None else f"llmlingua {model}, in this process")


async def _check_endpoint(
    settings: Settings, environment: Environment, named: EmbedderName, findings: Findings
) -> None:
    model, dimensions = named.model, named.dimensions
    prober = Prober(endpoint(settings, environment, model))
    try:
        findings.step("one text")
        answer = await prober.embed(PROBE_TEXT, model)
    finally:
        await prober.aclose()
    if answer.fault is not None:
        raise (
            answer.fault
            if isinstance(answer.fault, Refused | Unavailable)
            else Unavailable(str(answer.fault), prober.endpoint.server)
        )
    length = _length(answer.body)
    if length is None:
        findings.fault(f"{prober.endpoint.server} answers /embeddings with no vector: it is no embedding model")
    elif length != dimensions:
        findings.fault(
            f"{prober.endpoint.server} makes vectors of {length} numbers, not {dimensions}",
            {"EUNOE_EMBEDDING": f"endpoint:{model}:{length}"},
        )
    else:
        findings.ok(f"{prober.endpoint.server}: vectors of {length} numbers in {answer.seconds:.1f} s")
        if settings.redis_url is not None:
            findings.step("the model of the vectors")
            await _check_model(settings, f"{model}-{length}", _vector(answer.body), findings)


async def _check_model(settings: Settings, name: str, now: list[float], findings: Findings) -> None:
    """Compare the vector of the fixed sentence with the one that the generation began with. Raises `Unavailable`."""
    async with open_redis(settings) as redis:
        first = await RedisEmbedderProbe(redis, store_keys(settings)).first(name)
    if first is not None and (reason := changed_model(first, np.asarray(now, np.float32))) is not None:
        findings.fault(reason)


def _length(body: object) -> int | None:
    return len(_vector(body)) or None


def _vector(body: object) -> list[float]:
    """The vector of an answer; an empty one where there is none."""
    data = body.get("data") if isinstance(body, dict) else None
    first = data[0] if isinstance(data, list) and data else None
    vector = first.get("embedding") if isinstance(first, dict) else None
    return vector if isinstance(vector, list) else []
